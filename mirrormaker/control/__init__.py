"""Live control of a running mirror over a Unix socket: its place, server and actions, limits of an operator, client."""
