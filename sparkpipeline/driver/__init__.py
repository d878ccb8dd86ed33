"""What only the driver asks: the cluster's ZooKeeper, and the offsets that consumer groups have committed."""
