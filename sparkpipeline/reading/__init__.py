"""Ranges of offsets read by plain blocking links, as message sets and as Arrow record batches."""
