"""From brokers to streams: whom to ask for what, where to begin, and what of it is done."""
