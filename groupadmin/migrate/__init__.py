"""Migration of groups from ZooKeeper to Kafka and back: rules, plan file, journal, report, runner of the steps."""
