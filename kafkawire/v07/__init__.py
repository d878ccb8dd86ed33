"""What Kafka 0.7 (0.7.0, 0.7.1, 0.7.2) speaks."""
