"""From a source to its translations: greedy search, sampling and beam search, all within wishes; the Translator."""
