"""Finds what is wrong with a corpus, pair by pair: `manyheads data check` and `manyheads data clean`."""
