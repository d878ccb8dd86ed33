"""A cluster's brokers, asked by the driver and by tasks over plain blocking links."""
