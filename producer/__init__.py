"""Batches, their way to partition leaders, and a producer on top."""
