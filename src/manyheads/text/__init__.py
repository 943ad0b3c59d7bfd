"""From files to ids and back: lines, corpora, tokenizers, and token sequences that live on disk."""
