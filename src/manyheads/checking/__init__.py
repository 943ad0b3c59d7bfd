"""What is the matter with a corpus, pair by pair: `manyheads data check` and `manyheads data clean`."""
