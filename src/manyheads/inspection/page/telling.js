// What a model can be told about how it writes, beside the text: how many hypotheses a search keeps; or, where all is
// written at once, how often places are filled in and how long a translation is. The host says which of them there are.

import { choice, field } from "./controls.js";
import { active, h, replaceControls } from "./dom.js";

export const UNTOLD = { beam: 0, iterations: 0, length: "" };
export const MOST_TOLD = 64; // hypotheses or iterations: a server does no more
const BEAMS = [
  [0, "default", "as the model’s recipe says"],
  [1, "1", "the likeliest piece at each step"],
  [2, "2"], [4, "4"], [8, "8"],
];
const ITERATIONS = "how often it fills in what it is not sure of; if nothing is said, as often as the model’s recipe says";
const LENGTH = "so many pieces (12), or so many times the length that it finds likeliest (with a point: 0.8)";
const TELLERS = {
  beam: beamTeller,
  iterations: (tell, enter) => fieldTeller("iterations", Number, tell, enter, field("Iterations", {
    type: "number", min: 1, max: MOST_TOLD, placeholder: "default", title: ITERATIONS,
  })),
  length: (tell, enter) => fieldTeller("length", (text) => text.trim(), tell, enter, field("Length", {
    inputmode: "decimal", maxlength: 20, placeholder: "12 or 0.8", title: LENGTH,
  })),
};

// What a host lets its model be told; one that says nothing has a search.
export function tellsOf(model) {
  return (model.get("tells") ?? "beam").split(" ").filter((name) => name in TELLERS);
}

// {element, said(), update(question)}. `tell` is given what is chosen, `enter` a key that may ask for a translation.
export function makeTelling(names, tell, enter) {
  const tellers = names.map((name) => TELLERS[name](tell, enter));
  return {
    element: h("span", { class: "told" }, tellers.map((one) => one.element)),
    said: () => Object.assign({}, ...tellers.map((one) => one.said())),
    update: (question) => tellers.forEach((one) => one.update(question)),
  };
}

// A choice is told when it is made.
function beamTeller(tell) {
  const element = h("span", {});
  const update = ({ beam }) => replaceControls(element, choice("Beam", BEAMS, beam, (chosen) => tell({ beam: chosen })));
  return { element, said: () => ({}), update };
}

// Who is typing is not disturbed by what was answered meanwhile; and what was told, also in vain, is not told again by leaving it.
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
