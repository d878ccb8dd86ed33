"""message.handler called for one message, without a flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.dialects import dialect
from kafkawire.headers import packed
from kafkawire.model import Message, PartitionId, TopicPartition
from mirrormaker.handler import Handler, MessageHandler
from producer.conversion import MessageHandlerFailed, Output, Rows

NEWEST = dialect("2.8")


class Sent(NamedTuple):
    """A message that is sent.  headers: their block."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    partition: PartitionId | None = None
    headers: bytes | None = None


def handled(handler: Handler, message: Message, name: str) -> list[Sent]:
    """Return what a handler wants sent for a message."""
    blocks = [packed(message.headers)] if message.headers else None
    rows = Rows([message.offset], [message.key], [message.value], [message.timestamp_ms], message.resume_at, blocks)

    def refuse(given: Message, failed: MessageHandlerFailed) -> Sequence[Output]:
        raise failed

    source = TopicPartition(message.topic, message.partition)
    found = MessageHandler(handler, name, "dc1", NEWEST).outputs(
        source, rows, speaks=NEWEST, clock=lambda: 0.0, instead=refuse
    )
    sent = list[Sent]()
    for outputs in found:
        assert outputs is not None
        made, nothing = outputs.rows, [None] * len(outputs.offsets)
        topics, partitions = outputs.topics or nothing, outputs.partitions or nothing
        columns = made.keys, made.values, made.timestamps_ms, partitions, made.headers or nothing
        sent += [Sent(topic or source.topic, *row) for topic, *row in zip(topics, *columns, strict=True)]
    return sent
