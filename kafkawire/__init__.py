"""Wire formats of Kafka and connections to brokers, for 0.7 and for 0.8 to 4.x.  Knows nothing of consumers, producers
or mirrors, and can be used alone."""
