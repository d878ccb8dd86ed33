"""Groups in both stores as they are, and what is written there: the sockets' side of offsetplan and migration."""
