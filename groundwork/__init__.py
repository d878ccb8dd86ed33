"""What every package stands on and what knows nothing of Kafka: tasks, hub, options, Java-isms, output, fail points."""
