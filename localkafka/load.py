"""Generated messages: a seeded mixture of keyed and unkeyed, plain and compressed ones, produced with acks −1.

Every value contains its place (`topic/partition #number …`), so that lost messages can be counted without a list of the
messages sent.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import Unreachable
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import WireError
from kafkawire.formats.v01.messages import encode
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import requests08 as requests
from localkafka.waiting import wait_until

PLAIN, GZIP, SNAPPY = 0, 1, 2
Message = tuple[int, bytes | None, bytes | None, int | None]  # number in its batch, key, value, timestamp


@dataclass(frozen=True, slots=True)
class Mixture:
    """Mixture of messages in a topic: share of keyed ones (0..1), codecs to draw from for each batch, bytes of a
    value."""

    keyed: float
    codecs: tuple[int, ...]
    value_bytes: int = 100


class Load:
    """Producer of generated messages: each batch is acknowledged before the next is sent, by all replicas or, with acks
    1, by the leader.

    A batch is resent until it is acknowledged, so after a broker's death the log may hold a batch twice: a test of a
    mirror must compare with the log, not with what this class sent.
    """

    def __init__(self, brokers: str, version: str, seed: int = 1, acks: int = -1) -> None:
        self._dialect: Dialect = dialect(version)
        self._acks = acks
        self._links = Links("load")
        bootstrap = [(host, int(port)) for host, port in (b.split(":") for b in brokers.split(","))]
        self._client = KafkaClient.of_brokers(bootstrap, self._links, self._dialect)
        self._random = random.Random(seed)
        self._next: dict[TopicPartition, int] = {}
        self._refused = False  # refused by the presumed leader
        self.sent = 0

    def produce(self, topic: str, partitions: int, count: int, mixture: Mixture, batch: int = 200) -> None:
        """Add `count` messages to a topic, spread over its partitions in batches."""
        for number, start in enumerate(range(0, count, batch)):
            tp = TopicPartition(topic, number % partitions)
            self.send(tp, min(batch, count - start), mixture)

    def send(self, tp: TopicPartition, count: int, mixture: Mixture) -> None:
        """Add one batch to one partition."""
        request = self.request(tp, self._messages(tp, count, mixture), self._random.choice(mixture.codecs))
        wait_until(lambda: self.attempt(tp, request), 30, f"{tp} to take {count} messages")
        self.sent += count

    def request(self, tp: TopicPartition, messages: Iterable[Message], codec: int) -> requests.Request:
        """Return a request for `attempt` with one batch of messages (number in the batch, key, value, timestamp)."""
        return requests.produce(self._dialect, self._acks, 10_000, {tp: [encode(messages, codec)]})

    def attempt(self, tp: TopicPartition, request: requests.Request) -> bool:
        """Send a batch once, and return whether it was acknowledged.  If not, it may still be in the log."""
        try:
            leader = self._client.leader(tp, refresh=self._refused)
        except Unreachable:  # also raised by brokers that do not know the cluster's first topic yet
            return False
        self._refused = not (isinstance(leader, Broker) and self._accepted(leader, tp, request))
        return not self._refused

    def _accepted(self, leader: Broker, tp: TopicPartition, request: requests.Request) -> bool:
        try:
            answer = self._links.call(leader, "load", request)[tp]
        except WireError:
            self._links.drop(leader, "load")
            return False
        return not answer.error

    def _messages(self, tp: TopicPartition, count: int, mixture: Mixture) -> Iterator[Message]:
        first = self._next.get(tp, 0)
        self._next[tp] = first + count
        for number in range(first, first + count):
            key = b"key-%d" % self._random.randrange(1000) if self._random.random() < mixture.keyed else None
            value = f"{tp} #{number} ".encode().ljust(mixture.value_bytes, b".")
            yield number - first, key, value, None

    @property
    def numbers(self) -> dict[TopicPartition, int]:
        """Return the number of messages sent to each partition; they are numbered from 0."""
        return dict(self._next)

    @contextmanager
    def in_background(self, topics: Mapping[str, Mixture], partitions: int, count: int) -> Iterator[None]:
        """Produce `count` messages to each topic in a thread during the block; its end waits until all are
        acknowledged."""
        with ThreadPoolExecutor(1, thread_name_prefix="load") as pool:
            filling = pool.submit(self._fill, topics, partitions, count)
            yield
            filling.result(timeout=60)

    def _fill(self, topics: Mapping[str, Mixture], partitions: int, count: int) -> None:
        for topic, mixture in topics.items():
            self.produce(topic, partitions, count, mixture)

    def close(self) -> None:
        self._links.close()
