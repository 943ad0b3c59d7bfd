"""Texts written by a language model."""
