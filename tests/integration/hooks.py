"""Message handlers for the mirror's tests: the daemon imports them by name."""


def same(message: object) -> object:
    """What comes in goes out, by the way of decoding and encoding."""
    return message
