"""Requests and responses: of 0.7, and of 0.8 and later by tables (apis, schema)."""
