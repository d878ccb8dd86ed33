"""What a 0.7 broker does with requests, good and bad: the one in Python and an original."""

from __future__ import annotations

import os
import struct
from typing import Any

import pytest

from localkafka.seven import entries
from localkafka.seven.client import Fetched, Seven, frame
from localkafka.seven.node import Node07

OUT_OF_RANGE, WRONG_PARTITION, UNKNOWN = 1, 3, -1
GZIP, SNAPPY = 1, 2
LARGEST = 1_000_000
ONE, TWO = entries.message(b"one"), entries.message(b"two")


def damaged(entry: bytes) -> bytes:
    """The same entry with its last byte flipped: its CRC is wrong now."""
    return entry[:-1] + bytes([entry[-1] ^ 1])


def stored(broker: Node07, topic: str, partition: int = 0) -> bytes:
    """What a new connection reads."""
    with broker.client() as link:
        return link.fetch(topic, partition, 0).data


NESTED = entries.message(entries.compress(GZIP, entries.wrapper([b"a", b"b"], SNAPPY)), GZIP)
BAD_INSIDE = entries.message(entries.compress(GZIP, ONE + damaged(TWO)), GZIP)
CUT_INSIDE = entries.message(entries.compress(GZIP, ONE[:-1]), GZIP)
TAIL_INSIDE = entries.message(entries.compress(GZIP, ONE + TWO[:-1]), GZIP)
NOT_GZIP = entries.message(b"this is no gzip", GZIP)
HUGE = entries.message(b"x" * (LARGEST + 1))

