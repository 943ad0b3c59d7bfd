// Recomputes one query of one head step by step: q·k, scale, mask, softmax, Σ w·v, in 64-bit floats from the model's
// 32-bit numbers. The result is compared with the model's own weights.

import { isSeen } from "./weights.js";

const PARTS = ["q", "k", "v", "scores"];

// {missing: [names]} or {q, keys, largest, sum, output, off}.
export async function computed({ header, planes }, kind, layer, head, row) {
  const names = [`${kind}/${layer}`, ...PARTS.map((part) => `${kind}/${layer}/${part}`)];
  const [weights, ...parts] = await Promise.all(names.map(planes));
  const missing = PARTS.filter((_, n) => !parts[n]);
  if (missing.length || !weights || weights.block > 1) return { missing };
  const [q, k, v, scores] = parts;
  const group = Math.floor(head / (header.model.heads / k.shape[0])); // several query heads may share keys
  const [query, given, scored] = [slice(q, head, row), slice(weights, head, row), slice(scores, head, row)];
  const keys = [...given.keys()].map((n) => {
    const [key, value] = [slice(k, group, n), slice(v, group, n)];
    const products = query.map((x, i) => x * key[i]);
    const dot = added(products);
    const score = header.model.scale === null ? scored[n] : dot * header.model.scale;
    return { n, key, value, products, dot, score, given: given[n], length: Math.hypot(...value) };
  });
  for (const key of keys) key.masked = !isSeen(header.model.bounds[kind], row, key.n);
  return { q: query, ...softmax(keys) };
}

function slice(plane, head, row) {
  const width = plane.shape[2];
  const from = (head * plane.shape[1] + row) * width;
  return Float64Array.from(plane.data.subarray(from, from + width));
}

function added(values) {
  return values.reduce((a, b) => a + b, 0);
}

function softmax(keys) {
  const largest = Math.max(...keys.filter((key) => !key.masked).map((key) => key.score));
  for (const key of keys) key.power = key.masked ? 0 : Math.exp(key.score - largest);
  const sum = added(keys.map((key) => key.power));
  for (const key of keys) key.weight = key.power / sum;
  const output = keys[0].value.map((_, i) => added(keys.map((key) => key.weight * key.value[i])));
  const off = Math.max(...keys.map((key) => Math.abs(key.weight - key.given)));
  return { keys, largest, sum, output, off };
}
