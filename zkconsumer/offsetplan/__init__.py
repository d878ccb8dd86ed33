"""What is to be written to the offset stores of a group, and may it be?  Pure: no clock, no socket, no store."""
