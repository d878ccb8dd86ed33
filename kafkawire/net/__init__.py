"""Bytes on their way: a session (no socket), a link (one socket), links (one pool a cluster)."""
