"""Groups off ZooKeeper, and back: states, checks, plans, the journal, and the steps that are carried out."""
