// Formats numbers for readers.

export function exact(value) {
  return value.toFixed(4);
}

export function percent(share) {
  return share > 0 && share < 0.0095 ? "<1 %" : `${Math.round(share * 100)} %`;
}

// Four significant digits, a true minus sign, and an exponent only for very large or small numbers.
export function signed(value, digits = 4) {
  const size = Math.abs(value);
  const plain = size === 0 || (size >= 1e-3 && size < 1e5);
  return (plain ? value.toPrecision(digits) : value.toExponential(digits - 1)).replaceAll("-", "−");
}

export function hundredths(value) {
  const text = value.toFixed(2);
  return Number(text) === 0 ? "0.00" : text.replace("-", "−");
}

// A number for a small cell: .25, or +.25 and −.25; empty if it would be 0.
export function cellNumber(value, withSign) {
  if (Math.abs(value) < 0.005) return "";
  const size = Math.abs(value).toFixed(2).replace(/^0/, "");
  return withSign ? `${value < 0 ? "−" : "+"}${size}` : size;
}

export function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}
