"""Engine of a connector: cursors, fetchers, commits and timers, for a group member or for fixed partitions."""
