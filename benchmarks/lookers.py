"""Handlers that look at each value and send it as it is, for benchmarks/mirror.py."""

from mirrormaker.handler import DROP


def by_message(message):
    return DROP if message.value[:1] == b"#" else message


def by_set(messages):
    messages.keep([value[:1] != b"#" for value in messages.values])
    return messages
