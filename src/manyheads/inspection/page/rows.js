// The rows of a decoder. Where one token follows the other, row t reads piece t of the target, its begin first, and
// writes piece t + 1. Where all are written at once, a row is a place: it reads what stands there, or a mask (header.read),
// and writes there. Places of a graph are its vertices.

export function isAtOnce(header) {
  return header.read !== undefined;
}

// The piece of the target that the first row writes.
export function firstRow(header) {
  return isAtOnce(header) ? 0 : 1;
}

// The pieces that the rows of a side read.
export function readPieces(header, side) {
  if (side === "source") return header.source.pieces;
  return isAtOnce(header) ? header.read.pieces : header.target.pieces.slice(0, -1);
}

// What was written, as a text and its words: of a graph, those of its path.
export function writtenText({ target, graph }) {
  return graph ? { text: target.text, words: graph.path.map((n) => target.words[n]) } : target;
}

// Of a model that fills places in: the length that was taken, and the iteration that all views show the heads of.
export function takenTry(header) {
  return header.tries.find((one) => one.taken);
}

// The place of the first end, which it was cut at; null where there is none.
export function cutOf({ iterations }) {
  return iterations[iterations.length - 1].cut;
}

function shownPass(header) {
  return takenTry(header).iterations[header.iteration - 1];
}

// Did this pass read a mask there?
export function wasMasked(header, place) {
  return Boolean(header.graph) || shownPass(header).written[place];
}

// How sure the model was of a piece of the target, when it was written.
export function sureOf(header, piece) {
  const logProbabilities = isAtOnce(header) && !header.graph ? shownPass(header).log_probability : null;
  return logProbabilities ? logProbabilities[piece] : header.steps[piece - firstRow(header)].log_probability;
}

// How many pieces a log-probability is of.
export function countOfWritten(header) {
  if (!isAtOnce(header)) return header.steps.length;
  if (header.graph) return header.graph.path.length;
  const cut = cutOf(takenTry(header));
  return cut === null ? takenTry(header).length : cut + 1;
}

export function nameOfRow(header, row) {
  if (!isAtOnce(header)) return `step ${row + 1}`;
  return header.graph ? `vertex ${row}` : `place ${row + 1}`;
}

// "writes ‘dog’, having read ‘little’": what a row of a decoder is about.
export function rowSentence(header, row, shown) {
  const written = shown(header.target.pieces[row + firstRow(header)].text);
  const read = shown(readPieces(header, "target")[row].text);
  if (!isAtOnce(header)) return `writes ‘${written}’, having read ‘${read}’`;
  const place = nameOfRow(header, row);
  return wasMasked(header, row) ? `writes ‘${written}’ in ${place}, having read a mask` : `‘${written}’ in ${place} was kept`;
}
