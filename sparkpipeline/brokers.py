"""A cluster asked by plain blocking links: where partitions are, where their logs begin and end, what was at a time."""
