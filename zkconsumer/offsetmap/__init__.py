"""Offset map of a mirror: its records (checkpoints), as lines of text, in a file, in a topic."""
