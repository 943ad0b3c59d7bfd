// The rows of a decoder. In a model that writes token by token, row t reads piece t of the target, starting with
// begin, and writes piece t + 1. In a model that writes all at once, a row is a place: it reads the piece or mask at
// that place (header.read) and writes there. The places of a graph are its vertices.

export function isAtOnce(header) {
  return header.read !== undefined;
}

// The index of the target piece that the first row writes.
export function firstRow(header) {
  return isAtOnce(header) ? 0 : 1;
}

// The pieces that the rows of a side read.
export function readPieces(header, side) {
  if (side === "source") return header.source.pieces;
  return isAtOnce(header) ? header.read.pieces : header.target.pieces.slice(0, -1);
}

// The output as a text and its words: for a graph, those of its path.
export function writtenText({ target, graph }) {
  return graph ? { text: target.text, words: graph.path.map((n) => target.words[n]) } : target;
}

// For a model that fills in places: the tried length that was taken.
export function takenTry(header) {
  return header.tries.find((one) => one.taken);
}

// The place of the first end, where the output was cut; null if there is none.
export function cutOf({ iterations }) {
  return iterations[iterations.length - 1].cut;
}

function shownPass(header) {
  return takenTry(header).iterations[header.iteration - 1];
}

// True if the shown pass read a mask at that place.
export function wasMasked(header, place) {
  return Boolean(header.graph) || shownPass(header).written[place];
}

// The log-probability of a target piece when it was written.
export function sureOf(header, piece) {
  const logProbabilities = isAtOnce(header) && !header.graph ? shownPass(header).log_probability : null;
  return logProbabilities ? logProbabilities[piece] : header.steps[piece - firstRow(header)].log_probability;
}

// The number of pieces that the log-probability of the output covers.
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

// Describes a row of a decoder: "writes ‘dog’, having read ‘little’".
export function rowSentence(header, row, shown) {
  const written = shown(header.target.pieces[row + firstRow(header)].text);
  const read = shown(readPieces(header, "target")[row].text);
  if (!isAtOnce(header)) return `writes ‘${written}’, having read ‘${read}’`;
  const place = nameOfRow(header, row);
  return wasMasked(header, row) ? `writes ‘${written}’ in ${place}, having read a mask` : `‘${written}’ in ${place} was kept`;
}
