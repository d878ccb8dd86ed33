"""What is sent in the matrix: every shape of a message, in topics by codec, and transactions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.matrix.peer import Headers, Row
from tests.matrix.sites import Kind

PARTITIONS = 3
COUNT = 600  # of a topic, before the marks
MARK = "the end"
BASE_MS = 1_600_000_000_000
TRANSACTIONS = (True, False, True, True, False, True, True)  # committed or not, 50 messages each: 100 of 350 aborted
IN_TRANSACTION = 50


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a pair.  codec: what its producer compresses with; appended: timestamps by the source's broker."""

    name: str
    codec: str = "none"
    appended: bool = False
    transactional: bool = False

    @property
    def config(self) -> dict[str, str]:
        return {"message.timestamp.type": "LogAppendTime"} if self.appended else {}


def topics(tag: str, source: Kind) -> list[Topic]:
    """The topics of a pair: each codec of the source; appended timestamps and transactions where it knows them."""
    found = [Topic(f"{codec}-{tag}", codec) for codec in source.codecs]
    if source.timestamps:
        found.append(Topic(f"appended-{tag}", "gzip", appended=True))
    if source.transactions:
        found.append(Topic(f"tx-{tag}", transactional=True))
    return found


def rows(topic: Topic, source: Kind, first: int, count: int) -> list[Row]:
    """Messages `first` .. of a topic: keyed, unkeyed, with null and empty keys and values, up to 300 KB; those of 0.8
    without timestamp, headers where the source has them.  No two of a partition are alike."""
    chance = random.Random(f"{topic.codec} {first}")
    return [
        Row(
            topic=topic.name,
            partition=number % PARTITIONS,
            key=_key(number),
            value=_value(topic, number, chance),
            timestamp_ms=BASE_MS + number * 1000 - (3_600_000 if number % 7 == 0 else 0) if source.timestamps else None,
            headers=_headers(number) if source.headers else (),
        )
        for number in range(first, first + count)
    ]


def marks(topic: Topic, source: Kind) -> list[Row]:
    """The last message of each partition."""
    time_ms = BASE_MS + 1_000_000_000 if source.timestamps else None
    return [
        Row(topic.name, p, b"mark", f"{MARK} of {p}".encode().replace(b" ", b"_"), time_ms) for p in range(PARTITIONS)
    ]


def transactions(topic: Topic, source: Kind) -> Iterator[tuple[bool, list[Row]]]:
    """Whether each is committed, and its messages."""
    for number, commit in enumerate(TRANSACTIONS):
        yield commit, rows(topic, source, number * IN_TRANSACTION, IN_TRANSACTION)


def _key(number: int) -> bytes | None:
    if number % 10 in (0, 5) or number in range(3 * PARTITIONS, 4 * PARTITIONS):
        return None
    return b"" if number % 10 == 4 or number in range(2 * PARTITIONS, 3 * PARTITIONS) else b"key %d" % number


def _value(topic: Topic, number: int, chance: random.Random) -> bytes | None:
    if number in range(3 * PARTITIONS, 4 * PARTITIONS):
        return None  # one of each partition has neither key nor value
    if number in range(2 * PARTITIONS, 3 * PARTITIONS):
        return b""  # and one an empty key and an empty value
    if number % 10 == 2:
        return None
    if number % 10 == 3:
        return b""
    text = f"{topic.name}/{number % PARTITIONS} #{number} ".encode()
    if number % 151 == 6:
        return text + chance.randbytes(300_000)
    return text + (chance.randbytes(2000) if number % 13 == 0 else b"." * (number % 400))


def _headers(number: int) -> Headers:
    if number % 3 == 0:
        return ("trace", b"%d" % number), ("trace", None), ("größe", b"\x00\xff")
    return (("", b""),) if number % 11 == 0 else ()
