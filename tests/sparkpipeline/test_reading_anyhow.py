"""Any ranges of any log, with any troubles on the way: the rows are the messages that the log holds in them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.model import Broker
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.arrow import read_ranges
from sparkpipeline.reading.readoptions import ReadOptions
from tests.fakes.broker import Close, Fail, FakeCluster, entry, gzipped

sizes = st.sampled_from([0, 5, 300, 70_000, 140_000])
stretches = st.lists(  # of messages: as they are, or in a wrapper; and whether the cleaner takes them away
    st.tuples(st.lists(sizes, min_size=1, max_size=5), st.booleans(), st.sampled_from([False, False, True])),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(
    logs=st.lists(stretches, min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    troubles=st.lists(st.sampled_from([None, None, Fail(6), Fail(-1), Close()]), max_size=8),
    shuffled=st.randoms(use_true_random=False),
    led=st.booleans(),
    batch_bytes=st.sampled_from([1, 500, 1 << 20]),
)
def test_rows_are_what_the_log_holds(logs, cuts, troubles, shuffled, led, batch_bytes) -> None:  # type: ignore[no-untyped-def]
    with FakeCluster({"t": len(logs)}, brokers=2) as cluster:
        ranges = []
        for partition, written in enumerate(logs):
            fill(cluster, partition, written)
            end = cluster.logs["t", partition].end
            leader = Broker(1 + partition % 2, "127.0.0.1", cluster.ports[1 + partition % 2]) if led else None
            places = sorted({0, end, *(cut for cut in cuts if cut < end)})
            ranges += [OffsetRange("t", partition, a, b, leader) for a, b in pairwise(places)]
        shuffled.shuffle(ranges)
        cluster.script("fetch", *troubles)
        access = ClusterAccess(tuple(cluster.bootstrap), retry_interval_ms=1)
        options = ReadOptions(fetch_bytes=64 << 10, max_wait_ms=5, patience_ms=20_000, batch_bytes=batch_bytes)
        found = [
            (row["partition"], row["offset"], row["key"], row["value"])
            for batch in read_ranges(ranges, access, options)
            for row in batch.to_pylist()
        ]
        expected = [
            (rng.partition, offset, key, value)
            for rng in ranges
            for offset, key, value in cluster.messages("t", int(str(rng.partition)))
            if rng.start <= offset < rng.until
        ]
        assert found == expected


def fill(cluster: FakeCluster, partition: int, written: list[tuple[list[int], bool, bool]]) -> None:
    """A log whose beginning is there, as a range is planned from it."""
    cluster.append("t", partition, entry(b"first"))
    gone = []
    for stretch, wrapped, deleted in written:
        at = cluster.logs["t", partition].end
        entries = [entry(b"%d" % (at + n) + b"x" * size, b"k" if n % 2 else None, n) for n, size in enumerate(stretch)]
        for piece in [gzipped(*entries)] if wrapped else entries:
            base = cluster.append("t", partition, piece)
            gone += [base] if deleted else []
    log = cluster.logs["t", partition]
    log.entries = [kept for kept in log.entries if kept[0] not in gone]
