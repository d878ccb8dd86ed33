"""A member that changes its filter while it runs, on a real group: what it keeps flows on, what it leaves is taken."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.load import Load
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import PLAIN_ONLY
from zkconsumer.connector import ConsumerConnector
from zkconsumer.events import ConsumerEvent
from zkconsumer.filters import Whitelist

pytestmark = pytest.mark.real


class Reading:
    """A member, in a hub of its own; what it read, and its events."""

    def __init__(self, cluster: ClusterClient, group: str, pattern: str) -> None:
        self._read: Counter[tuple[TopicPartition, int]] = Counter()
        self.events: list[ConsumerEvent] = []
        options = {"zookeeper.connect": cluster.zookeeper, "group.id": group, "auto.offset.reset": "smallest"}
        self.connector = ConsumerConnector(options, hub="own", on_event=self.events.append)
        (self._stream,) = self.connector.create_message_streams_by_filter(Whitelist(pattern))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for message in self._stream:
            self._read[TopicPartition(message.topic, message.partition), message.offset] += 1

    @property
    def read(self) -> Counter[tuple[TopicPartition, int]]:
        """How often each message was read so far; a copy, as its thread reads on."""
        return Counter(self._read)

    def owned(self) -> set[TopicPartition]:
        return {row.tp for row in self.connector.status()}

    def released(self) -> list[str]:
        return [event.text for event in self.events if event.kind == "released"]


@contextmanager
def reading(cluster: ClusterClient, group: str, pattern: str) -> Iterator[Reading]:
    member = Reading(cluster, group, pattern)
    try:
        yield member
    finally:
        member.connector.shutdown()


def test_a_filter_changes_and_only_what_goes_is_released(source: ClusterClient, unique: Unique) -> None:
    group, topics = unique.group(), [unique.topic(name) for name in ("kept", "left", "new")]
    kept, left, new = topics
    load = Load(source.brokers, source.version, 3)
    for topic in topics:
        source.create_topic(topic, 2)
        load.produce(topic, 2, 200, PLAIN_ONLY)
    of = {topic: {TopicPartition(topic, p) for p in range(2)} for topic in topics}
    with reading(source, group, f"{kept}|{left}") as first, reading(source, group, left) as second:
        wait_until(lambda: len(first.owned() | second.owned()) == 4, 20, lambda: f"{first.owned()} {second.owned()}")
        wait_until(lambda: len(first.owned()) == 3, 20, lambda: f"{first.owned()}")  # of left each has one
        (own,) = first.owned() & of[left]
        assert first.connector.change_filter(Whitelist(f"{kept}|{new}"))
        assert first.owned() == of[kept] | of[new]
        # The other partition of left may have been released before: first was alone for a moment.
        assert [str(own) in text for text in first.released()].count(True) == 1
        assert not [text for text in first.released() if kept in text]
        wait_until(lambda: second.owned() == of[left], 20, lambda: f"{second.owned()}")
        for topic in topics:
            load.produce(topic, 2, 200, PLAIN_ONLY)
        wait_until(lambda: len(first.read | second.read) == 1200, 30, lambda: f"{len(first.read | second.read)}")
        assert sum((first.read + second.read).values()) == 1200, "nothing is read twice"
    load.close()
