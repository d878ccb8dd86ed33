"""A plan written to both stores and read back, and the file that undoes it."""
