"""Offset map in a compacted topic of the target: its messages, and how they are read.

    key    a JSON array: ["map"], ["begin", SOURCE, SLOT], ["at", SOURCE, TARGET, SLOT], ["reached", SOURCE]
    value  a line of the map's text (text.py)

Compaction keeps the last message of each key.  Slots are used in turn, so a source partition keeps its last periods and
a pair its last entries, and the topic stays bounded.  It has one partition: the order of its messages is that of the
map.  All mirrors of a group write to one topic.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable

from groundwork.jsontext import json_value
from groundwork.tasks import now, sleep
from kafkawire.cluster.fetches import WAITS, Wanted, fetch_answered
from kafkawire.cluster.listoffsets import EARLIEST, LATEST, ask_offsets
from kafkawire.cluster.retry import RetryPolicy
from kafkawire.dialects import Dialect
from kafkawire.errors import NOT_ANSWERED, BrokerError
from kafkawire.model import Broker, Message, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.request import FetchedPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.file import MapFile
from zkconsumer.offsetmap.records import Begun, Entry, Record
from zkconsumer.offsetmap.text import Header, MapDamaged, line_of, read_header, read_line

PURPOSE = "offset map"
FETCH_BYTES = 1 << 20
PATIENCE_S = 30.0
STINTS, ENTRIES = 100, 2000  # slots
MAP_KEY = b'["map"]'


class Slots:
    """Keys of records: slots used in turn, continued after a restart by `seen`."""

    def __init__(self) -> None:
        self._used: Counter[tuple[object, ...]] = Counter()

    def seen(self, key: bytes) -> None:
        """Take note of a message of the topic, in order: the next record goes behind its slot."""
        parts = json_value(key)
        if parts[0] in ("begin", "at"):
            self._used[tuple(parts[:-1])] = parts[-1] + 1

    def key(self, record: Record) -> bytes:
        source = [record.source.topic, str(record.source.partition)]
        if isinstance(record, Begun):
            return self._next(["begin", *source], STINTS)
        if isinstance(record, Entry):
            return self._next(["at", *source, record.target.topic, str(record.target.partition)], ENTRIES)
        return _key(["reached", *source])

    def _next(self, parts: list[object], slots: int) -> bytes:
        used = self._used[tuple(parts)]
        self._used[tuple(parts)] = used + 1
        return _key([*parts, used % slots])


def message_of(record: Record, slots: Slots) -> tuple[bytes, bytes]:
    """Key and value."""
    return slots.key(record), line_of(record).rstrip("\n").encode()


def understood(messages: Iterable[Message], topic: str, slots: Slots) -> MapFile:
    """The map of a topic's messages; slots continues behind them.  Raises MapDamaged."""
    header: Header | None = None
    records: list[Record] = []
    count = 0
    for message in messages:
        count += 1
        if message.key is None or message.value is None:
            raise MapDamaged(f"topic {topic} at {message.offset}: a message without key or value: it is no offset map")
        try:
            if message.key == MAP_KEY:
                header = read_header(message.value.decode())
                continue
            records.append(read_line(message.value.decode()))
            slots.seen(message.key)
        except (ValueError, IndexError, TypeError) as why:
            raise MapDamaged(f"topic {topic} at {message.offset}: {why}: it is no offset map") from None
    return MapFile(header, tuple(records), count)


def read_topic(
    links: Links, dialect: Dialect, leader: Broker, topic: str, slots: Slots, pause: Callable[[], object] = lambda: None
) -> MapFile:
    """Read the map.  pause() is called between requests; what the leader does not answer for is asked for again, for
    PATIENCE_S at most.  Raises WireError, MapDamaged."""
    return understood(_messages(links, dialect, leader, TopicPartition(topic, 0), pause), topic, slots)


def _messages(
    links: Links, dialect: Dialect, leader: Broker, tp: TopicPartition, pause: Callable[[], object]
) -> Iterable[Message]:
    position, end = (_bound(links, dialect, leader, tp, time) for time in (EARLIEST, LATEST))

    def ask(wanted: Wanted) -> list[FetchedPartition]:
        return links.call(leader, PURPOSE, dialect.requests.fetch(dialect, 100, 1, wanted))

    while position < end:
        [row] = fetch_answered(ask, [(tp, position, FETCH_BYTES)], timeout_s=PATIENCE_S, sleep=sleep, now=now)
        if row.error:
            raise BrokerError(row.error, f"{tp} at {position} on {leader}")
        found, scan = dialect.messages.message_set(
            tp.topic, tp.partition, position, row.buffer, row.high_watermark, row.aborted
        )
        if not found.runs and scan.damage is not None:
            raise ConsumerError(f"offset map in topic {tp.topic}: its log is damaged at {position}: {scan.damage}")
        yield from found.messages()
        position = found.resume_at
        pause()


def _bound(links: Links, dialect: Dialect, leader: Broker, tp: TopicPartition, time: int) -> int:
    for attempt in RetryPolicy(retries=None, backoff=WAITS, timeout_s=PATIENCE_S).attempts(sleep, now):
        found = ask_offsets(links, dialect, {leader: [tp]}, {tp: time}, purpose=PURPOSE)[tp]
        if found.code != NOT_ANSWERED or attempt.last:
            break
    return found.known()


def _key(parts: list[object]) -> bytes:
    return json.dumps(parts, separators=(",", ":")).encode()
