"""Kafka 0.7 for tests: a broker in pure Python, the original broker, clusters of either, and their clients."""
