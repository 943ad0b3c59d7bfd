// The tables of view 16 and their labels.

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
