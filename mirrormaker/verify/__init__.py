"""`mirrormaker verify`: what the source has against what the target has, message by message, without Spark."""
