"""A sender on a fake cluster, for tests of what it does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from groundwork.tasks import TaskGroup, connect, now, sleep
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.dialects import dialect
from kafkawire.model import Part, TopicPartition
from kafkawire.net.links import Links
from producer.config import ProducerConfig
from producer.sender import Sender
from tests.fakes.broker import FakeCluster, entry
from tests.fakes.tickets import Ticket

WAIT_S = 10.0
TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def part(*values: bytes, tp: TopicPartition = TP, first: int = 100) -> Part:
    """Plain entries with source offsets from `first` on."""
    entries = b"".join(entry(value, offset=first + n) for n, value in enumerate(values))
    return Part(tp, entries, 0, 0, len(values), first + len(values))


def until(condition: Callable[[], object]) -> None:
    deadline = now() + WAIT_S
    while not condition():
        assert now() < deadline, "not within the time"
        sleep(0.005)


class Running:
    """A sender on a fake cluster, and what it said."""

    def __init__(self, cluster: FakeCluster, by_name: bool = False, **options: Any) -> None:
        quick = {"retries": -1, "linger_ms": 0, "retry_backoff_ms": 5, "reconnect_ms": 20}
        config = ProducerConfig(brokers=tuple(cluster.bootstrap), **{**quick, **options})
        self.tasks = TaskGroup()
        self.events: list[str] = []
        self.levels: list[int] = []
        self.links = Links("test", connect, 5000)
        source = MetadataSource(cluster.bootstrap, dialect("0.8.2"), self.links)
        self.sender = Sender(source, config, self.tasks, events=self._event, by_name=by_name)

    def _event(self, level: int, sentence: str) -> None:
        self.levels.append(level)
        self.events.append(sentence)

    def warnings(self) -> list[str]:
        return [said for level, said in zip(self.levels, self.events, strict=True) if level >= logging.WARNING]

    def submit(self, *parts: Part) -> list[Ticket]:
        tickets = [Ticket() for _ in parts]
        for each, ticket in zip(parts, tickets, strict=True):
            self.sender.submit(each, ticket)
        return tickets

    def sent(self, *parts: Part) -> list[Ticket]:
        tickets = self.submit(*parts)
        assert self.sender.flush(WAIT_S), self.events
        return tickets


@contextmanager
def running(cluster: FakeCluster, **options: Any) -> Iterator[Running]:
    run = Running(cluster, **options)
    try:
        yield run
        assert run.tasks.death is None
    finally:
        run.sender.close(0.0)
        run.links.close()
        assert run.tasks.stop(WAIT_S) == []
