"""Ranges read from the fake broker: where they end, gaps, sizes, leaders, what is gone, what is damaged."""

from __future__ import annotations

import logging
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from kafkawire.formats.v01.messages import encode
from kafkawire.model import Broker
from localkafka.waiting import wait_until
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import (
    CodecMissing,
    CorruptData,
    DataLoss,
    MessageTooLarge,
    NoLeader,
    OffsetOutOfRange,
    PipelineError,
    UnknownPartition,
)
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.arrow import read_ranges
from sparkpipeline.reading.damagelog import DamageLog, first_readable
from sparkpipeline.reading.pieces import pieces_of
from sparkpipeline.reading.rangefetcher import read_many, read_sets
from sparkpipeline.reading.readoptions import COLUMNS, ReadOptions
from tests.fakes.broker import Close, Fail, FakeCluster, Throttle, entry, gzipped

OPTIONS = ReadOptions(fetch_bytes=64 << 10, max_wait_ms=20, patience_ms=100)
LENIENT = replace(OPTIONS, fail_on_data_loss=False)
OUT_OF_RANGE = "KAFKA08_OFFSET_OUT_OF_RANGE topic=t partition=0 requested=%d earliest=%d latest=%d broker=127.0.0.1"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 2, "u": 30}, brokers=2) as fake:
        fake.move("t", 1, 1)
        yield fake


def access(cluster: FakeCluster) -> ClusterAccess:
    return ClusterAccess(tuple(cluster.bootstrap), retries=1, retry_interval_ms=5)


def fill(cluster: FakeCluster, count: int, topic: str = "t", partition: int = 0, size: int = 0) -> None:
    for n in range(count):
        cluster.append(topic, partition, entry(b"%d" % n + b"." * size))


def rows(cluster: FakeCluster, *ranges: OffsetRange, options: ReadOptions = OPTIONS) -> list[dict[str, Any]]:
    return [row for batch in read_ranges(ranges, access(cluster), options) for row in batch.to_pylist()]


def offsets(cluster: FakeCluster, start: int, until: int, options: ReadOptions = OPTIONS) -> list[int]:
    return [row["offset"] for row in rows(cluster, OffsetRange("t", 0, start, until), options=options)]


def fetches(cluster: FakeCluster) -> list[list[tuple[tuple[str, int], int]]]:
    """What each fetch wanted: partitions and offsets."""
    return [[(tp, at) for tp, (at, _) in seen.body["wanted"].items()] for seen in cluster.seen("fetch")]


# ---- rows ------------------------------------------------------------------------------------------------------


def test_rows_are_the_messages_of_the_range_with_nulls_and_empty_ones(cluster: FakeCluster) -> None:
    kinds: list[tuple[bytes | None, bytes | None]] = [
        (b"k", b"v"),
        (None, b"v"),
        (b"k", None),
        (None, None),
        (b"", b""),
    ]
    for key, value in kinds * 3:
        cluster.append("t", 0, entry(value, key))
    found = rows(cluster, OffsetRange("t", 0, 2, 13))
    assert [(row["key"], row["value"]) for row in found] == (kinds * 3)[2:13]
    assert [row["offset"] for row in found] == list(range(2, 13))
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in found} == {("t", 0, -1)}
    assert {row["timestamp"].isoformat() for row in found} == {"1969-12-31T23:59:59.999000+00:00"}
    assert list(found[0]) == list(COLUMNS)


def test_a_wrapper_is_cut_at_both_ends(cluster: FakeCluster) -> None:
    for wrapper in range(3):
        cluster.append("t", 0, gzipped(*[entry(b"%d.%d" % (wrapper, n), offset=n) for n in range(10)]))
    found = rows(cluster, OffsetRange("t", 0, 7, 23))
    assert [row["offset"] for row in found] == list(range(7, 23))
    assert [row["value"] for row in found] == [b"%d.%d" % divmod(n, 10) for n in range(7, 23)]


