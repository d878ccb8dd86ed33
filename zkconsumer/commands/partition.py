"""Command `zkconsumer consume --partition`: reads one partition at its leader, without a group or commits.

If the leader moves or dies, the next one is looked up among all known brokers, for LEADER_S at most.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import BinaryIO

from groundwork.output import print_note
from groundwork.sentences import counted
from groundwork.streams import discard
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.leaders import MetadataLeaders, NoLeader
from kafkawire.cluster.logreader import RETENTION, Gap, LogReader
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import CorruptMessage
from kafkawire.model import Broker, Message, MessageSet, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security
from zkconsumer.commands import pipes
from zkconsumer.commands.messageformat import MessageFormat
from zkconsumer.errors import ConsumerError, DamagedMessage
from zkconsumer.refusals import refusal

LEADER_S = 30.0  # how long a leader is looked for
STARTING = RetryPolicy(backoff=Backoff(0.5, factor=1.0), election_s=LEADER_S)  # of brokers that know of nothing yet
WAIT_MS = 250  # wait of a fetch that finds nothing, which delays the notice of a closed pipe
MAX_BYTES = 1 << 28
SMALLEST, LARGEST = "smallest", "largest"


class NoSuchPartition(ConsumerError):
    """Raised when the cluster has no such topic, or the topic has no such partition."""


class Stop(Exception):
    """Raised for SIGTERM, or when the output pipe has no reader."""


class OnePartition:
    """Reader of a partition from `start`: an offset, smallest or largest.

    brokers: any brokers of the cluster; they name the leader.  look_up: used instead if brokers do not know it.
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
        self._brokers = [Broker(-1 - n, host, port) for n, (host, port) in enumerate(brokers)]
        versions = ClusterVersions(release)
        self._links = Links("zkconsumer", versions.connect(security.connect()), timeout_ms)
        by_metadata = MetadataLeaders(MetadataSource(brokers, versions.dialect, self._links))
        source = by_metadata if look_up is None else _LookedUp(look_up)
        self._reader = LogReader(
            KafkaClient(source, self._links, versions.dialect),
            purpose="consume",
            max_fetch_bytes=MAX_BYTES,
            wait_ms=WAIT_MS,
            patience_s=LEADER_S,
            refusal=refusal,
            retrying=lambda why: print_note(f"{why}; looking for the leader again"),
        )

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
        self._links.close()

    def print_all(
        self, message_format: MessageFormat, max_messages: int | None, timeout_ms: int | None, to: BinaryIO
    ) -> None:
        """Read and print, without handling signals and pipes."""
        reading = self._reader.range(self._tp, self._begin())
        printed, since = 0, time.monotonic()
        for found in reading:
            if pipes.has_no_reader(to):
                raise Stop
            if isinstance(found, Gap):
                raise self._outside(found.first) if found.why == RETENTION else found.error
            for message in self._messages(found.messages):
                to.write(message_format.line(message))
                printed, since = printed + 1, time.monotonic()
                if printed == max_messages:
                    return
            to.flush()
            if timeout_ms is not None and (time.monotonic() - since) * 1000 >= timeout_ms:
                return

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

    def _begin(self) -> int:
        """Return the position to start at.  Raises NoSuchPartition, and ConsumerError if the log does not hold it."""
        self._links.meet(self._brokers)
        self._require_partition()
        if self._start == SMALLEST:
            return self._reader.begin(self._tp)
        if not isinstance(self._start, int):
            return self._reader.shown_end(self._tp)
        if not self._reader.begin(self._tp) <= self._start <= self._reader.end(self._tp):
            raise self._outside(self._start)
        return self._start

    def _outside(self, position: int) -> ConsumerError:
        low, high = self._reader.begin(self._tp), self._reader.shown_end(self._tp)
        return ConsumerError(
            f"{self._tp} at {position}: its log holds {low} to {high}; give --offset in between, smallest or largest"
        )

    def _require_partition(self) -> None:
        """Look the partition up among all topics, since naming a topic may create it.  Raises NoSuchPartition."""
        view = self._reader.client.view(refresh=True, retry=STARTING)
        partitions = view.topics.get(self._tp.topic)
        if partitions is None and self._tp.topic not in view.errors:
            raise NoSuchPartition(f"topic {self._tp.topic} does not exist; zkconsumer topics lists those there are")
        if partitions is not None and self._tp.partition not in partitions:
            there = ", ".join(map(str, view.partitions(self._tp.topic)))
            raise NoSuchPartition(
                f"{self._tp}: the topic has {counted(len(partitions), 'partition')}, {there or 'none now'}"
            )


class _LookedUp:
    """Leaders that a function looks up, for 0.7, whose brokers do not know them."""

    reads_all = True

    def __init__(self, look_up: Callable[[], ClusterView]) -> None:
        self._look_up = look_up

    def read(self, tps: Collection[TopicPartition] | None) -> ClusterView:
        return self._look_up()

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        return view.leader(tp) or NoLeader("it has no leader now")


def _stop(number: int, frame: object) -> None:
    raise Stop
