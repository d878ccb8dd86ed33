"""Plans of offset changes, decided from a snapshot.  Pure: no clock, no socket, no store."""
