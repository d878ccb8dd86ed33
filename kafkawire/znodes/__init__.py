"""Paths and contents of ZooKeeper nodes: of 0.7, of 0.8 and later, and of consumer groups."""
