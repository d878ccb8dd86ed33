"""What every package stands on and what knows nothing of Kafka: crew, hub, options, Java-isms, output, fail points."""
