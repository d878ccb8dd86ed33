"""The admin commands, and the program `zkconsumer` made of them and of the consumer's commands."""
