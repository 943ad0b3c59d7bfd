// Explains each stage in one sentence, with its formula and shapes, for the options of this model.

import { isLone } from "./models.js";
import { isAtOnce } from "./rows.js";

const EVEN = {
  layer: ["γ · (x − mean) / √(variance + ε) + β", "mean 0 and variance 1, then scaled and shifted by learned parameters"],
  rms: ["γ · x / √(mean of x² + ε)", "a mean square of 1, then scaled by a learned gain"],
};
const PLACES = {
  sinusoidal: ["p[2i] = sin(n / 10000^(2i/D)),  p[2i+1] = cos(…)", "sine waves of many lengths"],
  "sinusoidal-split": ["p = sin(n / 10000^(2i/D)) in the first half, cos(…) in the second", "sine waves of many lengths"],
  learned: ["p = P[n]", "one learned vector per position"],
};
const LET_THROUGH = {
  relu: "ReLU passes only values above 0",
  gelu: "GELU passes values above 0, and a little of those below",
  "gelu-tanh": "GELU passes values above 0, and a little of those below",
  silu: "SiLU passes values above 0, and a little of those below",
  swiglu: "each is multiplied by a gate that opens or closes it",
};

function counted(n) {
  return n.toLocaleString("en");
}

function wordsOnLast(header) {
  if (header.graph) return "Every vertex predicts its word this way, all at the same time. The links between vertices decide which words are used.";
  if (isAtOnce(header)) return "This is the word for this place. All places are written at the same time; a place that was not masked keeps its word.";
  if (isLone(header)) return "This is the next piece of the text. The next row reads it, and the computation starts again.";
  return "One piece is written. The next row reads it, and the computation starts again.";
}

