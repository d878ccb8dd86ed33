"""Kafka 0.7 to test and play with: a broker in pure Python, the original one, clusters of either, its clients."""
