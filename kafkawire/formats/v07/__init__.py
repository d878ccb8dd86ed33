"""Message sets of Kafka 0.7: messages with magic 0 and 1, byte offsets, wrappers."""
