"""The offset map of a mirror: its records, and how they lie in text, in a file and in a topic."""
