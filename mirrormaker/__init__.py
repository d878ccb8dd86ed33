"""The daemon that copies topics from clusters to a cluster."""
