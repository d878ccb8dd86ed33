"""delivery.guarantee: exactly-once.  Messages and positions share the target's transactions."""
