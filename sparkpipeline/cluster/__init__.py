"""Access to a cluster's brokers over plain blocking links, for the driver and for tasks."""
