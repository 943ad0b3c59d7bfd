"""A model in the browser: a page to translate and to look inside, for the person at this machine."""
