"""A fetcher against brokers of 0.7: growth, damage, positions that are none, and a broker that never waits."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from groundwork.tasks import now, sleep
from kafkawire.model import BrokerPartition, TopicPartition
from localkafka.seven import entries
from localkafka.seven.node import Node07, node_of
from localkafka.waiting import wait_until
from tests.zkconsumer.test_fetcher import Fetching
from zkconsumer.engine.status import status_of
from zkconsumer.errors import DamagedMessage, EntryTooLarge, OutOfRange

VALUES = [b"v%03d" % n for n in range(40)]
SIZE = len(entries.message(VALUES[0]))

Start = Callable[..., Fetching]


@dataclass
class At:
    ports: dict[int, int]


@dataclass
class Log:
    """A topic of its own on a broker: what a test puts into it, and does to it behind the broker's back."""

    node: Node07
    topic: str

    def tp(self, index: int = 0) -> TopicPartition:
        return TopicPartition(self.topic, BrokerPartition(1, index))

    def store(self, data: bytes, index: int = 0) -> int:
        """Produce a set and wait until it can be read; the end behind it."""
        with self.node.client() as link:
            end: int = link.offsets(self.topic, index)[0] + len(data)
            link.produce(self.topic, index, data)
            wait_until(lambda: link.offsets(self.topic, index)[0] == end, 10, "the set to be readable")
        return end

    def segments(self) -> list[Path]:
        return self.node.segments(self.topic, 0)

    def spoil(self, at: int, data: bytes, file: int = -1) -> None:
        """Other bytes in the log; at counts from the segment's first byte."""
        with self.segments()[file].open("r+b") as log:
            log.seek(at)
            log.write(data)


@pytest.fixture
def log(broker07: Node07, unique) -> Log:
    return Log(broker07, unique.topic())


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Log]:
    """A log of small segments, on a broker of its own."""
    with node_of("python")(tmp_path / "broker", settings={"log.file.size": 300}) as node:
        yield Log(node, "t")


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[Fetching] = []

    def start(log: Log, **options: Any) -> Fetching:
        made.append(Fetching(At({1: log.node.port}), release="0.7.2", **options))
        return made[-1]

    yield start
    for fetching in made:
        fetching.close()


def test_messages_come_in_order_each_once_with_their_byte_positions(log: Log, start: Start) -> None:
    end = log.store(entries.plain(VALUES))
    fetching = start(log, fetch_bytes=1000)
    cursor = fetching.add(log.tp(), None)
    assert fetching.read(40) == VALUES
    fetching.until(lambda: cursor.committable() == end)
    assert fetching.located == [log.tp()]
    (began,) = fetching.kinds("start")
    assert f"{log.topic}/1-0: no committed offset, starting at 0 (smallest; its log holds 0 to {end})" == began.text


@pytest.mark.parametrize("fetch_bytes", [1024, 1025, 1026, 1027, 1028, 1031, 1040])
def test_a_set_cut_at_any_byte_is_read_on_from_its_last_whole_entry(log: Log, start: Start, fetch_bytes: int) -> None:
    values = [b"x" * n for n in (0, 900, 1, 60, 300, 5, 700, 0, 0, 3)]
    log.store(entries.plain(values) + entries.plain(values, magic=0))
    fetching = start(log, fetch_bytes=fetch_bytes)
    fetching.add(log.tp(), 0)
    assert fetching.read(20) == values * 2


def test_a_wrapper_is_handed_out_whole_and_is_done_with_its_last_message(log: Log, start: Start) -> None:
    first = log.store(entries.plain([b"before"]))
    end = log.store(entries.wrapper(VALUES[:5], 1))
    fetching = start(log)
    cursor = fetching.add(log.tp(), 0)
    seen: list[tuple[int, int]] = []
    fetching.until(lambda: seen.extend((m.offset, m.resume_at) for m in fetching.messages()) or len(seen) == 6)
    assert seen == [(0, first), *[(first, first)] * 4, (first, end)]
    assert cursor.committable() == end


def test_a_message_larger_than_a_fetch_grows_it(log: Log, start: Start) -> None:
    log.store(entries.plain([b"small", b"x" * 6000, b"small"]))
    fetching = start(log, fetch_bytes=1024, max_bytes=8192)
    fetching.add(log.tp(), 0)
    assert fetching.read(3) == [b"small", b"x" * 6000, b"small"]


