"""A model in the browser: a page to translate with and to look inside the model, reachable from this machine only."""
