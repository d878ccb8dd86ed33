"""Groups and clusters as they are at one moment, in ZooKeeper and in Kafka.  Reads only, and creates nothing."""
