"""Real ZooKeeper servers and Kafka brokers as child processes, a TCP proxy with faults, and the demo."""
