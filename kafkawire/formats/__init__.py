"""How messages lie in bytes, a package for each format: layout, scan, read, write, columns."""
