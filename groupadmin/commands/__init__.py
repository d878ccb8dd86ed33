"""The admin commands of the program `zkconsumer` (zkconsumer/commands/cli.py), and the drop-in tools."""
