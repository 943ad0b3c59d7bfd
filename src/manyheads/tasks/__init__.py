"""What a recipe trains. A task is one file: batches in, loss out, metrics on held-out data."""
