"""The high-level consumer: groups in ZooKeeper, shared with JVM members."""
