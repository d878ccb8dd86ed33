"""Offset files: reading of every form that known tools write, and writing of three of them."""
