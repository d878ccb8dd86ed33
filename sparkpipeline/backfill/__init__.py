"""Topic ranges of one cluster copied to another."""
