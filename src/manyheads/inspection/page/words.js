// Merges pieces into words. Weights are summed over merged keys and averaged over merged queries: a row still adds up
// to 1.

// A unit is a word or a piece, whichever is shown. `pieces` are the indices of its pieces on its side.
export function unitsOf(side, asWords) {
  if (!asWords) {
    return side.pieces.map((piece, n) => ({ text: piece.text, pieces: [n], special: side.words[piece.word].special }));
  }
  const found = side.words.map((word) => ({ text: word.text, pieces: [], special: word.special }));
  side.pieces.forEach((piece, n) => found[piece.word].pieces.push(n));
  return found;
}

// Row n − `first` stands for piece n. For a decoder, `first` is the piece that its first row writes (rows.js), or one
// less if rows stand for the pieces that they read. Units without a row are left out (begin is never written).
export function rowsOf(units, rows, first) {
  return units
    .map((unit) => ({ ...unit, rows: unit.pieces.map((n) => n - first).filter((row) => row >= 0 && row < rows) }))
    .filter((unit) => unit.rows.length > 0);
}

// The weights of one head, or of the mean of heads, as (rows, columns) of units.
export function merged(plane, head, rows, columns) {
  const [heads, , keys] = plane.shape;
  const area = plane.shape[1] * keys;
  const chosen = head === null ? [...Array(heads).keys()] : [head];
  const column = new Int32Array(keys).fill(-1);
  columns.forEach((unit, n) => unit.pieces.forEach((key) => (column[key] = n)));
  const values = new Float64Array(rows.length * columns.length);
  rows.forEach((unit, n) => {
    const share = 1 / (unit.rows.length * chosen.length);
    for (const h of chosen) {
      for (const row of unit.rows) {
        const from = h * area + row * keys;
        for (let key = 0; key < keys; key += 1) {
          if (column[key] >= 0) values[n * columns.length + column[key]] += share * plane.data[from + key];
        }
      }
    }
  });
  return values;
}

// Divides each row by its sum. A row with nothing left stays empty.
export function renormalised(values, width) {
  for (let from = 0; from < values.length; from += width) {
    let sum = 0;
    for (let n = from; n < from + width; n += 1) sum += values[n];
    for (let n = from; sum > 0 && n < from + width; n += 1) values[n] /= sum;
  }
  return values;
}
