// Settings of how a model writes: the beam of a search or, for models that write all at once, the number of iterations
// and the length of the translation. The host declares which of them the model takes.

import { choice, field } from "./controls.js";
import { active, h, replaceControls } from "./dom.js";

export const UNTOLD = { beam: 0, iterations: 0, length: "" };
export const MOST_TOLD = 64; // hypotheses or iterations: the limit of the server
const BEAMS = [
  [0, "default", "As in the model’s recipe"],
  [1, "1", "The likeliest piece at each step"],
  [2, "2"], [4, "4"], [8, "8"],
];
const ITERATIONS = "How many times uncertain places are filled in again; by default, as in the model’s recipe";
const LENGTH = "A number of pieces (12), or a multiple of the likeliest length (with a decimal point: 0.8)";
const TELLERS = {
  beam: beamTeller,
  iterations: (tell, enter) => fieldTeller("iterations", Number, tell, enter, field("Iterations", {
    type: "number", min: 1, max: MOST_TOLD, placeholder: "default", title: ITERATIONS,
  })),
  length: (tell, enter) => fieldTeller("length", (text) => text.trim(), tell, enter, field("Length", {
    inputmode: "decimal", maxlength: 20, placeholder: "12 or 0.8", title: LENGTH,
  })),
};

// The settings that the host declares; without a declaration, the beam.
export function tellsOf(model) {
  return (model.get("tells") ?? "beam").split(" ").filter((name) => name in TELLERS);
}

// {element, said(), update(question)}. `tell` is called with a changed setting, `enter` with keys that may submit.
export function makeTelling(names, tell, enter) {
  const tellers = names.map((name) => TELLERS[name](tell, enter));
  return {
    element: h("span", { class: "told" }, tellers.map((one) => one.element)),
    said: () => Object.assign({}, ...tellers.map((one) => one.said())),
    update: (question) => tellers.forEach((one) => one.update(question)),
  };
}

// Reports a choice as soon as it is made.
function beamTeller(tell) {
  const element = h("span", {});
  const update = ({ beam }) => replaceControls(element, choice("Beam", BEAMS, beam, (chosen) => tell({ beam: chosen })));
  return { element, said: () => ({}), update };
}

// Answers do not overwrite a field while the user types in it. Leaving a field does not submit its value again, even if
// that was refused.
function fieldTeller(name, read, tell, enter, element) {
  const input = element.querySelector("input");
  let told = "";
  const said = () => {
    told = input.value;
    return { [name]: read(told) };
  };
  input.addEventListener("change", () => input.value === told || tell(said()));
  input.addEventListener("keydown", enter);
  const update = (question) => {
    if (active(input) !== input) told = input.value = String(question[name] || "");
  };
  return { element, said, update };
}
