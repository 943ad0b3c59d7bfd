export function fromFile(data) {
  return { get: (key) => data[key] };
}

const inspector = {
  render({ model, el }) {
    el.textContent = model.get("header").translation;
  },
};
export default inspector;
