"""Command `zkconsumer consume --partition`: reads one partition at its leader, without a group or commits.

If the leader moves or dies, the next one is looked up among all known brokers, up to LEADER_RETRIES times.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from groundwork.output import print_note
from groundwork.sentences import counted
from groundwork.streams import discard
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import NothingKnown, Unreachable
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import expected
from kafkawire.errors import BrokerError, CorruptMessage, LinkLost
from kafkawire.model import Broker, Message, MessageSet, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security
from zkconsumer.commands import pipes
from zkconsumer.commands.messageformat import MessageFormat
from zkconsumer.errors import ConsumerError, DamagedMessage
from zkconsumer.refusals import MessageTooLarge, OffsetOutOfRange
from zkconsumer.simple import SimpleConsumer

LEADER_RETRIES = RetryPolicy(retries=None, timeout_s=30.0, backoff=Backoff(0.5, factor=1.0))
WAIT_MS = 250  # wait of a fetch that finds nothing, which delays the notice of a closed pipe
FETCH_BYTES, MAX_BYTES = 1 << 20, 1 << 28
SMALLEST, LARGEST = "smallest", "largest"

T = TypeVar("T")


class NoSuchPartition(ConsumerError):
    """Raised when the cluster has no such topic, or the topic has no such partition."""


class Stop(Exception):
    """Raised for SIGTERM, or when the output pipe has no reader."""


class OnePartition:
    """Reader of a partition from `start`: an offset, smallest or largest.

    brokers: any brokers of the cluster; they name the leader.  look_up: used instead if brokers do not know
    it.
    """

    def __init__(
        self,
        brokers: Sequence[tuple[str, int]],
        topic: str,
        partition: PartitionId,
        *,
        start: int | str,
        release: str,
        timeout_ms: int,
        look_up: Callable[[], ClusterView] | None = None,
        security: Security = OPEN,
    ) -> None:
        self._tp = TopicPartition(topic, partition)
        self._start = start
        self._release = release
        self._waits = expected(release).waits_for_data
        self._timeout_ms = timeout_ms
        self._found = False  # True after the partition was found once: if it is missing later, it is expected back
        self._security = security
        versions = ClusterVersions(release)
        self._links = Links("zkconsumer", versions.connect(security.connect()), timeout_ms)
        cluster = KafkaClient.of_brokers(brokers, self._links, versions.dialect)
        self._look_up: Callable[[], ClusterView] = look_up or (lambda: cluster.view(refresh=True))
        self._consumer: SimpleConsumer | None = None
        self._max_bytes = FETCH_BYTES
        self._blank: int | None = None  # offset of the last fetch, if it brought nothing although the log continues

    def run(
        self,
        message_format: MessageFormat,
        max_messages: int | None,
        timeout_ms: int | None,
        out: BinaryIO | None = None,
    ) -> None:
        """Print until max_messages, timeout_ms without a message, ctrl-C, SIGTERM, or a closed pipe.

        Raises NoSuchPartition, other ConsumerErrors and WireError.
        """
        to = sys.stdout.buffer if out is None else out
        before = signal.signal(signal.SIGTERM, _stop)
        try:
            self.print_all(message_format, max_messages, timeout_ms, to)
            pipes.close(to)
        except (Stop, KeyboardInterrupt):
            pipes.leave(to)
        except BrokenPipeError:
            discard(to)
        finally:
            signal.signal(signal.SIGTERM, before)
            self.close()

    def close(self) -> None:
        """Close all connections."""
        self._leave()
        self._links.close()

    def print_all(
        self, message_format: MessageFormat, max_messages: int | None, timeout_ms: int | None, to: BinaryIO
    ) -> None:
        """Read and print, without handling signals and pipes."""
        position = self._begin()
        printed, since = 0, time.monotonic()
        while True:
            if pipes.has_no_reader(to):
                raise Stop
            fetched = self._fetch(position)
            for message in self._messages(fetched):
                to.write(message_format.line(message))
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

    def _messages(self, fetched: MessageSet) -> Iterator[Message]:
        """Yield the messages.  Raises DamagedMessage, with the partition and the offset behind the damage."""
        at = fetched.start
        try:
            for message in fetched.messages():
                yield message
                at = message.resume_at
        except CorruptMessage as damage:
            helps = "give --offset behind it to read on"
            raise DamagedMessage(self._tp, at, "the message is damaged", damage, helps) from damage

    def _see_large_batch(self, fetched: MessageSet) -> None:
        """Fetch more after two empty fetches before the end of the log: Kafka 3.x returns them if a batch is larger
        than the fetch."""
        end = fetched.high_watermark
        blank = fetched.resume_at if not fetched.runs and end is not None and end > fetched.resume_at else None
        if blank is not None and blank == self._blank:
            self._max_bytes = min(MAX_BYTES, 2 * self._max_bytes)
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
                if self._max_bytes >= MAX_BYTES:
                    raise
                self._max_bytes = min(MAX_BYTES, max(e.needed, 2 * self._max_bytes))
            except OffsetOutOfRange:
                low, high = self._ask(lambda at: (at.earliest(self._tp), at.latest(self._tp)))
                raise ConsumerError(
                    f"{self._tp} at {position}: its log holds {low} to {high}; give --offset in between, smallest or"
                    " largest"
                ) from None

    # the leader ---------------------------------------------------------------------------------------------------

    def _ask(self, question: Callable[[SimpleConsumer], T]) -> T:
        """Return question(the leader), retried at the next leader while leaders change (LEADER_RETRIES)."""
        for attempt in LEADER_RETRIES.attempts(time.sleep, time.monotonic):
            try:
                consumer = self._consumer = self._consumer or self._lead()
                answer = question(consumer)
            except (LinkLost, BrokerError, Unreachable, _NoLeader) as e:
                lasting = isinstance(e, BrokerError) and not e.passes
                never = isinstance(e, Unreachable) and not (self._found or isinstance(e, NothingKnown))
                if attempt.last or lasting or never:
                    raise
                print_note(f"{e}; looking for the leader again")
                self._leave()
            else:
                self._found = True
                return answer
        raise AssertionError("the last try returns or raises")

    def _lead(self) -> SimpleConsumer:
        leader = self._leader()
        host, port = leader.host, leader.port
        return SimpleConsumer(
            host, port, self._release, "zkconsumer", self._timeout_ms, broker_id=leader.id, security=self._security
        )

    def _leader(self) -> Broker:
        """Return the leader, from the metadata of all topics: a request that names a topic may create it."""
        view = self._look_up()
        partitions = view.topics.get(self._tp.topic)
        if partitions is None and self._tp.topic not in view.errors and not self._found:
            raise NoSuchPartition(f"topic {self._tp.topic} does not exist; zkconsumer topics lists those there are")
        if partitions is not None and self._tp.partition not in partitions and not self._found:
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
    """Raised when the partition has no leader at the moment."""


def _stop(number: int, frame: object) -> None:
    raise Stop
