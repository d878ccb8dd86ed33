"""Offset map in a compacted topic of the target, with the same methods as FileStorage.

    append   sent in order; the sender retries until it is stored
    sync     waits until all of it is acknowledged; OSError after WAIT_S, as for a disk

The topic has one partition; it is created if it is missing and target.zookeeper.connect is given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from groundwork.tasks import Event, now, sleep
from kafkawire.cluster import topics
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.zookeeper import read_brokers, read_partitions
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError
from kafkawire.model import Part, Ticket, TopicPartition
from mirrormaker.offsetmap.recorder import MapRefused
from mirrormaker.target import Target
from zkconsumer.offsetmap.file import MapFile
from zkconsumer.offsetmap.records import OffsetMap, Record
from zkconsumer.offsetmap.text import Header, header_line
from zkconsumer.offsetmap.topic import MAP_KEY, Slots, message_of, read_topic

log = logging.getLogger(__name__)

WAIT_S = 5.0  # longest time that a commit waits for the map
LEADER_AGAIN = RetryPolicy(retries=None, timeout_s=15.0, backoff=Backoff(0.2, factor=1.0))
COMPACTED = {"cleanup.policy": "compact"}


class TopicStorage:
    """Map in a topic.  found: the topic as it was read, and slots behind it.  submit: submits to the sender."""

    too_large = False  # compaction bounds it

    def __init__(
        self,
        topic: str,
        header: Header,
        *,
        found: MapFile,
        slots: Slots,
        dialect: Dialect,
        submit: Callable[[Part, Ticket], object],
    ) -> None:
        self.path = f"in topic {topic}"
        self.map: OffsetMap = found.map
        self.size = found.length
        self._tp = TopicPartition(topic, 0)
        self._slots = slots
        self._dialect = dialect
        self._submit = submit
        self._in_flight = 0
        self._acknowledged = Event()  # set when everything appended is acknowledged
        self._acknowledged.set()
        self._failure: Exception | None = None
        if found.header is None:
            self._send([(MAP_KEY, header_line(header).rstrip("\n").encode())])

    def append(self, records: Sequence[Record]) -> None:
        """Store records.  Raises OSError if the topic refused some."""
        self._raise()
        self._send([message_of(record, self._slots) for record in records])

    def sync(self) -> None:
        """Wait until everything appended is acknowledged.  Raises OSError."""
        if not self._acknowledged.wait(WAIT_S):
            raise TimeoutError(f"{self._in_flight} requests are not acknowledged after {WAIT_S:g} s")
        self._raise()

    def mend(self) -> None:
        """Recover after an error: check whether the topic accepts records now."""
        self._failure = None
        self.sync()

    def cut(self, pause: Callable[[], object]) -> None:
        """Do nothing: too_large is never true."""

    def close(self) -> None:
        """Do nothing: requests still in flight ended with their sender, and the last commit had synced the map."""

    def _send(self, messages: Sequence[tuple[bytes, bytes]]) -> None:
        rows = ((number, key, value, None) for number, (key, value) in enumerate(messages))
        entries = self._dialect.messages.encode(rows, codec=0, magic=self._dialect.magic)
        self._in_flight += 1
        self._acknowledged.clear()
        self._submit(Part(self._tp, entries, self._dialect.magic, 0, len(messages)), _RecordsTicket(self))

    def _raise(self) -> None:
        if self._failure is not None:
            raise OSError(str(self._failure))

    def completed(self, failure: Exception | None) -> None:
        """Count a request that was acknowledged or failed."""
        self._failure = failure or self._failure
        self._in_flight -= 1
        if not self._in_flight:
            self._acknowledged.set()


class _RecordsTicket:
    """Ticket of some records (kafkawire.model.Ticket)."""

    __slots__ = ("_storage",)

    def __init__(self, storage: TopicStorage) -> None:
        self._storage = storage

    def may_send(self) -> bool:
        return True

    def reached(self, resume_at: int) -> None:
        """Do nothing: the records are one piece."""

    def done(self) -> None:
        self._storage.completed(None)

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self._storage.completed(reason)


# ---- opened ---------------------------------------------------------------------------------------------------------


def open_topic(name: str, header: Header, target: Target) -> TopicStorage:
    """Read the map of a source from its topic, and return it.  Raises MapRefused, and WireError while the target is
    unreachable."""
    links = target.links()
    try:
        _create(name, target)
        client = target.client(links)
        _require_one_partition(name, client)
        slots = Slots()
        found = read_topic(client, name, slots, lambda: sleep(0), sleep=sleep, now=now)
    finally:
        links.close()
    if found.header is not None and found.header != header:
        raise MapRefused(
            f"topic {name} holds the offset map of source {found.header.source}, group {found.header.group}, not "
            f"of {header.source}, {header.group}: set another offset.map.topic"
        )
    submit = target.sender_of(header.source).submit
    return TopicStorage(name, header, found=found, slots=slots, dialect=target.dialect, submit=submit)


def _require_one_partition(name: str, client: KafkaClient) -> None:
    """Wait until the topic's only partition has a leader.  Raises MapRefused."""
    for attempt in LEADER_AGAIN.attempts(sleep, now):
        view = client.view(refresh=True)
        partitions = view.partitions(name)
        leader = view.leader(TopicPartition(name, 0)) if partitions else None
        if leader is not None and len(partitions) == 1:
            return
        if len(partitions) > 1:
            raise MapRefused(f"topic {name} has {len(partitions)} partitions, and an offset map needs one: its order")
        if attempt.last:
            what = "has no leader" if partitions else "does not exist, and target.zookeeper.connect is not given"
            raise MapRefused(f"topic {name} for the offset map {what}: create it with one partition, compacted")
    raise AssertionError("the last try returns or raises")


def _create(name: str, target: Target) -> None:
    if target.zookeeper is None:
        return
    znodes = target.dialect.znodes
    with target.zookeeper() as zk:
        if read_partitions(zk, znodes, [name]).get(name):
            return
        brokers = sorted(read_brokers(zk, znodes))
        replication = target.options.replication or min(3, len(brokers)) or 1
        try:
            topics.create(zk, name, topics.assign(brokers, 1, replication), COMPACTED)
        except LocalError as why:
            raise MapRefused(f"topic {name} for the offset map cannot be created: {why}") from why
        log.info("topic %s created for the offset map: compacted, replication %d", name, replication)
