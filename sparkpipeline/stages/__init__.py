"""Acyclic graph of restartable stages after a load."""
