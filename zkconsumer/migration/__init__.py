"""Groups on their way off ZooKeeper, and back: states, journal, plans, checks, reports.  Decides; does not do."""
