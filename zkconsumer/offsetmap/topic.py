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

from groundwork.jsontext import json_value
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.logreader import RETENTION, Gap, LogReader, NothingRead
from kafkawire.cluster.metadata import Unreachable
from kafkawire.model import Message, TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.file import MapFile
from zkconsumer.offsetmap.records import Begun, Entry, Record
from zkconsumer.offsetmap.text import Header, MapDamaged, line_of, read_header, read_line

PURPOSE = "offset map"
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
            raise MapDamaged(f"topic {topic} at {message.offset}: no key or no value; it does not hold an offset map")
        try:
            if message.key == MAP_KEY:
                header = read_header(message.value.decode())
                continue
            records.append(read_line(message.value.decode()))
            slots.seen(message.key)
        except (ValueError, IndexError, TypeError) as why:
            raise MapDamaged(f"topic {topic} at {message.offset}: {why}; it does not hold an offset map") from None
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

    Wait while an election is held, as long as something is read each PATIENCE_S.  Raises WireError, ConsumerError.
    """
    reader = LogReader(client, purpose=PURPOSE, patience_s=PATIENCE_S, sleep=sleep, now=now)
    tp = TopicPartition(topic, 0)
    return understood(messages_from(reader, tp, reader.begin(tp), pause), topic, slots)


def messages_from(reader: LogReader, tp: TopicPartition, start: int, pause: Callable[[], object]) -> Iterator[Message]:
    """Read from an offset on, until the high watermark has reached the log end offset of the leader.

    Right after an election the high watermark may lie below what was acknowledged, and the newest checkpoints would be
    missing.  The end is asked again whenever nothing comes, since an election may have cut the log.
    """
    reading = reader.range(tp, start, reader.end(tp))
    try:
        for found in reading:
            if isinstance(found, Gap):
                if found.why == RETENTION:
                    raise found.error
                raise ConsumerError(f"offset map in topic {tp.topic}: its log is damaged at {found.first}: {found.why}")
            if found.moves:
                yield from found.messages.messages()
                pause()
            else:
                reader.sleep(AGAIN_S)
                reading.until = reader.end(tp)
    except NothingRead as nothing:
        at = f"{tp}: the offset map is read at {reading.offset} of {reading.until}"
        raise Unreachable(f"{at}, and {nothing}") from nothing


def _key(parts: list[object]) -> bytes:
    return json.dumps(parts, separators=(",", ":")).encode()
