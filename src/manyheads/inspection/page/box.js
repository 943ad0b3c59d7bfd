// The text box of live pages. The rest of the page shows the last answer.

import { button } from "./controls.js";
import { h } from "./dom.js";
import { visible } from "./letters.js";
import { makeTelling } from "./telling.js";

const HINT = "Type a sentence and press Enter.";

// tells: the settings that the model takes, see telling.js
export function askBox(asking, { example, tells }, ask) {
  const area = h("textarea", {
    rows: 2, dir: "auto", spellcheck: "false", placeholder: example || "", "aria-label": "Text to translate",
    keydown: enter,
  });
  const status = h("p", { class: "status", role: "status" });
  const answer = h("p", { class: "unseen", role: "status" });
  const telling = makeTelling(tells, tell, enter);
  const parts = partsChooser((part) => ask({ part }));
  const go = h("button", { type: "button", class: "go", click: translate }, "Translate");
  const element = h("section", { class: "ask", "aria-label": "Translate" },
    area, h("div", { class: "ways" }, telling.element, parts.element, status, go), answer);
  let answered = false;

  // An empty box translates its example. Enter that only confirms an input method's composition is ignored.
  function enter(event) {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    translate();
  }

  function translate() {
    if (!area.value.trim()) area.value = area.placeholder;
    ask({ text: area.value, part: 1, ...telling.said() });
  }

  // Before the first answer, a setting waits for a text.
  function tell(patch) {
    if (answered) ask(patch);
    else asking.prefer(patch);
  }

  function fill({ text }) {
    area.value = text;
  }

  function update(header) {
    const { question, refusal, busy } = asking;
    const refused = refusal && refusal.place === "box";
    status.classList.toggle("warning", Boolean(refused));
    status.textContent = busy ? "Computing …" : refused ? refusal.sentence : header ? "" : HINT;
    answer.textContent = busy || !header ? "" : `Translation: ${visible(header.translation)}`;
    answered = Boolean(header);
    telling.update(question);
    parts.update(header);
  }

  fill(asking.question);
  return { element, fill, update };
}

// A long text is translated in parts: ← part 1 of 3 →
function partsChooser(go) {
  let at = 1;
  const turn = (label, name, by) => {
    const turner = button(label, () => turner.ariaDisabled === "true" || go(at + by), name);
    turner.setAttribute("aria-label", name);
    return turner;
  };
  const [back, on] = [turn("←", "Previous part", -1), turn("→", "Next part", 1)];
  const said = h("span", {});
  const element = h("span", { class: "parts", hidden: true }, back, said, on);
  const update = (header) => {
    const { part, parts } = header || { part: 1, parts: 1 };
    at = part;
    element.hidden = parts === 1;
    said.textContent = `part ${part} of ${parts}`;
    back.ariaDisabled = String(part === 1);
    on.ariaDisabled = String(part === parts);
  };
  return { element, update };
}
