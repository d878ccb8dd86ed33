"""Real ZooKeeper and real brokers as child processes, a TCP proxy with faults, the demo."""
