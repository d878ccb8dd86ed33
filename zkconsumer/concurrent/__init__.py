"""Handlers called in parallel: process(), its workers, and which message a worker takes next."""
