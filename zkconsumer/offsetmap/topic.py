"""Offset map in a compacted topic of the target: its messages, and how they are read.

    key    a JSON array: ["map"], ["begin", SOURCE, SLOT], ["at", SOURCE, TARGET, SLOT], ["reached", SOURCE]
    value  a line of the map's text (text.py)

Compaction keeps the last message of each key.  Slots are used in turn, so a source partition keeps its last periods and
a pair its last entries, and the topic stays bounded.  It has one partition: the order of its messages is that of the
map.  All mirrors of a group write to one topic.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from groundwork.jsontext import json_value
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.leaders import NoLeader
from kafkawire.cluster.listoffsets import DEBUGGING, EARLIEST, LATEST
from kafkawire.cluster.metadata import Unreachable
from kafkawire.errors import BrokerError, LinkLost, WireError
from kafkawire.model import Message, MessageSet, TopicPartition
from kafkawire.protocol.request import CONSUMER
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.file import MapFile
from zkconsumer.offsetmap.records import Begun, Entry, Record
from zkconsumer.offsetmap.text import Header, MapDamaged, line_of, read_header, read_line

PURPOSE = "offset map"
FETCH_BYTES = 1 << 20
PATIENCE_S = 30.0  # without a message, until the reading ends
AGAIN_S = 0.2
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
    client: KafkaClient,
    topic: str,
    slots: Slots,
    pause: Callable[[], object] = lambda: None,
    *,
    sleep: Callable[[float], object] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> MapFile:
    """Read the map, to the end of its leader's log.  pause() is called between requests.

    What an election ends is waited for, as long as something is read each PATIENCE_S.  Raises WireError, MapDamaged.
    """
    return understood(_Reader(client, TopicPartition(topic, 0), sleep, now).messages(pause), topic, slots)


class _Reader:
    """Reader of the topic's only partition.

    It reads on until the high watermark has reached the log end offset of the leader: right after an election the high
    watermark may lie below what was acknowledged, and the newest checkpoints would be missing.  The end is asked again
    whenever nothing comes, since an election may have cut the log.
    """

    def __init__(
        self,
        client: KafkaClient,
        tp: TopicPartition,
        sleep: Callable[[float], object],
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._tp = tp
        self._sleep = sleep
        self._now = now
        self._position: int | None = None
        self._end = 0

    def messages(self, pause: Callable[[], object]) -> Iterator[Message]:
        since = self._now()
        while True:
            why: WireError | None = None
            found: MessageSet | None = None
            try:
                if self._position is None:
                    self._position, self._end = self._bound(EARLIEST), self._bound(LATEST, DEBUGGING)
                if self._position >= self._end:
                    return
                found = self._fetch(self._position)
            except (LinkLost, NoLeader, Unreachable) as lost:
                why = lost
            except BrokerError as refused:
                if not refused.passes:
                    raise
                why = refused
            if found is not None and found.resume_at > found.start:
                yield from found.messages()
                self._position, since = found.resume_at, self._now()
                pause()
                continue
            if self._now() - since >= PATIENCE_S:
                raise self._patience_over(why)
            self._sleep(AGAIN_S)
            with suppress(LinkLost, NoLeader, Unreachable, BrokerError):  # whatever it is, the next try meets it
                self._client.leader(self._tp, refresh=True)
                if self._position is not None:
                    self._end = self._bound(LATEST, DEBUGGING)

    def _fetch(self, position: int) -> MessageSet | None:
        """The next set; None: the answer leaves the partition out."""
        tp, dialect = self._tp, self._client.dialect
        leader = self._client.leader(tp)
        if isinstance(leader, NoLeader):
            raise leader
        rows = self._client.links.call(
            leader, PURPOSE, dialect.requests.fetch(dialect, 100, 1, [(tp, position, FETCH_BYTES)])
        )
        row = next((each for each in rows if each.tp == tp), None)
        if row is None:
            return None
        if row.error:
            raise BrokerError(row.error, f"{tp} at {position} on {leader}")
        found, scan = dialect.messages.message_set(
            tp.topic, tp.partition, position, row.buffer, row.high_watermark, row.aborted
        )
        if not found.runs and scan.damage is not None:
            raise ConsumerError(f"offset map in topic {tp.topic}: its log is damaged at {position}: {scan.damage}")
        return found

    def _bound(self, time_ms: int, replica_id: int = CONSUMER) -> int:
        return self._client.list_offsets({self._tp: time_ms}, replica_id=replica_id)[self._tp].known()

    def _patience_over(self, why: WireError | None) -> WireError:
        if self._position is None and why is not None:
            return why
        reason = why or f"what lies before the end of its leader's log, {self._end}, is not replicated"
        at = f"{self._tp}: the offset map is read at {self._position} of {self._end}"
        return Unreachable(f"{at}, and nothing came for {PATIENCE_S:g} s: {reason}")


def _key(parts: list[object]) -> bytes:
    return json.dumps(parts, separators=(",", ":")).encode()
