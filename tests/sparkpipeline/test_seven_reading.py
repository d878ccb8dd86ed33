"""Ranges of Kafka 0.7, whose offsets are bytes: read, cut, cut wrongly, gone.  No Spark."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafkawire.columns import Columns
from kafkawire.model import BrokerPartition, TopicPartition
from localkafka.seven import entries
from localkafka.seven.node import Node07
from localkafka.waiting import wait_until
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.boundaries import EntryBoundaries, cut_at_boundaries, ends_at_boundaries
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import CorruptData, DataLoss, MessageTooLarge, NoLeader, OffsetOutOfRange
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.arrow import read_ranges
from sparkpipeline.reading.pieces import Piece, covering
from sparkpipeline.reading.readoptions import ReadOptions

COLUMNS = ("broker", "partition", "offset", "innerIndex", "key", "value", "timestampType", "rowNumber", "topic")
OPTIONS = ReadOptions(fetch_bytes=16 << 10, max_wait_ms=20, patience_ms=300, columns=COLUMNS, batch_rows=97)
names = (f"t{n}" for n in itertools.count())


def mixed(seed: int, sets: int = 12) -> list[bytes]:
    """Sets of every kind: plain of both magics, wrappers of both codecs, a wrapper of one message and one of none."""
    draw = random.Random(seed)
    made = []
    for n in range(sets):
        values = [b"%d-%d " % (n, i) + draw.randbytes(draw.randrange(90)) for i in range(draw.choice([1, 5, 40]))]
        made.append(
            [
                lambda lot: entries.plain(lot, 0),
                lambda lot: entries.plain(lot, 1),
                lambda lot: entries.wrapper(lot, 1),
                lambda lot: entries.wrapper(lot, 2),
            ][n % 4](values)
        )
    return [*made, entries.wrapper([], 1), entries.plain([b"", b"last"], 1)]


class Topic:
    """A topic of a broker that the tests fill."""

    def __init__(self, broker: Node07, sets: Sequence[bytes], index: int = 1) -> None:
        self.broker, self.name, self.index = broker, next(names), index
        self.tp = TopicPartition(self.name, BrokerPartition(broker.id, index))
        self.end = 0
        self.add(sets)

    def add(self, sets: Sequence[bytes]) -> None:
        with self.broker.client() as link:
            for data in sets:
                link.produce(self.name, self.index, data)
                self.end += len(data)
            wait_until(lambda: link.offsets(self.name, self.index)[0] >= self.end, 20, f"{self.name} to be readable")

    @property
    def rows(self) -> list[entries.Row]:
        with self.broker.client() as link:
            return link.rows(self.name, self.index)

    @property
    def starts(self) -> list[int]:
        """Where entries begin, and the end."""
        with self.broker.client() as link:
            data = link.fetch(self.name, self.index, 0, 1 << 24).data
        return [entry.start for entry in entries.entries(memoryview(data))] + [self.end]

    def range(self, start: int = 0, until: int | None = None) -> OffsetRange:
        return OffsetRange(self.name, self.tp.partition, start, self.end if until is None else until)

    @property
    def access(self) -> ClusterAccess:
        broker = self.broker.broker
        return ClusterAccess(
            ((broker.host, broker.port),), "0.7", brokers=(broker,), retries=1, retry_interval_ms=5, election_ms=300
        )

    def read(self, *ranges: OffsetRange, options: ReadOptions = OPTIONS) -> list[dict[str, Any]]:
        batches = read_ranges(ranges or [self.range()], self.access, options)
        return [row for batch in batches for row in batch.to_pylist()]


def expected(topic: Topic) -> list[tuple[int, int, bytes]]:
    """Offset, number within the entry and value, as localkafka's own decoder has them."""
    found = []
    for _, group in itertools.groupby(topic.rows, key=lambda row: row.position):
        found += [(row.position, n, row.value) for n, row in enumerate(group)]
    return found


def got(rows: list[dict[str, Any]]) -> list[tuple[int, int, bytes]]:
    return [(row["offset"], row["innerIndex"], row["value"]) for row in rows]


def test_rows_are_what_the_log_holds_in_every_codec_and_magic(broker07: Node07) -> None:
    topic = Topic(broker07, mixed(1))
    rows = topic.read()
    assert got(rows) == expected(topic)
    assert {(row["broker"], row["partition"], row["topic"]) for row in rows} == {(broker07.id, 1, topic.name)}
    assert {(row["key"], row["timestampType"]) for row in rows} == {(None, -1)}
    assert [row["rowNumber"] for row in rows] == list(range(len(rows)))