def test_a_message_larger_than_any_fetch_parks_with_its_size_and_what_helps(log: Log, start: Start) -> None:
    at = log.store(entries.plain([b"small"]))
    log.store(entries.plain([b"x" * 20_000]))
    fetching = start(log, fetch_bytes=1024, max_bytes=8192)
    cursor = fetching.add(log.tp(), 0)
    assert fetching.read(1) == [b"small"]
    fetching.until(lambda: cursor.parked)
    assert isinstance(cursor.partition.undeliverable, EntryTooLarge)
    assert cursor.partition.undeliverable.needed == 20_010
    assert str(cursor.parked) == (
        f"{log.topic}/1-0 at {at}: an entry of 20010 bytes is larger than the largest fetch, 8192 bytes; raise"
        " fetch.growth.max.bytes; a position inside a message looks like this too: set another one by"
        " `zkconsumer offsets reset`"
    )
    assert cursor.committable() == at


@pytest.mark.parametrize("inside", [1, 3, 5, SIZE - 1])
def test_a_position_inside_a_message_parks_and_says_what_helps(log: Log, start: Start, inside: int) -> None:
    log.store(entries.plain(VALUES))
    fetching = start(log)
    cursor = fetching.add(log.tp(), 2 * SIZE + inside)
    fetching.until(lambda: cursor.parked)
    assert isinstance(cursor.partition.undeliverable, DamagedMessage | EntryTooLarge)
    assert f"{log.topic}/1-0 at {2 * SIZE + inside}: " in str(cursor.parked)
    assert "`zkconsumer offsets reset`" in str(cursor.parked)
    assert fetching.values() == []


@pytest.mark.parametrize("inside", [1, 4, SIZE - 2])
def test_a_position_inside_a_message_is_skipped_to_the_next_entry(log: Log, start: Start, inside: int) -> None:
    log.store(entries.plain(VALUES))
    fetching = start(log, corrupt="skip")
    fetching.add(log.tp(), 2 * SIZE + inside)
    assert fetching.read(37) == VALUES[3:]
    (gap,) = fetching.kinds("gap")
    assert gap.count == SIZE - inside
    assert gap.text.startswith(
        f"{log.topic}/1-0 at {2 * SIZE + inside}: damaged in the log of broker 1 (127.0.0.1:{log.node.port})"
    )
    assert gap.text.endswith(f"skipped {gap.count} bytes that make no message are missing, going on at {3 * SIZE}")


def test_bytes_that_look_like_heads_are_not_stepped_over_one_by_one(log: Log, start: Start) -> None:
    """Each of them leads to the next, and none is an entry."""
    head = struct.pack(">iBxI", 6, 1, 12345)
    end = log.store(entries.plain([head * 30, b"good"]))
    fetching = start(log, corrupt="skip")
    fetching.add(log.tp(), len(entries.message(b"")) + 10 * len(head))
    assert fetching.read(1) == [b"good"]
    (gap,) = fetching.kinds("gap")
    assert gap.count == 20 * len(head)
    assert gap.text.endswith(f"going on at {end - len(entries.message(b'good'))}")


def test_a_message_with_a_wrong_checksum_is_stepped_over_alone(log: Log, start: Start) -> None:
    log.store(entries.plain(VALUES))
    log.spoil(3 * SIZE - 1, b"!")
    fetching = start(log, corrupt="skip")
    cursor = fetching.add(log.tp(), 0)
    assert fetching.read(39) == VALUES[:2] + VALUES[3:]
    (gap,) = fetching.kinds("gap")
    assert gap.count == SIZE
    assert f"skipped one of {SIZE} bytes is missing, going on at {3 * SIZE}" in gap.text
    assert cursor.committable() == 40 * SIZE


def test_a_message_with_a_wrong_checksum_parks_its_partition_and_no_other(log: Log, start: Start) -> None:
    log.store(entries.plain(VALUES))
    log.store(entries.plain(VALUES), index=1)
    log.spoil(3 * SIZE - 1, b"!")
    fetching = start(log)
    cursor = fetching.add(log.tp(), 0)
    fetching.add(log.tp(1), 0)
    seen: list[bytes | None] = []
    fetching.until(lambda: seen.extend(fetching.values()) or cursor.parked)
    assert sorted(seen, key=str) == sorted(VALUES[:2] + VALUES, key=str)
    assert cursor.committable() == 2 * SIZE
    assert "crc mismatch" in str(cursor.parked)


