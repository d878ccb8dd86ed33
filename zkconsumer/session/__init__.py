"""The ZooKeeper session: how it shows itself, what it asks, and how long it may be believed."""
