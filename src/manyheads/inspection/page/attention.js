// One query of one head, computed once more, every step of it: q·k, scale, mask, softmax, Σ w·v. In 64-bit floats, from
// the 32-bit numbers that the model had. What comes out is compared with the model's own weights.

const PARTS = ["q", "k", "v", "scores"];
const SURELY_SEEN = 1e-6; // the smallest weight that 16 bits cannot have rounded to 0

// {missing: [names]} or {q, keys, largest, sum, output, off}.
export async function computed({ header, planes }, kind, layer, head, row) {
  const names = [`${kind}/${layer}`, ...PARTS.map((part) => `${kind}/${layer}/${part}`)];
  const [weights, ...parts] = await Promise.all(names.map(planes));
  const missing = PARTS.filter((_, n) => !parts[n]);
  if (missing.length || !weights || weights.block > 1) return { missing };
  const [q, k, v, scores] = parts;
  const group = Math.floor(head / (header.model.heads / k.shape[0])); // several query heads may share their keys
  const [query, given, scored] = [slice(q, head, row), slice(weights, head, row), slice(scores, head, row)];
  const keys = [...given.keys()].map((n) => {
    const [key, value] = [slice(k, group, n), slice(v, group, n)];
    const products = query.map((x, i) => x * key[i]);
    const dot = added(products);
    const score = header.model.scale === null ? scored[n] : dot * header.model.scale;
    return { n, key, value, products, dot, score, given: given[n], length: Math.hypot(...value) };
  });
  return { q: query, ...softmax(keys, kind === "decoder" ? row : Infinity) };
}

function slice(plane, head, row) {
  const width = plane.shape[2];
  const from = (head * plane.shape[1] + row) * width;
  return Float64Array.from(plane.data.subarray(from, from + width));
}

function added(values) {
  return values.reduce((a, b) => a + b, 0);
}

// Keys after `last` are masked. Where a model sees through a window, others are, too: such a key has a weight of
// exactly 0 though its score would give it one.
function softmax(keys, last) {
  const given = keys.filter((key) => key.n <= last && key.given > 0);
  const top = highest(given);
  const all = added(given.map((key) => Math.exp(key.score - top)));
  const unseen = (key) => key.given === 0 && Math.exp(key.score - top) / all >= SURELY_SEEN;
  for (const key of keys) key.masked = key.n > last || unseen(key);
  const largest = highest(keys.filter((key) => !key.masked));
  for (const key of keys) key.power = key.masked ? 0 : Math.exp(key.score - largest);
  const sum = added(keys.map((key) => key.power));
  for (const key of keys) key.weight = key.power / sum;
  const output = keys[0].value.map((_, i) => added(keys.map((key) => key.weight * key.value[i])));
  const off = Math.max(...keys.map((key) => Math.abs(key.weight - key.given)));
  return { keys, largest, sum, output, off };
}

function highest(keys) {
  return Math.max(...keys.map((key) => key.score));
}
