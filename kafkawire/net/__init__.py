"""Connections to brokers: a session (no socket), a link (one socket), links (one pool per cluster)."""
