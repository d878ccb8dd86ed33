"""ZooKeeper nodes: paths and contents, of 0.7, of 0.8 and later, and of consumer groups."""
