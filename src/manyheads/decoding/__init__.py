"""From a source to its translations: greedy search, sampling, beam search, and the Translator around them."""
