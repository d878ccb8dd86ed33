"""Immutable view of a cluster at one moment, read from ZooKeeper or Metadata, or listed by an option."""
