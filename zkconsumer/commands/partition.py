"""`zkconsumer consume --partition`: one partition read at its leader, without a group; nothing is written anywhere.

When the leader moves or dies the next one is looked for among all brokers we know, for a while.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO, TypeVar

import click

from groundwork.plural import counted
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, MessageSet, PartitionId, TopicPartition
from kafkawire.net.links import Links
from zkconsumer.commands import pipes
from zkconsumer.commands.printing import Printing
from zkconsumer.errors import ConsumerError
from zkconsumer.refusals import MessageTooLarge, NotLeader, OffsetOutOfRange, UnknownPartition
from zkconsumer.simple import SimpleConsumer

LEADER_AGAIN = RetryPolicy(retries=None, timeout_s=30.0, backoff=Backoff(0.5, factor=1.0))
WAIT_MS = 250  # of a fetch that finds nothing: how late a closed pipe is noticed
FETCH_BYTES, MOST_BYTES = 1 << 20, 1 << 28
SMALLEST, LARGEST = "smallest", "largest"

T = TypeVar("T")


class NoSuchPartition(ConsumerError):
    """The cluster has no such topic, or the topic no such partition."""


class Stop(Exception):
    """SIGTERM, or nobody reads what we print."""


class OnePartition:
    """Reads a partition from `start`: a position, smallest or largest.

    brokers: any of the cluster, who are asked who leads it.  look: says so in their place, where brokers do not know.
    """

    def __init__(
        self,
        brokers: Sequence[tuple[str, int]],
        topic: str,
        partition: PartitionId,
        start: int | str,
        release: str,
        timeout_ms: int,
        look: Callable[[], ClusterView] | None = None,
    ) -> None:
        self._tp = TopicPartition(topic, partition)
        self._start = start
        self._release = release
        self._waits = dialect(release).waits_for_data
        self._timeout_ms = timeout_ms
        self._met = False  # the partition was there once: when it is not, it is on its way back
        self._links = Links("zkconsumer", timeout_ms=timeout_ms)
        cluster = KafkaClient.of_brokers(brokers, self._links, dialect(release))
        self._look: Callable[[], ClusterView] = look or (lambda: cluster.view(refresh=True))
        self._consumer: SimpleConsumer | None = None
        self._max_bytes = FETCH_BYTES
        self._blank: int | None = None  # where the last fetch brought nothing, though the log goes on

    def run(
        self, printing: Printing, max_messages: int | None, timeout_ms: int | None, out: BinaryIO | None = None
    ) -> None:
        """Until so many were printed, none came for so long, ctrl-C, SIGTERM, or nobody reads.

        Raises NoSuchPartition, other ConsumerErrors, WireError.
        """
        to = sys.stdout.buffer if out is None else out
        before = signal.signal(signal.SIGTERM, _stop)
        try:
            self.print_all(printing, max_messages, timeout_ms, to)
            pipes.close(to)
        except (Stop, KeyboardInterrupt):
            pipes.leave(to)
        except BrokenPipeError:
            pipes.discard(to)
        finally:
            signal.signal(signal.SIGTERM, before)
            self.close()

    def close(self) -> None:
        """Close all connections."""
        self._leave()
        self._links.close()

    def print_all(self, printing: Printing, max_messages: int | None, timeout_ms: int | None, to: BinaryIO) -> None:
        """The reading itself, which ends by itself only."""
        position = self._begin()
        printed, since = 0, time.monotonic()
        while True:
            if pipes.nobody_reads(to):
                raise Stop
            fetched = self._fetch(position)
            for message in fetched.messages():
                to.write(printing.line(message))
                printed, since = printed + 1, time.monotonic()
                if printed == max_messages:
                    return
            to.flush()
            self._see_large_batch(fetched)
            position = fetched.resume_at
            if timeout_ms is not None and (time.monotonic() - since) * 1000 >= timeout_ms:
                return
            if not fetched.runs and not self._waits:
                time.sleep(WAIT_MS / 1000)

    def _see_large_batch(self, fetched: MessageSet) -> None:
        """Twice nothing though the log goes on: Kafka 3.x answers so for a batch that is larger than the fetch."""
        end = fetched.high_watermark
        blank = fetched.resume_at if not fetched.runs and end is not None and end > fetched.resume_at else None
        if blank is not None and blank == self._blank:
            self._max_bytes = min(MOST_BYTES, 2 * self._max_bytes)
        self._blank = blank

    def _begin(self) -> int:
        if isinstance(self._start, int):
            return self._start
        return self._ask(lambda at: at.earliest(self._tp) if self._start == SMALLEST else at.latest(self._tp))

    def _fetch(self, position: int) -> MessageSet:
        while True:
            try:
                return self._ask(lambda at: at.fetch(*self._tp, position, self._max_bytes, WAIT_MS))
            except MessageTooLarge as e:
                if self._max_bytes >= MOST_BYTES:
                    raise
                self._max_bytes = min(MOST_BYTES, max(e.needed, 2 * self._max_bytes))
            except OffsetOutOfRange:
                low, high = self._ask(lambda at: (at.earliest(self._tp), at.latest(self._tp)))
                raise ConsumerError(
                    f"{self._tp} at {position}: its log holds {low} to {high}; give --offset in between, smallest or"
                    " largest"
                ) from None

    # the leader ---------------------------------------------------------------------------------------------------

    def _ask(self, question: Callable[[SimpleConsumer], T]) -> T:
        """question(the leader), asked again of the next leader while leaders change, for a while (LEADER_AGAIN)."""
        for attempt in LEADER_AGAIN.attempts(time.sleep, time.monotonic):
            try:
                consumer = self._consumer = self._consumer or self._lead()
                answer = question(consumer)
            except (LinkLost, NotLeader, UnknownPartition, Unreachable, _NoLeader) as e:
                if attempt.last or (isinstance(e, Unreachable) and not self._met):
                    raise
                click.echo(f"{e}; looking for the leader again", err=True)
                self._leave()
            else:
                self._met = True
                return answer
        raise AssertionError("the last try returns or raises")

    def _lead(self) -> SimpleConsumer:
        leader = self._leader()
        host, port = leader.host, leader.port
        return SimpleConsumer(host, port, self._release, "zkconsumer", self._timeout_ms, broker_id=leader.id)

    def _leader(self) -> Broker:
        """All topics are asked for: asking by name may create the topic."""
        view = self._look()
        partitions = view.topics.get(self._tp.topic)
        if partitions is None and self._tp.topic not in view.errors and not self._met:
            raise NoSuchPartition(f"topic {self._tp.topic} does not exist; zkconsumer topics lists those there are")
        if partitions is not None and self._tp.partition not in partitions and not self._met:
            there = ", ".join(map(str, view.partitions(self._tp.topic)))
            raise NoSuchPartition(
                f"{self._tp}: the topic has {counted(len(partitions), 'partition')}, {there or 'none now'}"
            )
        leader = view.leader(self._tp)
        if leader is None:
            raise _NoLeader(f"{self._tp} has no leader now")
        return leader

    def _leave(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


class _NoLeader(ConsumerError):
    """No broker leads the partition at the moment."""


def _stop(number: int, frame: object) -> None:
    raise Stop
