// Planes: the numbers of one layer. They are embedded in the page as base64, arrive as bytes in a notebook, or are
// requested when first needed.

const READERS = { f16: halves, f32: (buffer) => new Float32Array(buffer), u8: shares };

// `await planes(name)` is {data, shape, block}, or null if the header lists no such plane. For an earlier answer that
// the current one is compared with, it is also null once the host no longer has it.
export function openPlanes(model, header = model.get("header"), here = model.get("planes") || {}) {
  const read = new Map();
  const wanted = new Map();
  const arrive = (message, buffers) => {
    const gone = message && message.type === "refused" && header !== model.get("header");
    const name = message && (gone ? message.plane : message.type === "plane" && message.name);
    if (!wanted.has(name) || message.number !== header.number) return;
    wanted.get(name)(gone ? null : buffers[0]);
    wanted.delete(name);
  };
  if (model.on) model.on("msg:custom", arrive);

  const fetched = (name) => {
    if (here[name] !== undefined) return Promise.resolve(here[name]);
    return new Promise((resolve) => {
      wanted.set(name, resolve);
      model.send({ type: "plane", name, number: header.number });
    });
  };
  const planes = (name) => {
    const stored = header.planes[name];
    if (!stored) return Promise.resolve(null);
    const made = (raw) => raw && { ...stored, data: decode(raw, stored.type) };
    if (!read.has(name)) read.set(name, fetched(name).then(made));
    return read.get(name);
  };
  const close = () => model.off && model.off("msg:custom", arrive);
  return { planes, close };
}

function decode(bytes, type) {
  return READERS[type](typeof bytes === "string" ? fromBase64(bytes) : aligned(bytes));
}

function fromBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let n = 0; n < letters.length; n += 1) bytes[n] = letters.charCodeAt(n);
  return bytes.buffer;
}

// A view may start at any offset of its buffer; an array of floats must be aligned.
function aligned(bytes) {
  return ArrayBuffer.isView(bytes) ? bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) : bytes;
}

function halves(buffer) {
  return Float32Array.from(new Uint16Array(buffer), half);
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const power = (bits >> 10) & 0x1f;
  const rest = bits & 0x3ff;
  if (power === 0) return sign * rest * 2 ** -24;
  if (power === 31) return rest ? NaN : sign * Infinity;
  return sign * (1 + rest / 1024) * 2 ** (power - 15);
}

function shares(buffer) {
  return Float32Array.from(new Uint8Array(buffer), (value) => value / 255);
}
