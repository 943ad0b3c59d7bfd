// The shape of a line: thin at the word that looks, wide at what it looks at. So it has a direction without an arrow.

const THIN = 0.5; // half of it, at the word that looks
const LOOP = 5; // a word that looks at itself
const SHORTEST = 14;
const BULGE = 0.75; // of its control points is how far a curve swings out

function halfWidth(weight) {
  return 0.6 + 3.6 * weight;
}

// From [x, y] to [u, v]. An arc leaves a column and comes back to it: `room` is how far it may swing out, to the left
// where it is negative, and `tall` how far apart the ends of the longest could be.
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
