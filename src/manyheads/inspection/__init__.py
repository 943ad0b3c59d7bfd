"""Looking into a model: what every head did for one sentence, as numbers, a page or a picture."""
