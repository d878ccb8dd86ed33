"""Message sets of formats v0 and v1 (Kafka 0.8 to 0.10): message offsets, wrappers, timestamps in v1."""
