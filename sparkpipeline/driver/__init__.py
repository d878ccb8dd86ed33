"""Requests of the driver alone: to the cluster's ZooKeeper, and for committed offsets of consumer groups."""
