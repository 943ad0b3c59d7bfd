"""Recipes: every preset as data, none as code. `manyheads.recipe` reads them."""
