"""The lowest package, which knows nothing of Kafka: tasks, hub, options, Java's rules, logs, output, fail points."""
