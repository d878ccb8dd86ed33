"""The commands that read topics and show the cluster: consume, topics, brokers; what all commands stand on."""
