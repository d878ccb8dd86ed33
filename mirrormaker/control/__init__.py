"""Live control of a running mirror over a Unix socket: its path, server, actions, operator limits and client."""
