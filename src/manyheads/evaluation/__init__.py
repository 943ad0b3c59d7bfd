"""How good a model is: BLEU, chrF, exact match, error rates, perplexity."""
