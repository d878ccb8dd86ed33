"""Kafka's bytes and the links they travel on; no roles. May be used alone."""
