"""Texts that a language model writes."""