def test_a_message_of_unknown_magic_is_named_and_stepped_over(log: Log, start: Start) -> None:
    log.store(entries.plain(VALUES))
    log.spoil(2 * SIZE + 4, b"\x07")
    parked = start(log)
    cursor = parked.add(log.tp(), 0)
    parked.until(lambda: cursor.parked)
    assert f"{log.topic}/1-0 at {2 * SIZE}" in str(cursor.parked)
    assert "unknown magic 7 of a message of 0.7" in str(cursor.parked)
    skipping = start(log, corrupt="skip")
    skipping.add(log.tp(), 0)
    assert skipping.read(39) == VALUES[:2] + VALUES[3:]


def test_a_damaged_wrapper_is_stepped_over_whole_and_counted_in_bytes(log: Log, start: Start) -> None:
    first = log.store(entries.plain(VALUES[:1]))
    second = log.store(entries.wrapper(VALUES[1:20], 1))
    log.store(entries.plain(VALUES[20:]))
    log.spoil(second - 3, b"!!")
    fetching = start(log, corrupt="skip")
    fetching.add(log.tp(), 0)
    assert fetching.read(21) == VALUES[:1] + VALUES[20:]
    (gap,) = fetching.kinds("gap")
    assert gap.count == second - first
    assert f"skipped a wrapper of {second - first} bytes, with an unknown number of messages, is missing" in gap.text


def test_a_damaged_length_costs_what_lies_before_the_next_entry(log: Log, start: Start) -> None:
    log.store(entries.plain(VALUES))
    log.spoil(2 * SIZE, struct.pack(">i", -5))
    log.spoil(5 * SIZE, struct.pack(">i", 1 << 30))
    fetching = start(log, corrupt="skip")
    fetching.add(log.tp(), 0)
    assert fetching.read(38) == VALUES[:2] + VALUES[3:5] + VALUES[6:]
    assert [gap.count for gap in fetching.kinds("gap")] == [SIZE, SIZE]


