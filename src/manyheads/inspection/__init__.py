"""Looking into a model: what every head did for one sentence, as numbers, as a page, as a picture."""
