"""Record batches, message format v2 (Kafka 0.11 and later, KIP-98): varints, headers, CRC-32C, transactions."""