// [title, sentence, formula, shapes]
export function wordsOf(stage, { header, count, keys, place }) {
  const { width, heads, kv_heads: groups, options, words, scale } = header.model;
  const { feedforward: hidden, activation, head_width: narrow } = options;
  const [normed, evenly] = EVEN[options.normaliser];
  const post = options.norm === "post";
  const shape = `${count} × ${width}`;
  const choices = counted(words.target || 0); // an encoder alone writes nothing
  const cross = stage.kind === "cross";
  const bias = (on, text) => (on ? ` + ${text}` : "");
  const turned = options.positions === "rotary" && !cross ? " Then q and k are rotated by their positions." : "";
  const shared = groups < heads ? ` k and v have ${groups} heads; ${heads / groups} query heads share each.` : "";
  const even = post ? ["add and norm", ` The sum is normalised to ${evenly}.`, `norm(x + y),  norm(x) = ${normed}`] : ["add", "", "x + y"];
  const ahead = header.model.bounds[stage.kind] && header.model.bounds[stage.kind][1] !== 0;
  const masked = stage.kind === "decoder" && !ahead ? " Pieces that are not yet written are masked: their weight is exactly 0." : "";
  const told = {
    pieces: [
      "pieces", stage.side === "source"
        ? "The text is split into pieces, and each piece is replaced by its number in the vocabulary."
        : isAtOnce(header) ? "All places are read at once: known pieces as they are, unknown ones as masks. Each row writes its own place."
        : isLone(header) ? "The text is split into pieces. Each row reads one piece and predicts the next."
          : "The decoder reads ⟨begin⟩ and the output so far: each row reads one piece and predicts the next.",
      "text → pieces → numbers", `${count} pieces, from a vocabulary of ${counted(words[stage.side])}`,
    ],
    vectors: [
      "vectors", `Each piece has a learned vector of ${width} numbers, its row of the embedding table${isLone(header) ? "" : `, scaled by √${width}`}.`,
      isLone(header) ? "x = E[piece]" : `x = √${width} · E[piece]`, `${counted(words[stage.side])} × ${width} → ${shape}`,
    ],
    segment: [
      "+ segment", "The model can mark two segments, such as a question and its answer. Here all pieces belong to the first, whose vector is added.",
      "x + s,  s = S[0]", `${shape} + ${shape}`,
    ],
    settled: ["norm", `Before the first layer, the sum is normalised to ${evenly}.`, normed, `${shape} → ${shape}`],
    position: [
      "+ position", `Attention ignores order, so a vector that encodes the position is added: ${(PLACES[options.positions] || ["", ""])[1]}.`,
      `x + p,  ${(PLACES[options.positions] || [""])[0]},  n = ${place}`, `${shape} + ${shape}`,
    ],
    norm: ["norm", `Before attention, the vector is normalised to ${evenly}.`, normed, `${shape} → ${shape}`],
    project: [
      "queries, keys, values",
      cross
        ? `The query (q) comes from the word being written; keys (k) and values (v) come from the encoder’s output.${shared}`
        : `Three projections: what a word looks for (q), what it is found by (k), what it passes on (v).${turned}${shared}`,
      `q = W_q·x${bias(options.bias, "b")},  k = W_k·${cross ? "m" : "x"},  v = W_v·${cross ? "m" : "x"}${options.qk_norm ? ",  q and k normalised" : ""}`,
      `${width} → ${heads} heads × ${narrow}`,
    ],
    scores: [
      "scores", "A score says how well the query matches each key.",
      scale === null ? "score: learned, not a dot product" : Math.abs(scale - narrow ** -0.5) < 1e-9 ? `q·k / √${narrow}` : `q·k × ${scale}`,
      `1 × ${narrow} · ${narrow} × ${keys} → ${keys} scores per head`,
    ],
    softmax: ["softmax", `Softmax turns scores into weights that add up to 1.${masked}`, "w = e^score / Σ e^score", `${keys} → ${keys}`],
    mix: ["weighted values", "The output of the head is the sum of the values, each multiplied by its weight.", "Σ w·v", `${keys} × ${narrow} → ${narrow}`],
    join: [
      "heads together", `The outputs of the ${heads} heads are concatenated and projected to one vector.`,
      `y = W_O · [head 0 … head ${heads - 1}]${bias(options.bias, "b")}`, `${heads} × ${narrow} → ${width}`,
    ],
    add: [even[0], `The output of attention is added to the residual stream.${even[1]}`, even[2], `${shape} → ${shape}`],
    before: ["norm", `Before the feed-forward layers, the vector is normalised to ${evenly}.`, normed, `${shape} → ${shape}`],
    hidden: [
      "feed-forward, up", `Each word is now processed by itself: ${counted(hidden)} units respond to it, and ${LET_THROUGH[activation]}.`,
      activation === "swiglu" ? "h = silu(W₁·x) · W₃·x" : `h = ${activation}(W₁·x${bias(options.feedforward_bias, "b₁")})`, `${width} → ${counted(hidden)}`,
    ],
    back: ["feed-forward, down", "The units are projected back to one vector.", `y = W₂·h${bias(options.feedforward_bias, "b₂")}`, `${counted(hidden)} → ${width}`],
    onto: [even[0], `The result is added to the residual stream and goes to the next layer.${even[1]}`, even[2], `${shape} → ${shape}`],
    last: [
      "last norm", stage.side === "source" ? (isLone(header) ? "A last norm after the last layer." : "A last norm after the last layer. Its output is what the decoder reads of the source.") : "A last norm after the last layer.",
      normed, `${shape} → ${shape}`,
    ],
    logits: [
      "logits", `A logit says how well the vector matches the output vector of each of the ${choices} pieces.`,
      "logit = x · E[piece]", `${width} · ${width} × ${choices} → ${choices}`,
    ],
    choice: ["softmax", "Softmax turns logits into probabilities.", "p = e^logit / Σ e^logit", `${choices} → ${choices}`],
    word: ["the word", wordsOnLast(header), "", ""],
  };
  return told[stage.name];
}
