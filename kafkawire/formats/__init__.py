"""Message formats, one package each: layout, scan, read, write, columns."""
