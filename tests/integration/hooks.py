"""Message handlers for the mirror's tests: the daemon imports them by name."""

import sys
import time


def same(message: object) -> object:
    """What comes in goes out, by the way of decoding and encoding."""
    return message


def stands_still(message: object) -> object:
    """Blocks the whole program, as a call without a time-out would."""
    print("the handler stands still", file=sys.stderr, flush=True)
    time.sleep(120)
    return message
