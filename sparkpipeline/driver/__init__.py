"""The driver's part: options of a cluster, requests to its ZooKeeper, committed offsets of consumer groups."""
