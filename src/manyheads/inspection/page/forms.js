// What view 16 has tables of, and what each is called.

export const FORMS = {
  iterations: "iterations",
  alignment: "alignment",
  attention: "attention",
  candidates: "candidates",
  hypotheses: "hypotheses",
  layers: "layers",
  heads: "heads",
  report: "head report",
  attribution: "attribution",
  replay: "replay",
  pieces: "pieces",
};
