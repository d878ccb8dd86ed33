"""Kafka 0.8 to 0.10: requests, message formats v0 and v1, ZooKeeper nodes."""
