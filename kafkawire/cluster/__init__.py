"""What a cluster looks like now: one immutable view, from ZooKeeper, from Metadata, or fixed."""
