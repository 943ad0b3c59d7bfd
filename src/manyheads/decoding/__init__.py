"""From a source to its translations: greedy search, sampling, beam search, all three within wishes, and the Translator."""