def test_damage_up_to_the_end_of_a_segment_goes_on_with_the_next_one(small: Log, start: Start) -> None:
    for value in VALUES:
        small.store(entries.plain([value]))
    borders = [int(path.stem) for path in small.segments()]
    assert len(borders) > 1
    small.spoil(SIZE, b"\xff" * (borders[1] - SIZE), file=0)
    fetching = start(small, corrupt="skip", fetch_bytes=1024)
    fetching.add(small.tp(), 0)
    assert fetching.read(40 - borders[1] // SIZE + 1) == VALUES[:1] + VALUES[borders[1] // SIZE :]
    (gap,) = fetching.kinds("gap")
    assert gap.count == borders[1] - SIZE
    assert f"going on at {borders[1]}" in gap.text


def test_damage_up_to_the_end_of_the_log_waits_for_what_will_be_written(log: Log, start: Start) -> None:
    end = log.store(entries.plain(VALUES))
    log.spoil(4 * SIZE, b"\xff" * (end - 4 * SIZE))
    fetching = start(log, corrupt="skip")
    fetching.add(log.tp(), 0)
    assert fetching.read(4) == VALUES[:4]
    fetching.until(lambda: fetching.kinds("gap"))
    assert fetching.kinds("gap")[0].count == end - 4 * SIZE
    log.store(entries.plain([b"new"]))
    assert fetching.read(1) == [b"new"]


def test_policy_fail_raises_in_its_place(log: Log, start: Start) -> None:
    log.store(entries.plain(VALUES))
    log.spoil(3 * SIZE - 1, b"!")
    fetching = start(log, corrupt="fail")
    fetching.add(log.tp(), 0)
    found: list[object] = []

    def failed() -> bool:
        try:
            found.extend(fetching.values())
        except DamagedMessage as e:
            found.append(e)
        return isinstance(found[-1], DamagedMessage) if found else False

    fetching.until(failed)
    assert found[:2] == VALUES[:2]
    assert len(found) == 3


@pytest.mark.parametrize(("reset", "first"), [("smallest", VALUES[0]), ("largest", b"new")])
def test_a_position_outside_the_log_follows_autooffset_reset(log: Log, start: Start, reset: str, first: bytes) -> None:
    end = log.store(entries.plain(VALUES))
    fetching = start(log)
    cursor = fetching.add(log.tp(), end + 1000, reset)
    fetching.until(lambda: cursor.partition.position.offset is not None and cursor.partition.position.offset <= end)
    log.store(entries.plain([b"new"]))
    fetching.until(lambda: cursor.committable() == 0 or fetching.kinds("reset"))
    assert fetching.read(1)[0] == first
    (told,) = fetching.kinds("reset")
    assert f"{log.topic}/1-0 at {end + 1000}: out of range, its log holds 0 to {end}; going back to" in told.text


def test_a_position_before_the_log_tells_the_gap_in_bytes(small: Log, start: Start) -> None:
    for value in VALUES:
        small.store(entries.plain([value]))
    small.node.stop()
    gone = small.segments()[0]
    gone.unlink()
    small.node.restart()
    border = int(small.segments()[0].stem)
    fetching = start(small)
    fetching.add(small.tp(), SIZE)
    assert fetching.read(1)[0] == VALUES[border // SIZE]
    (gap,) = fetching.kinds("gap")
    assert f"going on at {border}, {border - SIZE} bytes are missing (smallest)" in gap.text
    assert gap.count == border - SIZE


def test_policy_fail_of_autooffset_reset_parks(log: Log, start: Start) -> None:
    log.store(entries.plain(VALUES))
    fetching = start(log)
    cursor = fetching.add(log.tp(), 1 << 40, "fail")
    fetching.until(lambda: cursor.parked)
    assert isinstance(cursor.partition.undeliverable, OutOfRange)


def test_a_topic_that_is_gone_is_noticed_though_the_broker_says_nothing(log: Log, start: Start, monkeypatch) -> None:
    """A fetch of a topic that is not there brings nothing, without an error, whatever the position."""
    monkeypatch.setattr("zkconsumer.fetching.logbounds.ENDS_S", 0.05)
    fetching = start(log)
    cursor = fetching.add(log.tp(), 5000)
    fetching.until(lambda: fetching.kinds("reset"))
    assert (
        f"{log.topic}/1-0 at 5000: out of range, its log holds 0 to 0; going back to 0"
        in fetching.kinds("reset")[0].text
    )
    log.store(entries.plain([b"first of the new topic"]))
    assert fetching.read(1) == [b"first of the new topic"]
    assert cursor.parked is None


def test_a_partition_that_the_broker_has_not_goes_back_and_hurts_no_other(log: Log, start: Start) -> None:
    log.store(entries.plain(VALUES))
    beyond = log.tp(7)
    fetching = start(log)
    fetching.add(beyond, 0)  # a fetch is refused with a code
    fetching.add(log.tp(), 0)
    assert fetching.read(40) == VALUES
    fetching.until(lambda: fetching.sent_home)
    assert [tp for tp, _ in fetching.sent_home] == [beyond]
    unknown = start(log)
    unknown.add(beyond, None)  # asked where it begins, the broker closes the connection
    unknown.add(log.tp(), None)
    assert unknown.read(40) == VALUES
    assert [tp for tp, _ in unknown.sent_home] == [beyond]
    assert "asked where its log begins and ends" in unknown.sent_home[0][1]
    unknown.add(beyond, None)  # alone without a position, it takes none of the others along
    unknown.until(lambda: len(unknown.sent_home) == 2)
    log.store(entries.plain([b"more"]))
    assert unknown.read(1) == [b"more"]
    assert [tp for tp, _ in unknown.sent_home] == [beyond] * 2


def test_an_idle_broker_is_asked_once_a_pause_and_the_lag_is_known(log: Log, start: Start, monkeypatch) -> None:
    end = log.store(entries.plain(VALUES))
    fetching = start(log)
    asked: list[int] = []
    fetch = fetching.fetcher._dialect.requests.fetch
    monkeypatch.setattr(
        fetching.fetcher._dialect.requests,
        "fetch",
        lambda *args, **named: asked.append(1) or fetch(*args, **named),
    )
    cursor = fetching.add(log.tp(), 0)
    assert fetching.read(40) == VALUES
    fetching.until(lambda: status_of(cursor, now()).lag == 0)
    assert cursor.partition.high_watermark == end
    before = len(asked)
    sleep(0.5)
    assert 2 <= len(asked) - before <= 12  # a pause is 0.05 s here


def test_the_lag_of_a_paused_partition_goes_on_to_be_known(log: Log, start: Start, monkeypatch) -> None:
    monkeypatch.setattr("zkconsumer.fetching.logbounds.ENDS_S", 0.05)
    log.store(entries.plain(VALUES))
    fetching = start(log)
    cursor = fetching.add(log.tp(), 0)
    assert fetching.read(40) == VALUES
    fetching.until(lambda: status_of(cursor, now()).lag == 0)
    cursor.apply(cursor.partition.pause)
    log.store(entries.plain(VALUES[:3]))
    fetching.until(lambda: status_of(cursor, now()).lag == 3 * SIZE)
