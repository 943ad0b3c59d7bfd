// The stages of the computation, in order, for the options of this model.
//
// A stage is {name, kind, layer, side, sublayer, box}. Its name, kind and layer identify it; a box of the figure stands
// for the stages of one sublayer.

export const STAGES = [
  "pieces", "vectors", "segment", "position", "settled",
  "norm", "project", "scores", "softmax", "mix", "join", "add",
  "before", "hidden", "back", "onto",
  "last", "logits", "choice", "word",
];
const NOT_ADDED = ["rotary", "none"];

export function stagesOf({ model, flow }) {
  const { layers, options } = model;
  const pre = options.norm === "pre";
  const placed = NOT_ADDED.includes(options.positions) ? [] : ["position"];
  const only = (name, part, side) => (flow[side].includes(part) ? [name] : []);
  const begin = (side) =>
    ["pieces", "vectors", ...only("segment", "segment", side), ...placed, ...only("settled", "summed", side)];
  const attend = [...(pre ? ["norm"] : []), "project", "scores", "softmax", "mix", "join", "add"];
  const feed = [...(pre ? ["before"] : []), "hidden", "back", "onto"];
  const last = pre ? ["last"] : [];
  const alone = (names, kind) => names.map((name) => stageOf(name, kind, null, null, `${kind} ${name}`));
  const within = (names, kind, layer, sublayer) =>
    names.map((name) => stageOf(name, kind, layer, sublayer, `${kind} ${layer} ${sublayer}`));
  const blocks = (kind, count) => [...Array(count).keys()].flatMap((layer) => [
    ...within(attend, kind, layer, "attention"),
    ...(kind === "decoder" && layers.cross ? within(attend, "cross", layer, "cross") : []),
    ...within(feed, kind, layer, "feedforward"),
  ]);
  const tower = (kind, side, end) =>
    (kind in layers ? [...alone(begin(side), kind), ...blocks(kind, layers[kind]), ...alone([...last, ...end], kind)] : []);
  return [...tower("encoder", "source", []), ...tower("decoder", "target", ["logits", "choice", "word"])];
}

function stageOf(name, kind, layer, sublayer, box) {
  return { name, kind, layer, side: kind === "encoder" ? "source" : "target", sublayer, box };
}

// The index of the selected stage. A selection made in another view has no exact stage: the nearest one is taken.
export function placeOf(stages, { stage, kind, layer }) {
  const side = kind === "encoder" ? "source" : "target";
  const tries = [
    (one) => one.name === stage && one.kind === kind && (one.layer === null || one.layer === layer),
    (one) => one.name === stage && one.side === side && (one.layer === null || one.layer === layer),
    (one) => one.name === stage,
  ];
  const found = tries.map((test) => stages.findIndex(test)).find((n) => n >= 0);
  return found === undefined ? 0 : found;
}
