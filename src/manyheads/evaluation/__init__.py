"""How good is it: BLEU, chrF, exact match, error rates, perplexity."""
