"""The commands of operators, put together with those of the consumer as the program `zkconsumer`."""
