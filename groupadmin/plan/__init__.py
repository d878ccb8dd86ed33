"""What is written to the offset stores of a group, decided from a snapshot.  Pure: no clock, no socket, no store."""
