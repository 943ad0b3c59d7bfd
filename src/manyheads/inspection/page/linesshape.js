// The shape of a line: thin at the query, wide at the key, which shows its direction without an arrow.

const THIN = 0.5; // half the width at the query
const LOOP = 5; // pixels above and below a word that attends to itself
const SHORTEST = 14;
const BULGE = 0.75; // how far a Bézier curve bulges, relative to its control points

function halfWidth(weight) {
  return 0.6 + 3.6 * weight;
}

// A line from [x, y] to [u, v]. An arc leaves a column and returns to it: `room` is how far it may bulge, to the left
// if negative, and `tall` the largest possible distance between the ends of an arc.
export function shapeOf([x, y], [u, v], weight, room = 0, tall = 1) {
  const loop = room && y === v ? LOOP : 0;
  return ribbon([x, y - loop], [u, v + loop], halfWidth(weight), room ? x + swing(y - v, room, tall) : (x + u) / 2);
}

function swing(span, room, tall) {
  const most = Math.abs(room) / BULGE;
  return Math.sign(room) * Math.min(most, SHORTEST + (most - SHORTEST) * (Math.abs(span) / tall) ** 0.7);
}

function ribbon([x, y], [u, v], wide, middle) {
  const at = (...numbers) => numbers.map((n) => n.toFixed(1)).join(",");
  const there = `M${at(x, y - THIN)}C${at(middle, y - THIN, middle, v - wide, u, v - wide)}`;
  return `${there}L${at(u, v + wide)}C${at(middle, v + wide, middle, y + THIN, x, y + THIN)}Z`;
}

export function opacityOf(weight) {
  return Math.min(1, 0.16 + 0.75 * weight);
}
