"""Message handlers for the mirror's tests: the daemon imports them by name."""

import hashlib
import sys
import time

from kafkawire.model import Message
from mirrormaker.handler import DROP


def same(message: object) -> object:
    """What comes in goes out, by the way of decoding and encoding."""
    return message


def works(message: Message) -> object:
    """Takes its time with each message, as a program's own code does."""
    hashlib.sha256((message.value or b"") * 100).digest()
    return message


def stands_still(message: object) -> object:
    """Blocks the whole program, as a call without a time-out would."""
    print("the handler stands still", file=sys.stderr, flush=True)
    time.sleep(120)
    return message


def forgets(message: Message) -> object:
    """What it makes is not returned."""
    (message.key, message.value)  # noqa: B018
    return None


def drops(message: Message) -> object:
    """Topics that are to be dropped say so."""
    return DROP if message.topic.startswith("dropped") else message


def raises(message: Message) -> object:
    print("raises is called", file=sys.stderr, flush=True)
    return {}[message.topic]


def raises_for_some(message: Message) -> object:
    if message.value is not None and message.value.startswith(b"raise"):
        raise ValueError("not for me")
    return message


def quotes(message: Message) -> object:
    """Raises with the whole message in its text, at one that says poison; drops what says bad by an error of int()."""
    if b"poison" in (message.value or b""):
        raise ValueError(f"cannot read {message.value!r} of {message.key!r}, in hex {(message.value or b'').hex()}")
    if b"number" in (message.value or b""):
        int(message.value or b"")
    return message
