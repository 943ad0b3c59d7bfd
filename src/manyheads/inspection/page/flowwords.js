// What happens at each stage, in one sentence, with its formula and its shapes, for the options of this model.

import { isLone } from "./models.js";
import { isAtOnce } from "./rows.js";

const EVEN = {
  layer: ["γ · (x − mean) / √(variance + ε) + β", "mean 0 and spread 1, then a learned gain and shift"],
  rms: ["γ · x / √(mean of x² + ε)", "a mean square of 1, then a learned gain"],
};
const PLACES = {
  sinusoidal: ["p[2i] = sin(n / 10000^(2i/D)),  p[2i+1] = cos(…)", "waves of many lengths"],
  "sinusoidal-split": ["p = sin(n / 10000^(2i/D)) in the first half, cos(…) in the second", "waves of many lengths"],
  learned: ["p = P[n]", "a learned one for each place"],
};
const LET_THROUGH = {
  relu: "relu lets through what is above 0",
  gelu: "gelu lets through what is above 0, and a little below",
  "gelu-tanh": "gelu lets through what is above 0, and a little below",
  silu: "silu lets through what is above 0, and a little below",
  swiglu: "each has a gate beside it that opens or closes it",
};

function counted(n) {
  return n.toLocaleString("en");
}

function wordsOnLast(header) {
  if (header.graph) return "Each vertex says a word like this, all at the same time. Which of them are read is up to the links between them.";
  if (isAtOnce(header)) return "This is the word of this place. The others are written at the same time; a place that was not masked keeps what it says.";
  if (isLone(header)) return "This is the piece that comes next in the text. The next row reads it, and all of this begins again.";
  return "One piece is written. The next row reads it, and all of this begins again.";
}

// [title, sentence, formula, shapes]
export function wordsOf(stage, { header, count, keys, place }) {
  const { width, heads, kv_heads: groups, options, words, scale } = header.model;
  const { feedforward: hidden, activation, head_width: narrow } = options;
  const [normed, evenly] = EVEN[options.normaliser];
  const post = options.norm === "post";
  const shape = `${count} × ${width}`;
  const choices = counted(words.target || 0); // what an encoder alone never writes
  const cross = stage.kind === "cross";
  const bias = (on, text) => (on ? ` + ${text}` : "");
  const turned = options.positions === "rotary" && !cross ? " Then q and k are turned by their places (rotary)." : "";
  const shared = groups < heads ? ` k and v have ${groups} heads: ${heads / groups} queries share one.` : "";
  const even = post ? ["add and norm", ` The sum is brought to ${evenly}.`, `norm(x + y),  norm(x) = ${normed}`] : ["add", "", "x + y"];
  const ahead = header.model.bounds[stage.kind] && header.model.bounds[stage.kind][1] !== 0;
  const masked = stage.kind === "decoder" && !ahead ? " What is not yet written is masked: it gets exactly 0." : "";
  const told = {
    pieces: [
      "pieces", stage.side === "source"
        ? "The text is cut into pieces, and each is a number of the vocabulary."
        : isAtOnce(header) ? "All places are read at once: what stands there, and a mask where nothing is known. Each row writes its own place."
        : isLone(header) ? "The text is cut into pieces. Each row reads one of them, and says which one comes behind it."
          : "What is written so far is read, after a begin: each row reads one piece, and will write the one behind it.",
      "text → pieces → numbers", `${count} pieces, of ${counted(words[stage.side])} that there are`,
    ],
    vectors: [
      "vectors", `Each piece has a learned vector of ${width} numbers, its row of a table${isLone(header) ? "" : `, times √${width}`}.`,
      isLone(header) ? "x = E[piece]" : `x = √${width} · E[piece]`, `${counted(words[stage.side])} × ${width} → ${shape}`,
    ],
    segment: [
      "+ kind of text", "The model can tell texts of two kinds apart, such as a question and its answer. Here all is of the first kind, and its vector is added.",
      "x + s,  s = S[0]", `${shape} + ${shape}`,
    ],
    settled: ["norm", `Before the first layer, the sum is brought to ${evenly}.`, normed, `${shape} → ${shape}`],
    position: [
      "+ position", `Attention knows no order. So a vector that says where the piece stands is added: ${(PLACES[options.positions] || ["", ""])[1]}.`,
      `x + p,  ${(PLACES[options.positions] || [""])[0]},  n = ${place}`, `${shape} + ${shape}`,
    ],
    norm: ["norm", `Before it is looked at, the vector is brought to ${evenly}.`, normed, `${shape} → ${shape}`],
    project: [
      "queries, keys, values",
      cross
        ? `The word being written asks (q); what the encoder made of the source answers (k) and hands on (v).${shared}`
        : `Three projections: what a word looks for (q), what it is found by (k), what it hands on (v).${turned}${shared}`,
      `q = W_q·x${bias(options.bias, "b")},  k = W_k·${cross ? "m" : "x"},  v = W_v·${cross ? "m" : "x"}${options.qk_norm ? ",  q and k normalised" : ""}`,
      `${width} → ${heads} heads × ${narrow}`,
    ],
    scores: [
      "scores", "How well does the query fit each key? Their products are added up.",
      scale === null ? "score: learned, not a product" : Math.abs(scale - narrow ** -0.5) < 1e-9 ? `q·k / √${narrow}` : `q·k × ${scale}`,
      `1 × ${narrow} · ${narrow} × ${keys} → ${keys} scores a head`,
    ],
    softmax: ["softmax", `Scores become weights: shares that add up to 1.${masked}`, "w = e^score / Σ e^score", `${keys} → ${keys}`],
    mix: ["weighted values", "The values are added up, each by its weight: this is what the head has found.", "Σ w·v", `${keys} × ${narrow} → ${narrow}`],
    join: [
      "heads together", `The ${heads} heads stand side by side, and one more projection makes one vector of them.`,
      `y = W_O · [head 0 … head ${heads - 1}]${bias(options.bias, "b")}`, `${heads} × ${narrow} → ${width}`,
    ],
    add: [even[0], `What was found is added to the vector, which keeps what it was.${even[1]}`, even[2], `${shape} → ${shape}`],
    before: ["norm", `Before the feed-forward layers, too, the vector is brought to ${evenly}.`, normed, `${shape} → ${shape}`],
    hidden: [
      "feed-forward, up", `Now each word by itself: ${counted(hidden)} units look for something in it, and ${LET_THROUGH[activation]}.`,
      activation === "swiglu" ? "h = silu(W₁·x) · W₃·x" : `h = ${activation}(W₁·x${bias(options.feedforward_bias, "b₁")})`, `${width} → ${counted(hidden)}`,
    ],
    back: ["feed-forward, down", "What the units found is added up to one vector.", `y = W₂·h${bias(options.feedforward_bias, "b₂")}`, `${counted(hidden)} → ${width}`],
    onto: [even[0], `It is added to the vector: on to the next layer.${even[1]}`, even[2], `${shape} → ${shape}`],
    last: [
      "last norm", stage.side === "source" ? (isLone(header) ? "One more norm, behind the last layer." : "One more norm. This is what the decoder reads of the source.") : "One more norm, behind the last layer.",
      normed, `${shape} → ${shape}`,
    ],
    logits: [
      "logits", `The vector is held against the vector of each of ${choices} pieces: how well would it fit?`,
      "logit = x · E[piece]", `${width} · ${width} × ${choices} → ${choices}`,
    ],
    choice: ["softmax", "Logits become probabilities.", "p = e^logit / Σ e^logit", `${choices} → ${choices}`],
    word: ["the word", wordsOnLast(header), "", ""],
  };
  return told[stage.name];
}