TAKEN = {
    "two plain": (ONE + TWO, ONE + TWO),
    "magic 0": (entries.message(b"old", magic=0), entries.message(b"old", magic=0)),
    "magics mixed": (ONE + entries.message(b"old", magic=0), ONE + entries.message(b"old", magic=0)),
    "empty payload": (entries.message(b""), entries.message(b"")),
    "nothing": (b"", b""),
    "three bytes": (b"\0\0\0", b""),
    "gzip": (entries.wrapper([b"a", b"b"], GZIP), entries.wrapper([b"a", b"b"], GZIP)),
    "snappy": (entries.wrapper([b"a", b"b"], SNAPPY), entries.wrapper([b"a", b"b"], SNAPPY)),
    "wrapper in a wrapper": (NESTED, NESTED),
    "cut last inside a wrapper": (TAIL_INSIDE, TAIL_INSIDE),
    "cut last": (ONE + TWO[:-1], ONE),
    "cut last size": (ONE + TWO[:3], ONE),
    "payload of the largest size": (entries.message(b"x" * LARGEST),) * 2,
    "too large": (HUGE, b""),
    "too large behind another": (ONE + HUGE, b""),
    "too large before a wrong CRC": (HUGE + damaged(ONE), b""),
    "too large before a bad wrapper": (NOT_GZIP + HUGE, b""),
}
REFUSED = {
    "wrong CRC": damaged(ONE),
    "wrong CRC behind another": ONE + damaged(TWO),
    "wrong CRC before a too large one": damaged(ONE) + HUGE,
    "cut first": ONE[:-1],
    "size below 0": struct.pack(">i", -1) + b"x" * 20,
    "size below 0 behind another": ONE + struct.pack(">i", -1),
    "size 0": struct.pack(">i", 0),
    "no room for a header": struct.pack(">i", 5) + b"\1\0\0\0\0",
    "magic 2": entries.message(b"x", magic=2),
    "codec 3": entries.message(b"x", codec=3),
    "not gzip": NOT_GZIP,
    "wrong CRC inside a wrapper": BAD_INSIDE,
    "cut first inside a wrapper": CUT_INSIDE,
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_set_is_stored_as_it_came_cut_to_whole_entries_and_nothing_is_answered(
    broker07: Node07, unique: Any, name: str
) -> None:
    sent, kept = TAKEN[name]
    topic = unique.topic()
    with broker07.client() as link:
        link.produce(topic, 1, sent)
        assert link.offsets(topic, 1) == [len(kept)]
        assert link.fetch(topic, 1, 0, 1 << 21) == Fetched(0, kept)


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_set_closes_the_connection_stores_nothing_and_still_makes_the_topic(
    broker07: Node07, unique: Any, name: str
) -> None:
    topic = unique.topic()
    with broker07.client() as link:
        link.produce(topic, 0, REFUSED[name])
        assert link.ended()
    assert stored(broker07, topic) == b""
    assert (broker07.data / f"{topic}-0").is_dir()


@pytest.mark.parametrize(
    ("topic", "partition"), [("", 0), ("a/b", 0), (".", 0), ("..", 0), ("x" * 256, 0), ("t", 2), ("t", -2)]
)
def test_a_place_that_cannot_be_closes_the_connection_of_a_produce_and_of_offsets(
    broker07: Node07, topic: str, partition: int
) -> None:
    for ask in (lambda link: link.produce(topic, partition, ONE), lambda link: link.send(_offsets(topic, partition))):
        with broker07.client() as link:
            ask(link)
            assert link.ended()
    assert f"{topic}-{partition}" not in os.listdir(broker07.data)


def _offsets(topic: str, partition: int, most: int = 1) -> bytes:
    name = topic.encode()
    return frame(4, struct.pack(">h", len(name)) + name + struct.pack(">iqi", partition, -1, most))


def test_parts_before_a_bad_one_are_kept_and_what_comes_behind_is_lost(broker07: Node07, unique: Any) -> None:
    topic = unique.topic()
    with broker07.client() as link:
        link.multiproduce(
            [(topic, 0, ONE), (topic, 1, HUGE), (topic, 0, TWO), (topic, 1, damaged(ONE)), (topic, 1, TWO)]
        )
        link.produce(topic, 1, TWO)
        assert link.ended()
    assert stored(broker07, topic, 0) == ONE + TWO  # the silent drop of a large set ends nothing
    assert stored(broker07, topic, 1) == b""


def test_a_multi_produce_that_is_cut_stores_no_part(broker07: Node07, unique: Any) -> None:
    topic = unique.topic()
    with broker07.client() as link:
        name = topic.encode()
        part = struct.pack(">h", len(name)) + name + struct.pack(">ii", 0, len(ONE)) + ONE
        link.send(frame(3, struct.pack(">h", 2) + part + part[:-1]))
        assert link.ended()
    assert stored(broker07, topic) == b""


def test_partition_minus_one_is_drawn_among_the_brokers(broker07: Node07, unique: Any) -> None:
    topic = unique.topic()
    with broker07.client() as link:
        for _ in range(60):
            link.produce(topic, -1, ONE)
        ends = [link.offsets(topic, partition)[0] for partition in (0, 1)]
    assert sum(ends) == 60 * len(ONE)
    assert all(ends)  # 2 of 2^60 runs fail here


def test_two_requests_in_one_write_are_answered_in_order_and_after_what_was_produced_before(
    broker07: Node07, unique: Any
) -> None:
    topic = unique.topic()
    with broker07.client() as link:
        name = struct.pack(">h", len(topic)) + topic.encode()
        produce = frame(0, name + struct.pack(">ii", 0, len(ONE)) + ONE)
        link.send((produce + _offsets(topic, 0)) * 20)
        ends = [struct.unpack(">hiq", link.receive())[2] for _ in range(20)]
    assert ends == [len(ONE) * n for n in range(1, 21)]


def test_a_request_may_come_byte_by_byte(broker07: Node07, unique: Any) -> None:
    with broker07.client() as link:
        for byte in _offsets(unique.topic(), 0):
            link.send(bytes([byte]))
        assert link.receive() == struct.pack(">hiq", 0, 1, 0)


def test_a_fetch_is_cut_at_its_size_at_any_byte_and_may_begin_inside_an_entry(broker07: Node07, unique: Any) -> None:
    topic = unique.topic()
    with broker07.client() as link:
        link.produce(topic, 0, ONE + TWO)
        for position in range(len(ONE + TWO) + 1):
            for size in (0, 1, 5, len(ONE), 1000):
                assert link.fetch(topic, 0, position, size) == Fetched(0, (ONE + TWO)[position : position + size])


def test_what_a_fetch_cannot_have_is_an_error_code_and_no_closed_connection(broker07: Node07, unique: Any) -> None:
    topic = unique.topic()
    with broker07.client() as link:
        link.produce(topic, 0, ONE)
        wanted = [
            (topic, 0, 0, 100), (topic, 0, len(ONE), 100), (topic, 0, len(ONE) + 1, 100), (topic, 0, -1, 100),
            (topic, 2, 0, 100), (topic, -1, 0, 100), ("", 0, 0, 100), ("a/b", 0, 0, 100),
            (unique.topic("nobody"), 0, 5, 100), (topic, 1, 5, 100),
        ]  # fmt: skip
        errors = [0, 0, OUT_OF_RANGE, OUT_OF_RANGE, WRONG_PARTITION, WRONG_PARTITION, UNKNOWN, UNKNOWN, 0, 0]
        expected = [Fetched(error, ONE if n == 0 else b"") for n, error in enumerate(errors)]
        assert [link.fetch(*one) for one in wanted] == expected
        assert link.multifetch(wanted) == expected
        assert link.multifetch([]) == []
    assert not (broker07.data / f"{unique.topic('nobody')}-0").exists()


@pytest.mark.parametrize(("size", "head"), [(-1, "000000010000"), (-2, "000000000000"), (-40, "ffffffda0000")])
def test_a_fetch_of_less_than_nothing_gets_a_broken_frame_and_a_closed_connection(
    broker07: Node07, unique: Any, size: int, head: str
) -> None:
    topic = unique.topic()
    with broker07.client() as link:
        link.produce(topic, 0, ONE)
        name = struct.pack(">h", len(topic)) + topic.encode()
        link.send(frame(1, name + struct.pack(">iqi", 0, 0, size)))
        assert everything(link).hex() == head
    with broker07.client() as link:
        fetches = [name + struct.pack(">iqi", 0, 0, wanted) for wanted in (100, size, 100)]
        link.send(frame(2, struct.pack(">h", 3) + b"".join(fetches)))
        whole = struct.pack(">ih", 2 + len(ONE), 0) + ONE
        told = 2 + 2 * len(whole) + 6 + size
        assert everything(link).hex() == struct.pack(">ih", told, 0).hex() + whole.hex() + head


def everything(link: Seven) -> bytes:
    """What comes until the connection is closed."""
    parts = []
    while part := link.link.recv(1000):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", 0),
        struct.pack(">i", -1),
        struct.pack(">i", 100 * 1024 * 1024 + 1),
        frame(5, b""),
        frame(-1, b""),
        struct.pack(">ib", 1, 0),
        frame(1, b"\0\5ab"),
        frame(1, struct.pack(">h", -1) + struct.pack(">iqi", 0, 0, 100)),
        frame(2, struct.pack(">h", -1)),
        frame(3, struct.pack(">h", -1)),
        _offsets("some-topic", 0, most=-1),
        frame(0, struct.pack(">h", 1) + b"t" + struct.pack(">ii", 0, -1)),
        frame(0, struct.pack(">h", 1) + b"t" + struct.pack(">ii", 0, 100) + ONE),
    ],
    ids=lambda sent: sent[:12].hex(),
)
def test_what_is_no_request_closes_the_connection(broker07: Node07, sent: bytes) -> None:
    with broker07.client() as link:
        link.produce("some-topic", 0, b"")
        link.send(sent)
        assert link.ended()


def test_bytes_behind_a_request_in_its_frame_are_not_looked_at(broker07: Node07, unique: Any) -> None:
    topic = unique.topic()
    with broker07.client() as link:
        name = struct.pack(">h", len(topic)) + topic.encode()
        link.send(frame(0, name + struct.pack(">ii", 0, len(ONE)) + ONE + b"what else"))
        assert link.offsets(topic, 0) == [len(ONE)]


def test_a_topic_is_counted_in_characters_and_may_be_foreign(broker07: Node07) -> None:
    topic = "ä" * 100
    with broker07.client() as link:
        link.produce(topic, 0, ONE)
        assert link.offsets(topic, 0) == [len(ONE)]
    assert stored(broker07, topic) == ONE