@pytest.mark.parametrize("batch_rows", [1, 7, 10_000])
def test_a_record_batch_may_end_inside_a_wrapper(broker07: Node07, batch_rows: int) -> None:
    topic = Topic(broker07, mixed(2))
    options = replace(OPTIONS, batch_rows=batch_rows, columns=("offset", "innerIndex", "value"))
    assert got(topic.read(options=options)) == expected(topic)


def test_any_two_borders_make_a_range(broker07: Node07) -> None:
    topic = Topic(broker07, mixed(3, sets=5))
    whole, starts = expected(topic), topic.starts
    for start, until in itertools.combinations(starts[:: max(1, len(starts) // 9)], 2):
        assert got(topic.read(topic.range(start, until))) == [row for row in whole if start <= row[0] < until]


def test_several_ranges_are_read_one_after_the_other(broker07: Node07) -> None:
    one, two = Topic(broker07, mixed(4), index=0), Topic(broker07, mixed(5))
    assert got(one.read(one.range(), two.range())) == expected(one) + expected(two)


def test_a_range_that_ends_inside_an_entry_is_told(broker07: Node07) -> None:
    topic = Topic(broker07, mixed(6))
    inside = topic.starts[3] + 5
    sentence = rf"partition={topic.tp.partition} .*the range ends at {inside}, inside an entry of \d+ bytes"
    with pytest.raises(CorruptData, match=sentence):
        topic.read(topic.range(0, inside))


def test_a_start_that_is_no_entry_is_told(broker07: Node07) -> None:
    topic = Topic(broker07, [entries.plain([b"\x7f" * 50] * 20, 1)])
    with pytest.raises(CorruptData, match=r"the byte at which an entry begins: is 20 one\?"):
        topic.read(topic.range(20, topic.end))


def test_a_message_larger_than_a_fetch_makes_it_grow_up_to_the_cap(broker07: Node07) -> None:
    topic = Topic(broker07, [entries.plain([b"a" * 100_000], 1), entries.wrapper([b"b" * 70_000] * 2, 1)])
    assert got(topic.read()) == expected(topic)
    with pytest.raises(MessageTooLarge, match="raise fetchBytesCap"):
        topic.read(options=replace(OPTIONS, fetch_bytes_cap=64 << 10))


def test_bytes_that_the_log_does_not_have_are_out_of_range(broker07: Node07) -> None:
    topic = Topic(broker07, mixed(7))
    with pytest.raises(OffsetOutOfRange, match=rf"requested={topic.end + 9} earliest=0 latest={topic.end}"):
        topic.read(topic.range(topic.end + 9, topic.end + 50))


def test_a_log_that_ends_early_is_waited_for_and_then_lost(broker07: Node07) -> None:
    topic = Topic(broker07, mixed(8))
    more = entries.plain([b"later"], 1)
    asleep: list[float] = []

    def sleep(seconds: float) -> None:
        asleep.append(seconds)
        if len(asleep) == 3:
            topic.add([more])

    from sparkpipeline.reading.rangefetcher import RangeFetcher

    with Brokers(topic.access) as brokers:
        ranges = [topic.range(0, topic.end + len(more))]
        last = [found for _, found in RangeFetcher(ranges, brokers, OPTIONS, sleep=sleep).sets()][-1]
    assert [message.value for message in last.messages()] == [b"later"]
    assert asleep == [0.02] * 3, "a broker of 0.7 does not wait for data: we do"
    with pytest.raises(DataLoss, match="the log ends before the range does"):
        topic.read(topic.range(0, topic.end + 10))
    assert got(topic.read(topic.range(0, topic.end + 10), options=replace(OPTIONS, fail_on_data_loss=False))) == (
        expected(topic)
    )


def test_a_broker_that_is_not_there_is_named(broker07: Node07) -> None:
    topic = Topic(broker07, mixed(9))
    other = replace(topic.range(), partition=BrokerPartition(77, 0))
    with pytest.raises(NoLeader, match=r"partition=77-0.*its broker, 77, is not registered.*: is it down\?"):
        topic.read(other)


@pytest.mark.parametrize("batch_rows", [3, 10_000])
def test_the_rows_of_a_range_cover_all_of_its_bytes(broker07: Node07, batch_rows: int) -> None:
    """Also entries that hold no message, wherever they stand: there is no row that would cover them."""
    nothing = entries.wrapper([], 1)
    last = entries.plain([b"last"], 1) + nothing + nothing  # by itself it would not be flushed
    sets = [nothing, nothing, *mixed(13), *[nothing] * 400, entries.plain([b"one"], 1), *mixed(14), last]
    topic = Topic(broker07, sets)
    options = replace(
        OPTIONS, fetch_bytes=2000, batch_rows=batch_rows, columns=("offset", "coveredBytes", "innerIndex")
    )
    starts = topic.starts
    for start, until in ((0, topic.end), (starts[1], starts[-2]), (starts[30], starts[90]), (starts[2], starts[3])):
        rows = topic.read(topic.range(start, until), options=options)
        assert sum(row["coveredBytes"] for row in rows) == until - start
        assert all(row["coveredBytes"] >= 0 for row in rows)
    both = topic.read(topic.range(0, starts[40]), topic.range(starts[40], topic.end), options=options)
    assert sum(row["coveredBytes"] for row in both) == topic.end
    assert topic.read(topic.range(0, starts[2]), options=options) == [], "nobody is there to cover it"


def test_only_neighbours_of_one_range_cover_for_each_other() -> None:
    one, two = (OffsetRange("t", BrokerPartition(0, n), 0, 100) for n in (0, 1))
    columns = index_of([10])

    def piece(rng: OffsetRange, begin: int, end: int, rows: int) -> Piece:
        return Piece(rng, columns, 0, rows, 0, begin, end)

    given = [
        piece(one, 0, 5, 0), piece(one, 5, 9, 0), piece(one, 9, 20, 1), piece(one, 20, 22, 0), piece(one, 22, 30, 1),
        piece(one, 30, 31, 0), piece(one, 50, 51, 0),  # bytes were skipped here
        piece(one, 60, 61, 0), piece(one, 70, 80, 1),  # and here twice more
        piece(one, 80, 90, 0), piece(two, 90, 95, 1),  # another log
        piece(two, 95, 96, 0), piece(one, 96, 97, 0), piece(two, 97, 99, 1),
    ]  # fmt: skip
    found = [(one_.range, one_.covered_from, one_.covered_to) for one_ in covering(iter(given))]
    assert found == [
        (one, 0, 22), (one, 22, 31), (one, 70, 90), (two, 90, 96), (two, 97, 99)
    ]  # fmt: skip
    assert list(covering(iter([piece(one, 0, 5, 0)]))) == []


def index_of(offsets: list[int]) -> Columns:
    none = [0] * len(offsets)
    return Columns(offsets, none, none, none, none, None, None, b"", 0, None)


def test_what_is_skipped_is_not_covered(own_broker07: Callable[..., Node07]) -> None:
    broker = own_broker07(settings={"log.file.size": 2000})
    topic = Topic(broker, [entries.plain([b"v" * 90] * 5, 1) for _ in range(12)], index=0)
    broker.stop()
    gone, first = sorted(broker.data.glob(f"{topic.name}-0/*.kafka"))[:2]
    gone.unlink()
    broker.restart()
    lenient = replace(OPTIONS, fail_on_data_loss=False, columns=("offset", "coveredBytes"))
    rows = topic.read(options=lenient)
    assert rows[0]["offset"] == int(first.stem)
    assert sum(row["coveredBytes"] for row in rows) == topic.end - int(first.stem)
    with pytest.raises(OffsetOutOfRange, match="it is gone: retention"):
        topic.read()


def test_what_no_entry_begins_at_is_known(broker07: Node07) -> None:
    topic = Topic(broker07, [entries.plain([b"\x7f" * 70_000, b"b", b"c"], 1)])
    with Brokers(topic.access) as brokers:
        begins = [at for at in range(0, topic.end, 1009) if EntryBoundaries(brokers).begins(topic.tp, at)]
        assert begins == [0]
        assert all(EntryBoundaries(brokers).begins(topic.tp, at) for at in topic.starts[:-1])


# ---- cutting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("near", [1 << 20, 0], ids=["hopped", "found"])
def test_cuts_move_on_to_where_an_entry_begins(broker07: Node07, monkeypatch: pytest.MonkeyPatch, near: int) -> None:
    """Random bytes in snappy stay as they are: entries in such wrappers look like entries of the log."""
    monkeypatch.setattr("sparkpipeline.cluster.boundaries.NEAR_BYTES", near)
    topic = Topic(broker07, [*mixed(10), *mixed(11)])
    starts = topic.starts
    largest = max(b - a for a, b in itertools.pairwise(starts))
    with Brokers(topic.access) as brokers:
        border = EntryBoundaries(brokers, 1 << 20 if near else largest)
        for at in range(0, topic.end + 1, 37 if near else 371):
            found = border(topic.tp, 0, at, topic.end)
            assert found in starts
            assert found >= at
            assert not near or found == min(start for start in starts if start >= at)
        step = topic.end // (40 if near else 4)
        pieces = [topic.range(at, min(at + step, topic.end)) for at in range(0, topic.end, step)]
        cut = cut_at_boundaries(pieces, border)
    assert len(cut) > 2
    assert [rng.start for rng in cut] == [0, *(rng.until for rng in cut[:-1])]
    assert cut[-1].until == topic.end
    assert {rng.start for rng in cut} <= {*starts}
    assert got([row for rng in cut for row in topic.read(rng)]) == expected(topic)


def test_an_end_that_is_one_already_is_not_moved(broker07: Node07) -> None:
    topic = Topic(broker07, mixed(12))
    tp, starts = topic.tp, topic.starts
    with Brokers(topic.access) as brokers:
        for asked, found in ((0, 0), (topic.end, topic.end), (starts[2], starts[2]), (starts[2] + 1, starts[3])):
            assert ends_at_boundaries({tp: 0}, {tp: asked}, {tp: topic.end}, EntryBoundaries(brokers)) == {tp: found}


def test_messages_that_hold_entries_are_not_cut(broker07: Node07, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkpipeline.cluster.boundaries.NEAR_BYTES", 0)
    inside = entries.plain([b"one", b"two"] * 30, 1)
    topic = Topic(broker07, [entries.plain([b"x" * 40 + inside + b"y" * 40, b"next " * 300], 1) for _ in range(9)])
    starts = topic.starts
    with Brokers(topic.access) as brokers:
        for at in range(0, topic.end, 101):
            assert EntryBoundaries(brokers, 1600)(topic.tp, 0, at, topic.end) in starts
        hidden = EntryBoundaries(brokers, 50)(topic.tp, 0, 60, topic.end)
    assert hidden not in starts, "an entry that is larger than the largest hides what is in it"
    with pytest.raises(CorruptData, match="inside an entry"):
        topic.read(topic.range(0, hidden))


def test_an_entry_larger_than_what_is_looked_at_is_passed_as_a_whole(broker07: Node07) -> None:
    topic = Topic(broker07, [entries.plain([b"\x7f" * 5000, b"b"], 1)])
    with Brokers(topic.access) as brokers:
        assert EntryBoundaries(brokers, 100)(topic.tp, 0, 10, topic.end) == topic.starts[1]


# ---- ends and times --------------------------------------------------------------------------------------------------


def test_segments_are_what_times_and_borders_know(
    own_broker07: Callable[..., Node07], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = own_broker07(settings={"log.file.size": 2000})
    topic = Topic(broker, [entries.plain([b"v" * 90] * 5, 1) for _ in range(12)], index=0)
    starts = sorted(int(path.stem) for path in broker.data.glob(f"{topic.name}-0/*.kafka"))
    assert len(starts) > 2
    with Brokers(topic.access) as brokers:
        assert brokers.earliest([topic.tp]) == {topic.tp: 0}
        assert brokers.latest([topic.tp]) == {topic.tp: topic.end}
        assert brokers.at_time({topic.tp: 0}) == {topic.tp: 0}, "no segment is so old: from the beginning"
        assert brokers.at_time({topic.tp: 1 << 50}) == {topic.tp: None}
        monkeypatch.setattr("sparkpipeline.cluster.boundaries.NEAR_BYTES", 0)
        for at in range(starts[1] - 90, starts[1] + 1, 9):  # no entry is as large: a segment's end is one all the same
            assert EntryBoundaries(brokers)(topic.tp, 0, at, topic.end) == starts[1]
    assert got(topic.read()) == expected(topic)