def test_only_the_columns_asked_for_come_in_the_order_asked_for(cluster: FakeCluster) -> None:
    values = [b"a", None, b"", b"bb"]
    for value in values:
        cluster.append("t", 0, entry(value))
        cluster.append("t", 1, entry(value))
    counted = replace(OPTIONS, columns=("valueCrc", "rowNumber", "value"))
    found = rows(cluster, OffsetRange("t", 0, 1, 4), OffsetRange("t", 1, 0, 4), options=counted)
    assert [row["value"] for row in found] == values[1:] + values
    assert [row["rowNumber"] for row in found] == [0, 1, 2, 0, 1, 2, 3], "it counts anew in each range"
    assert [row["valueCrc"] for row in found] == [None if v is None else zlib.crc32(v) for v in values[1:] + values]
    assert list(found[0]) == ["valueCrc", "rowNumber", "value"]


def test_headers_are_null_before_there_were_any(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    found = rows(cluster, OffsetRange("t", 0, 0, 3), options=replace(OPTIONS, columns=("headers", "offset")))
    assert found == [{"headers": None, "offset": n} for n in range(3)]


def test_batches_are_bounded_by_rows_and_by_bytes_and_small_ranges_share_one(cluster: FakeCluster) -> None:
    fill(cluster, 100, size=100)
    fill(cluster, 40, partition=1)
    both = [OffsetRange("t", 0, 0, 100), OffsetRange("t", 1, 0, 40)]

    def sizes(**bounds: int) -> list[int]:
        return [batch.num_rows for batch in read_ranges(both, access(cluster), replace(OPTIONS, **bounds))]

    assert sizes() == [140]
    assert sizes(batch_rows=30) == [30, 30, 30, 10, 30, 10]
    assert sizes(batch_bytes=1300)[:5] == [10, 10, 10, 10, 10]
    assert sizes(batch_bytes=1)[:3] == [1, 1, 1], "a row that is larger than a batch comes alone"


def test_sets_are_the_entries_as_stored_and_may_reach_over_the_ends(cluster: FakeCluster) -> None:
    cluster.append("t", 0, gzipped(*[entry(b"%d" % n, offset=n) for n in range(10)]))
    (found,) = read_sets(OffsetRange("t", 0, 3, 5), access(cluster), OPTIONS)
    assert [message.offset for message in found.messages()] == [3, 4, 5, 6, 7, 8, 9]
    assert bytes(found.buffer) == cluster.logs["t", 0].entries[0][1]


def test_an_empty_range_asks_nobody(cluster: FakeCluster) -> None:
    assert rows(cluster, OffsetRange("t", 0, 5, 5)) == []
    assert cluster.requests == []


# ---- the end, and gaps -----------------------------------------------------------------------------------------


def test_gaps_are_passed_over_in_the_middle_and_at_the_end(cluster: FakeCluster) -> None:
    fill(cluster, 20)
    log = cluster.logs["t", 0]
    log.entries = [kept for kept in log.entries if kept[0] not in (3, 4, 5, 15, 16, 17, 18, 19)]
    assert offsets(cluster, 2, 20) == [2, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    assert [at for ((_, at),) in fetches(cluster)] == [2, 15, 15], "one empty answer proves no gap"


class TellsTheEndLate(FakeCluster):
    """Answers a fetch with the end of the log as it is after the read, as 0.8 does: something came in between."""

    def slice(self, broker: int, tp: tuple[str, int], offset: int, max_bytes: int) -> tuple[int, int, bytes]:
        if offset == 5 and self.logs[tp].end == 5:
            for n in range(5, 10):
                self.append(*tp, entry(b"%d" % n))
            return 0, 10, b""
        return super().slice(broker, tp, offset, max_bytes)


def test_an_end_told_after_the_read_loses_nothing() -> None:
    with TellsTheEndLate({"t": 1}) as cluster:
        fill(cluster, 5)
        assert offsets(cluster, 0, 10) == list(range(10))


def test_a_log_that_ends_before_the_range_is_waited_for(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    found = read_sets(OffsetRange("t", 0, 0, 7), access(cluster), replace(OPTIONS, patience_ms=20_000))
    assert next(found).resume_at == 5
    fill(cluster, 2)
    assert [message_set.resume_at for message_set in found] == [7]


def test_a_log_that_stays_shorter_is_data_loss_or_skipped(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, 5)
    with pytest.raises(
        DataLoss, match=r"topic=t partition=0 requested=5 until=7 latest=5 broker=127.0.0.1:\d+: the log"
    ):
        offsets(cluster, 0, 7)
    with caplog.at_level(logging.WARNING):
        assert offsets(cluster, 0, 7, LENIENT) == [0, 1, 2, 3, 4]
    assert "skipped 2 offsets at 5" in caplog.text


# ---- sizes -----------------------------------------------------------------------------------------------------


def test_a_message_larger_than_the_fetch_is_fetched_by_a_larger_one(cluster: FakeCluster) -> None:
    for size in (10, 200_000, 10, 500_000, 10):
        cluster.append("t", 0, entry(b"x" * size))
    found = rows(cluster, OffsetRange("t", 0, 0, 5))
    assert [len(row["value"]) for row in found] == [10, 200_000, 10, 500_000, 10]


def test_a_message_larger_than_the_cap_is_named(cluster: FakeCluster) -> None:
    cluster.append("t", 0, entry(b"x") + entry(b"x" * 200_000))
    with pytest.raises(MessageTooLarge) as told:
        offsets(cluster, 0, 2, replace(OPTIONS, fetch_bytes_cap=100_000))
    text = str(told.value)
    assert text.startswith("KAFKA08_MESSAGE_TOO_LARGE topic=t partition=0 offset=1 broker=127.0.0.1:")
    assert "a fetch may have 100000 bytes, the message has 200026 bytes: raise fetchBytesCap" in text


def test_the_end_of_a_range_is_not_asked_for_with_a_full_fetch(cluster: FakeCluster) -> None:
    fill(cluster, 2000, size=1000)
    big = replace(OPTIONS, fetch_bytes=1 << 20)
    assert offsets(cluster, 0, 1100, big) == list(range(1100))
    asked = [size for seen in cluster.seen("fetch") for _, size in seen.body["wanted"].values()]
    assert asked[0] == 1 << 20
    assert asked[-1] < 200_000


# ---- several ranges --------------------------------------------------------------------------------------------


def test_small_ranges_of_one_leader_share_a_request_and_come_in_their_order(cluster: FakeCluster) -> None:
    ranges = []
    for partition in range(30):
        fill(cluster, 5 + partition % 3, "u", partition)
        leader = cluster.logs["u", partition].leader
        known = Broker(leader, "127.0.0.1", cluster.ports[leader])
        ranges.append(OffsetRange("u", partition, 1, 5 + partition % 3, known))
    ranges.sort(key=lambda rng: (rng.leader, -int(str(rng.partition))))
    found = rows(cluster, *ranges, options=replace(OPTIONS, fetch_bytes=1 << 20))
    expected = [(rng.partition, offset) for rng in ranges for offset in range(rng.start, rng.until)]
    assert [(row["partition"], row["offset"]) for row in found] == expected
    assert len(fetches(cluster)) <= 4, "thirty ranges on two brokers"


def test_two_ranges_of_one_partition_are_asked_for_apart(cluster: FakeCluster) -> None:
    fill(cluster, 20)
    leader = cluster.logs["t", 0].leader
    known = Broker(leader, "127.0.0.1", cluster.ports[leader])
    two = [OffsetRange("t", 0, 12, 15, known), OffsetRange("t", 0, 3, 6, known)]
    assert [row["offset"] for row in rows(cluster, *two)] == [12, 13, 14, 3, 4, 5]


# ---- leaders ---------------------------------------------------------------------------------------------------


def one_message_a_fetch(cluster: FakeCluster) -> ReadOptions:
    """Options by which a range of large messages takes many fetches."""
    fill(cluster, 30, size=60 << 10)
    return replace(OPTIONS, patience_ms=20_000)


@pytest.mark.parametrize("code", [3, 5, 6, 7, -1])
def test_a_leader_that_refuses_for_now_is_asked_again(cluster: FakeCluster, code: int) -> None:
    options = one_message_a_fetch(cluster)
    cluster.script("fetch", None, None, Fail(code), None, Fail(code), Fail(code))
    assert offsets(cluster, 0, 30, options) == list(range(30))


def test_a_broken_link_is_made_anew_and_reading_goes_on(cluster: FakeCluster) -> None:
    options = one_message_a_fetch(cluster)
    cluster.script("fetch", None, None, Close(), None, Close())
    assert offsets(cluster, 0, 30, options) == list(range(30))


def test_a_leader_that_dies_in_the_middle_is_followed_to_the_next(cluster: FakeCluster) -> None:
    options = one_message_a_fetch(cluster)
    found: list[int] = []
    for message_set in read_sets(OffsetRange("t", 0, 0, 30), access(cluster), options):
        found += [message.offset for message in message_set.messages()]
        if found == [0, 1, 2]:
            cluster.move("t", 0, 2)
            cluster.stop(1)
    assert found == list(range(30))
    cluster.start(1)


def test_a_wrong_leader_from_the_planner_is_found_out(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    wrong = Broker(2, "127.0.0.1", cluster.ports[2])
    assert [row["offset"] for row in rows(cluster, OffsetRange("t", 0, 0, 3, wrong))] == [0, 1, 2]


def test_a_partition_that_nobody_leads_is_given_up_after_patience(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    cluster.script("fetch", *[Fail(6)] * 1000)
    with pytest.raises(NoLeader, match=r"topic=t partition=0 offset=0: nothing was read for 0.1 s: .*NotLeader"):
        offsets(cluster, 0, 3)


def test_a_partition_that_does_not_exist_is_said_or_skipped(cluster: FakeCluster) -> None:
    gone = OffsetRange("nowhere", 0, 0, 3)
    with pytest.raises(UnknownPartition, match="topic=nowhere partition=0"):
        rows(cluster, gone)
    fill(cluster, 1)
    assert [row["topic"] for row in rows(cluster, gone, OffsetRange("t", 0, 0, 1), options=LENIENT)] == ["t"]
    assert ("nowhere", 0) not in cluster.logs


def test_a_refusal_that_stays_ends_it_with_its_name(cluster: FakeCluster) -> None:
    fill(cluster, 1)
    cluster.script("fetch", Fail(29))
    with pytest.raises(PipelineError, match=r"KAFKA08_FAILED topic=t .*TopicAuthorizationFailed \(29\)"):
        offsets(cluster, 0, 1)


# ---- what is gone ----------------------------------------------------------------------------------------------


def test_offsets_before_the_log_are_an_error_or_skipped_and_counted(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, 20)
    del cluster.logs["t", 0].entries[:8]
    with pytest.raises(OffsetOutOfRange, match=OUT_OF_RANGE % (2, 8, 20)):
        offsets(cluster, 2, 12)
    with caplog.at_level(logging.WARNING):
        assert offsets(cluster, 2, 12, LENIENT) == [8, 9, 10, 11]
        assert "skipped 6 offsets at 2" in caplog.text
        assert offsets(cluster, 2, 5, LENIENT) == []
        assert "skipped 3 offsets at 2" in caplog.text


def test_offsets_behind_the_log_are_an_error_or_skipped(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    with pytest.raises(OffsetOutOfRange, match=OUT_OF_RANGE % (9, 0, 5)):
        offsets(cluster, 9, 12)
    assert offsets(cluster, 9, 12, LENIENT) == []


def test_an_answer_that_the_leader_does_not_confirm_is_asked_for_again(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    cluster.script("fetch", Fail(1))
    assert offsets(cluster, 0, 5, replace(OPTIONS, patience_ms=20_000)) == [0, 1, 2, 3, 4]


# ---- what is damaged -------------------------------------------------------------------------------------------


def spoil(cluster: FakeCluster, number: int, at: int, byte: int) -> None:
    offset, data = cluster.logs["t", 0].entries[number]
    damaged = bytearray(data)
    damaged[at] ^= byte
    cluster.logs["t", 0].entries[number] = (offset, bytes(damaged))


def test_a_wrong_checksum_ends_the_range_with_the_offset_and_what_helps(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    spoil(cluster, 6, 26, 1)
    with pytest.raises(CorruptData) as told:
        offsets(cluster, 0, 10)
    assert "KAFKA08_CORRUPT topic=t partition=0 offset=6: entry at byte" in str(told.value)
    assert "crc mismatch" in str(told.value)
    assert "kafka.check.crcs=false" in str(told.value)
    assert offsets(cluster, 0, 10, replace(OPTIONS, check_crcs=False)) == list(range(10))
    assert offsets(cluster, 0, 6) == list(range(6)), "what is behind the range is not looked at"


def test_bytes_that_are_no_message_end_the_range_with_its_place(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    spoil(cluster, 1, 8, 0x80)  # its size
    with pytest.raises(CorruptData, match=r"topic=t partition=0 offset=1 broker=.*impossible size"):
        offsets(cluster, 0, 3)


SKIPPING = replace(OPTIONS, skip_damaged=True, columns=("offset", "rowNumber", "damagedOffsets"))


@pytest.mark.parametrize("one_set", [False, True])
def test_damaged_messages_are_skipped_and_counted_where_the_options_say_so(cluster: FakeCluster, one_set: bool) -> None:
    fill(cluster, 10)
    cluster.append("t", 0, gzipped(*[entry(b"w%d" % n, offset=n) for n in range(3)]))  # 10, 11, 12
    fill(cluster, 7)
    spoil(cluster, 2, 26, 1)
    spoil(cluster, 3, 26, 1)
    spoil(cluster, 10, 60, 1)  # the wrapper
    spoil(cluster, 12, 8, 0x80)  # a size
    spoil(cluster, 17, 26, 1)  # the last one
    options = SKIPPING if one_set else replace(SKIPPING, batch_bytes=1, batch_rows=1)
    found = rows(cluster, OffsetRange("t", 0, 0, 20), options=options)
    whole = [n for n in range(20) if n not in (2, 3, 10, 11, 12, 14, 19)]
    assert [row["offset"] for row in found] == whole
    assert [row["rowNumber"] for row in found] == list(range(len(whole)))
    assert [row["damagedOffsets"] for row in found] == [0] * (len(whole) - 1) + [7]
    again = DamageLog(entries=[])
    with closing(read_many([OffsetRange("t", 0, 0, 20)], access(cluster), SKIPPING, None, again)) as sets:
        for _ in pieces_of(access(cluster).spoken, sets, [OffsetRange("t", 0, 0, 20)], SKIPPING, again):
            pass
    assert again.entries is not None
    assert sorted((one.start, one.until) for one in again.entries) == [(2, 3), (3, 4), (10, 13), (14, 15), (19, 20)]
    assert all(one.raw in b"".join(data for _, data in cluster.logs["t", 0].entries) for one in again.entries)


@pytest.mark.parametrize("code", [1, 5, 7, 78])
@pytest.mark.parametrize("before", range(6))
def test_what_a_leader_does_not_answer_for_now_is_not_skipped_as_damaged(
    cluster: FakeCluster, before: int, code: int
) -> None:
    """before: requests until that answer, some of them of the search behind a damaged size."""
    fill(cluster, 8)
    spoil(cluster, 2, 8, 0x80)
    cluster.script("fetch", *[None] * before, Fail(code))
    found = rows(cluster, OffsetRange("t", 0, 0, 8), options=replace(SKIPPING, patience_ms=20_000))
    assert [row["offset"] for row in found] == [0, 1, 3, 4, 5, 6, 7]
    assert sum(row["damagedOffsets"] for row in found) == 1


def test_the_next_readable_offset_is_searched_where_no_size_leads_on() -> None:
    asked: list[int] = []

    def readable(at: int, good: int) -> int | None:
        asked.append(at)
        return at if at >= good else None

    for good in range(11, 100):
        assert first_readable(10, 100, lambda at, good=good: readable(at, good)) == good
    asked.clear()
    assert first_readable(10, 1_000_000, lambda at: readable(at, 2_000_000)) == 1_000_000
    assert len(asked) < 30


def test_offsets_that_go_back_are_damage(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    log = cluster.logs["t", 0]
    log.entries[3] = (3, struct.pack(">q", 1) + log.entries[3][1][8:])
    cluster.slice = lambda *_: (0, 5, b"".join(data for _, data in log.entries))  # type: ignore[method-assign]
    with pytest.raises(CorruptData, match="offsets go back"):
        offsets(cluster, 0, 5)


def test_a_codec_without_its_library_says_where_to_install_it(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.append("t", 0, encode([(0, None, b"v", None)], 2))
    cluster.append("t", 1, gzipped(entry(b"z")))
    monkeypatch.setitem(sys.modules, "cramjam", None)
    assert [row["value"] for row in rows(cluster, OffsetRange("t", 1, 0, 1))] == [b"z"]
    with pytest.raises(
        CodecMissing, match=r"KAFKA08_CODEC_MISSING topic=t partition=0 offset=0: snappy needs .*executor"
    ):
        offsets(cluster, 0, 1)


# ---- the end of a task -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [read_many, read_ranges])
def test_a_task_that_is_abandoned_leaves_no_connection(cluster: FakeCluster, read: Callable[..., Any]) -> None:
    options = one_message_a_fetch(cluster)
    going = read(
        [OffsetRange("t", 0, 0, 30), OffsetRange("t", 1, 0, 1)], access(cluster), replace(options, batch_rows=1)
    )
    next(going)
    server = cluster.servers[1]
    assert server is not None
    assert server.connections
    going.close()
    wait_until(lambda: not server.connections, 5, "every connection to be closed")


def test_a_set_larger_than_a_batch_is_read_a_piece_at_a_time(cluster: FakeCluster) -> None:
    fill(cluster, 300, size=100)
    cluster.append("t", 0, gzipped(*[entry(b"w%d" % n, offset=n) for n in range(50)]))
    small = replace(OPTIONS, batch_bytes=3000, columns=("rowNumber", "offset"))
    found = rows(cluster, OffsetRange("t", 0, 7, 340), options=small)
    assert found == [{"rowNumber": n - 7, "offset": n} for n in range(7, 340)]
    spoil(cluster, 200, 26, 1)
    assert offsets(cluster, 0, 200, small) == list(range(200)), "damage behind the range, in the same set"
    with pytest.raises(CorruptData, match="offset=200"):
        offsets(cluster, 0, 201, small)


def test_an_offset_that_the_leaders_own_log_holds_is_asked_for_again(cluster: FakeCluster) -> None:
    fill(cluster, 6)
    cluster.logs["t", 0].high_watermark = 2
    cluster.script("fetch", Fail(1), Fail(1))
    patient = replace(OPTIONS, patience_ms=10_000)

    def elected() -> None:
        wait_until(lambda: len(cluster.seen("fetch")) >= 2, 10, "two fetches")
        with cluster.lock:
            cluster.logs["t", 0].high_watermark = None

    follower = threading.Thread(target=elected)
    follower.start()
    assert offsets(cluster, 4, 6, patient) == [4, 5]
    follower.join(10)


# ---- what a broker does not answer for ------------------------------------------------------------------------------


def test_ranges_that_a_broker_does_not_answer_for_are_asked_for_again_on_the_same_link(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    fill(cluster, 2, partition=1)
    cluster.script("fetch", Throttle(), Throttle())
    patient = replace(OPTIONS, patience_ms=10_000)
    leader = Broker(1, *cluster.bootstrap[0])
    ranges = [OffsetRange("t", 0, 0, 3, leader), OffsetRange("t", 1, 0, 2, leader)]
    found = rows(cluster, *ranges, options=patient)
    assert [(row["partition"], row["offset"]) for row in found] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


def test_a_range_that_a_broker_never_answers_for_ends_once_patience_is_over(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    cluster.script("fetch", *[Throttle()] * 1000)
    with pytest.raises(NoLeader, match=r"nothing was read for 0\.1 s: .*NotAnswered"):
        offsets(cluster, 0, 3)
