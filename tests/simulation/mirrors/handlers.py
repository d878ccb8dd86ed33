"""What users' code does in schedules: handlers that change nothing, and a partitioner."""

from __future__ import annotations

from kafkawire.model import Message
from mirrormaker.handler import Send
from mirrormaker.sethandler import MessageColumns


def sent_again(message: Message) -> Send:
    """Send what came, encoded again."""
    return Send(message.value, key=message.key)


def keys_again(messages: MessageColumns) -> MessageColumns:
    """Send what came, with other objects for keys, so that it is encoded again."""
    messages.keys = [None if key is None else bytes(bytearray(key)) for key in messages.keys]
    return messages


def kind_of(name: bytes) -> int:
    """What stands behind the @ of a message's name: messages of one kind stay in order, and in one partition."""
    return int(name.rpartition(b"@")[2])


def partition(key: bytes, count: int) -> int:
    return kind_of(key) % count
