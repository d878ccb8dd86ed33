"""Rules of a migration: states and steps, checks, plans, comparison of snapshots.  Pure: no clock, socket or store."""
