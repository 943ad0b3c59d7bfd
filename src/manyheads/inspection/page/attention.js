// One query of one head, computed once more, every step of it: q·k, scale, mask, softmax, Σ w·v. In 64-bit floats, from the
// 32-bit numbers that the model had. What comes out is compared with the model's own weights.

const PARTS = ["q", "k", "v", "scores"];
const SURELY_SEEN = 1e-6; // the smallest weight that 16 bits cannot have rounded to 0

// {missing: [names]} or {q, keys, largest, sum, output, off}.
export async function computed({ header, planes }, kind, layer, head, row) {
  const [weights, ...parts] = await Promise.all(["", ...PARTS.map((part) => `/${part}`)].map((part) => planes(`${kind}/${layer}${part}`)));
  const missing = PARTS.filter((_, n) => !parts[n]);
  if (missing.length || !weights || weights.block > 1) return { missing };
  const [q, k, v, scores] = parts;
  const shared = Math.floor(head / (header.model.heads / k.shape[0])); // several query heads may read the same keys
  const query = slice(q, head, row);
  const keys = [...Array(k.shape[1]).keys()].map((n) => {
    const [key, value] = [slice(k, shared, n), slice(v, shared, n)];
    const products = query.map((x, i) => x * key[i]);
    const dot = sum(products);
    const score = header.model.scale === null ? slice(scores, head, row)[n] : dot * header.model.scale;
    return { n, key, value, products, dot, score, given: slice(weights, head, row)[n], length: Math.hypot(...value) };
  });
  return { q: query, ...softmax(keys, kind === "decoder" ? row : Infinity), missing: [] };
}

function slice(plane, head, row) {
  const width = plane.shape[2];
  const from = (head * plane.shape[1] + row) * width;
  return Float64Array.from(plane.data.subarray(from, from + width));
}

function sum(values) {
  return values.reduce((a, b) => a + b, 0);
}

// Keys after `last` are masked. Where a model sees through a window, others are, too: such a key has a weight of exactly 0
// though its score would give it one.
function softmax(keys, last) {
  const seen = keys.filter((key) => key.n <= last && key.given > 0);
  const top = Math.max(...seen.map((key) => key.score));
  const all = sum(seen.map((key) => Math.exp(key.score - top)));
  for (const key of keys) key.masked = key.n > last || (key.given === 0 && Math.exp(key.score - top) / all >= SURELY_SEEN);
  const open = keys.filter((key) => !key.masked);
  const largest = Math.max(...open.map((key) => key.score));
  for (const key of keys) key.power = key.masked ? 0 : Math.exp(key.score - largest);
  const total = sum(keys.map((key) => key.power));
  for (const key of keys) key.weight = key.power / total;
  const output = keys[0].value.map((_, i) => sum(keys.map((key) => key.weight * key.value[i])));
  const off = Math.max(...keys.map((key) => Math.abs(key.weight - key.given)));
  return { keys, largest, sum: total, output, off };
}
