"""corrupt.message.policy on a fake broker: what is handed out around a damaged entry, and what is said of it."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

import pytest

from kafkawire.errors import CorruptMessage
from tests.fakes.broker import FakeCluster, entry, gzipped
from tests.zkconsumer.test_fetcher import T0, T1, Fetching
from zkconsumer.errors import DamagedMessage, EntryTooLarge

Start = Callable[..., Fetching]


class BlindCluster(FakeCluster):
    """Its broker cannot find these offsets, as one that walks from its index through a damaged size."""

    blind = range(0)

    def slice(self, broker: int, tp: tuple[str, int], offset: int, max_bytes: int) -> tuple[int, int, bytes]:
        return (-1, -1, b"") if offset in self.blind else super().slice(broker, tp, offset, max_bytes)


@pytest.fixture
def cluster() -> Iterator[BlindCluster]:
    with BlindCluster({"t": 2}) as cluster:
        yield cluster


@pytest.fixture
def start(cluster: BlindCluster) -> Iterator[Start]:
    made = []

    def start(corrupt: str, **options: int) -> Fetching:
        made.append(Fetching(cluster, corrupt=corrupt, **options))
        return made[-1]

    yield start
    for fetching in made:
        fetching.close()


def fill(cluster: FakeCluster, *entries: bytes, partition: int = 0) -> None:
    """Entries as they are, one offset each, whatever is in them."""
    with cluster.lock:
        log = cluster.logs["t", partition]
        for data in entries:
            log.entries.append((log.end, struct.pack(">q", log.end) + data[8:]))
            log.end += 1
        cluster.changed.notify_all()


def good(count: int, first: int = 0) -> list[bytes]:
    return [entry(b"v%d" % n) for n in range(first, first + count)]


def values(*offsets: int) -> list[bytes]:
    return [b"v%d" % n for n in offsets]


def bad_crc(n: int = 0) -> bytes:
    data = bytearray(entry(b"v%d" % n))
    data[-1] ^= 0xFF
    return bytes(data)


def bad_magic() -> bytes:
    data = bytearray(entry(b"v"))
    data[16] = 9
    return bytes(data)


def bad_size(size: int = 3) -> bytes:
    """In the middle of another entry, or behind the end of the log: it leads nowhere."""
    return struct.pack(">qi", 0, size) + entry(b"v" * 10)[12:]


@pytest.mark.parametrize(
    "damaged", [bad_crc(), bad_magic()], ids=["crc, met while iterating", "format, met by the fetch"]
)
@pytest.mark.parametrize("at", [0, 2, 5], ids=["first", "between", "last"])
def test_skip_leaves_out_exactly_the_damaged_message_and_counts_it(cluster, start, damaged, at):
    fill(cluster, *good(at), damaged, *good(5 - at, at + 1))
    fetching = start("skip")
    cursor = fetching.add(T0, 0)
    assert fetching.read(5) == values(*[n for n in range(6) if n != at])
    fetching.until(lambda: fetching.values() == [] and cursor.committable() == 6)
    (gap,) = fetching.kinds("gap")
    assert (gap.tp, gap.count) == (T0, 1)
    assert f"t/0 at {at}: damaged in the log of broker 1" in gap.text
    assert f"skipped the one at offset {at}, 1 message is missing, going on at {at + 1}" in gap.text
    at_damage = [seen for seen in cluster.seen("fetch") if seen.body["wanted"].get(("t", 0), (-1, 0))[0] == at]
    assert 4 <= len(at_damage) <= 6  # three times more and the last look, after one that may have begun before it


def test_skip_takes_neighbouring_damage_one_by_one(cluster, start):
    fill(cluster, *good(2), bad_crc(), bad_magic(), bad_crc(), *good(2, 5), bad_crc(), *good(1, 8))
    fetching = start("skip")
    cursor = fetching.add(T0, 0)
    assert fetching.read(5) == values(0, 1, 5, 6, 8)
    fetching.until(lambda: fetching.values() == [] and cursor.committable() == 9)
    assert [event.count for event in fetching.kinds("gap")] == [1, 1, 1, 1]


def test_what_the_fetch_met_behind_what_a_reader_met_is_told_once(cluster, start):
    fill(cluster, *good(2), bad_crc(), bad_crc(), bad_magic(), *good(1, 5))
    fetching = start("skip")
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: fetching.kinds("gap"))  # nobody read yet
    assert fetching.read(3) == values(0, 1, 5)
    fetching.until(lambda: fetching.values() == [] and cursor.committable() == 6)
    assert [event.text.split(":")[0] for event in fetching.kinds("gap")] == ["t/0 at 4", "t/0 at 2", "t/0 at 3"]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_bytes_are_damaged_the_end_is_reached_or_it_is_said_why_not(cluster, start, seed):
    draw = random.Random(seed)
    for n in range(20):
        data = bytearray(entry(b"v%d" % n * draw.randint(1, 20)))
        if draw.random() < 0.2:
            for _ in range(draw.randint(1, 3)):
                data[draw.randrange(8, min(len(data), draw.choice([20, 60])))] ^= draw.randrange(1, 256)
        fill(cluster, bytes(data))
    fetching = start("skip")
    cursor = fetching.add(T0, 0)
    found: list[bytes | None] = []
    fetching.until(lambda: found.extend(fetching.values()) or cursor.parked or cursor.committable() == 20, 10)
    missing = sum(event.count for event in fetching.kinds("gap"))
    assert len(found) + missing >= (cursor.committable() or 0)  # spans that overlap may count one twice, none is silent
    assert cursor.parked is None or "t/0 at" in cursor.parked


def test_a_damaged_wrapper_is_said_as_one_of_unknown_size(cluster, start):
    fill(cluster, *good(2))
    wrapper = bytearray(gzipped(*good(3)))
    wrapper[-9] ^= 0xFF
    with cluster.lock:
        log = cluster.logs["t", 0]
        log.entries.append((2, struct.pack(">q", 4) + bytes(wrapper[8:])))
        log.end = 5
    fill(cluster, *good(2, 5))
    fetching = start("skip")
    fetching.add(T0, 0)
    assert fetching.read(4) == values(0, 1, 5, 6)
    (gap,) = fetching.kinds("gap")
    assert "skipped a wrapper of unknown size at offset 4, at most 3 messages are missing, going on at 5" in gap.text
    assert gap.count == 3


@pytest.mark.parametrize("size", [3, -5, 45, 700, 6000], ids="size {}".format)
@pytest.mark.parametrize("findable", [3, 4, 7, 10, 11])
def test_behind_a_senseless_size_the_next_offset_the_broker_can_find_is_searched(cluster, start, size, findable):
    fill(cluster, *good(2), bad_size(size), *good(9, 3))
    cluster.blind = range(3, findable)
    fetching = start("skip")
    cursor = fetching.add(T0, 0)
    assert fetching.read(2 + 12 - findable) == values(0, 1, *range(findable, 12))
    fetching.until(lambda: cursor.partition.position.offset == 12)
    (gap,) = fetching.kinds("gap")
    assert gap.count == findable - 2
    assert fetching.sent_home == []


def test_where_nothing_can_be_found_behind_it_the_partition_is_parked_and_others_go_on(cluster, start):
    fill(cluster, *good(2), bad_size(), *good(9, 3))
    cluster.blind = range(3, 12)
    fetching = start("skip")
    cursor = fetching.add(T0, 0)
    fetching.add(T1, 0)
    fetching.until(lambda: fetching.values() is not None and cursor.parked)
    assert "t/0 at 2: damaged in the log of broker 1" in str(cursor.parked)
    assert "nothing behind it can be found up to 12" in str(cursor.parked)
    assert cursor.committable() == 2
    fill(cluster, entry(b"other"), partition=1)
    assert fetching.read(1) == [b"other"]
    cluster.blind = range(3, 8)  # the log was mended
    assert cursor.apply(cursor.partition.unpark)
    fetching.fetcher.wake()
    assert fetching.read(4) == values(8, 9, 10, 11)


def test_what_is_whole_at_the_last_look_is_handed_out(cluster, start):
    fill(cluster, *good(1), bad_crc(), *good(1, 2))
    fetching = start("skip")
    fetching.add(T0, 0)

    def looks() -> int:
        return sum(seen.body["wanted"].get(("t", 0), (-1, 0))[0] == 1 for seen in cluster.seen("fetch"))

    found: list[bytes | None] = []
    fetching.until(lambda: found.extend(fetching.values()) or looks() >= 3)
    with cluster.lock:
        cluster.logs["t", 0].entries[1] = (1, struct.pack(">q", 1) + entry(b"v1")[8:])
    fetching.until(lambda: found.extend(fetching.values()) or len(found) == 3)
    assert found == values(0, 1, 2)
    assert fetching.kinds("gap") == []


@pytest.mark.parametrize("damaged", [bad_crc(), bad_magic(), bad_size()], ids=["crc", "format", "size"])
def test_fail_raises_where_the_reader_gets_there_and_other_partitions_go_on(cluster, start, damaged):
    fill(cluster, *good(2), damaged, *good(1, 3))
    fetching = start("fail")
    cursor = fetching.add(T0, 0)
    found: list[bytes | None] = []
    with pytest.raises(CorruptMessage, match=r"t/0 at 2: damaged in the log of broker 1 .*, fetched 4 times") as raised:
        fetching.until(lambda: found.extend(fetching.values()) and False)
    assert found == values(0, 1)
    assert isinstance(raised.value, DamagedMessage)
    assert (raised.value.tp, raised.value.offset) == (T0, 2)
    assert cursor.partition.undeliverable is raised.value
    assert cursor.committable() == 2
    fill(cluster, entry(b"other"), partition=1)
    fetching.add(T1, 0)
    assert fetching.read(1) == [b"other"]
    assert cursor.apply(cursor.partition.unpark)  # tried again it fails again, at once
    fetching.fetcher.wake()
    with pytest.raises(DamagedMessage):
        fetching.until(lambda: fetching.values() and False)


def test_park_after_iterating_keeps_what_came_before(cluster, start):
    fill(cluster, *good(2), bad_crc(), *good(1, 3))
    fetching = start("park")
    cursor = fetching.add(T0, 0)
    found: list[bytes | None] = []
    fetching.until(lambda: found.extend(fetching.values()) or cursor.parked)
    assert found == values(0, 1)
    assert isinstance(cursor.partition.undeliverable, DamagedMessage)
    assert "fetched 4 times: entry at byte" in str(cursor.parked)
    assert cursor.committable() == 2


@pytest.mark.parametrize(
    ("damaged", "resume_at"), [(bad_magic(), 3), (bad_size(), 4)], ids=["one entry", "a size that leads nowhere"]
)
def test_a_parked_entry_is_measured_where_that_is_asked_for_and_left_out_where_that_is_said(
    cluster, start, damaged, resume_at
):
    fill(cluster, *good(2), damaged, *good(3, 3))
    if resume_at == 4:
        cluster.blind = range(3, 4)
    fetching = start("park")
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: fetching.values() == [] and cursor.parked and cursor.committable() == 2)
    assert cursor.partition.parked_at is not None
    first = cursor.partition.parked_at.reason
    assert isinstance(first, DamagedMessage)
    assert (first.offset, first.resume_at) == (2, None)
    assert cursor.apply(cursor.partition.unpark, None, True)
    fetching.until(lambda: cursor.parked)
    reason = cursor.partition.undeliverable
    assert isinstance(reason, DamagedMessage)
    assert (reason.offset, reason.resume_at) == (2, resume_at)
    assert reason.raw[12:].startswith(damaged[12:])  # where its size is damaged, with what follows it
    assert fetching.kinds("gap") == []
    assert cursor.committable() == 2
    assert cursor.apply(cursor.partition.unpark, resume_at)
    assert fetching.read(6 - resume_at) == values(*range(resume_at, 6))
    fetching.until(lambda: fetching.values() == [] and cursor.committable() == 6)


def test_it_does_not_go_on_behind_a_damaged_entry_before_what_came_before_is_delivered(cluster, start):
    """What was fetched in front of it waits in the queue of the stream, whose user may be busy elsewhere."""
    fill(cluster, *good(2), bad_magic(), *good(1, 3))
    fetching = start("park")
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: cursor.parked)
    assert cursor.drained
    assert not cursor.apply(cursor.partition.unpark, 3)
    assert fetching.read(2) == values(0, 1)
    fetching.until(lambda: cursor.committable() == 2)
    assert cursor.apply(cursor.partition.unpark, 3)
    assert fetching.read(1) == values(3)


def test_an_entry_that_no_fetch_can_hold_says_where_to_go_on_behind_it(cluster, start):
    fill(cluster, *good(1), entry(b"x" * 5000), *good(1, 2))
    fetching = start("park", fetch_bytes=1024, max_bytes=2048)
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: fetching.values() == [] and cursor.parked and cursor.committable() == 1)
    reason = cursor.partition.undeliverable
    assert isinstance(reason, EntryTooLarge)
    assert (reason.offset, reason.resume_at, reason.needed) == (1, 2, 5026)
    assert reason.raw[-1:] == b"x"
    assert cursor.apply(cursor.partition.unpark, 2)
    assert fetching.read(1) == values(2)
