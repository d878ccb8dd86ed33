"""The command zkconsumer."""
