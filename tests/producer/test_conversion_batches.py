"""Conversion into and out of record batches: what passes, what is written again, what is lost in older formats."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.batchseal import unsealed
from kafkawire.columns import Columns
from kafkawire.columns import Part as Stretch
from kafkawire.compression import GZIP, LZ4, SNAPPY, ZSTD
from kafkawire.dialects import dialect
from kafkawire.errors import CorruptMessage, LocalError
from kafkawire.formats.v2.layout import OVERHEAD, batch_at
from kafkawire.headers import packed
from kafkawire.kernels import prepare
from kafkawire.model import MessageSet, Part, TopicPartition
from mirrormaker.losses import Losses
from producer import conversion, reslice
from producer.conversion import FieldLost, Lists, Placed, Rows, by_columns, pass_through, transcode
from producer.reslice import Share, resliced
from producer.steps import Step

V07, V08, V010, V011, V39, V40 = (dialect(one) for one in ("0.7", "0.8.2", "0.10.2", "0.11", "3.9", "4.0"))
SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("copy", 5)
LIMIT = 1000012
Row = tuple[int, bytes | None, bytes | None, int | None, bytes | None]  # offset, key, value, timestamp, headers
BLOBS = st.none() | st.binary(max_size=60)
HEADS = st.none() | st.just(packed([("h", b"x"), ("h", None)]))


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """The compiled loops: loaded by a thread of its own they would come while a test runs."""
    prepare()


def batch(rows: list[Row], codec: int = 0, attributes: int = 0, producer: bool = True) -> bytes:
    """A batch as a broker of 3.9 gives it."""
    made = bytearray(V39.messages.encode([row[:4] for row in rows], codec, 2, [row[4] for row in rows]))
    if producer:
        struct.pack_into(">qhi", made, 43, 7, 1, 40)
    made[22] |= attributes
    struct.pack_into(">i", made, 12, 9)
    struct.pack_into(">I", made, 17, crc32c.crc32c(bytes(made[21:])))
    return bytes(made)


def fetched(data: bytes, start: int = 100) -> MessageSet:
    message_set, scan = V39.messages.message_set("orders", 3, start, memoryview(data), None)
    assert scan.damage is None
    return message_set


def rows_of(first: int, count: int, size: int = 20, headers: bytes | None = None) -> list[Row]:
    return [(n, b"k%d" % n, b"v" * size, 1_600_000_000_000 + n, headers) for n in range(first, first + count)]


def read(steps: Iterable[Step]) -> list[tuple[object, ...]]:
    """Key, value, timestamp and headers of all messages of some steps."""
    found: list[tuple[object, ...]] = []
    for part in (part for step in steps for part in step.parts):
        message_set, scan = V39.messages.message_set("t", 0, 0, memoryview(bytes(part.entries)), None)
        assert (scan.damage, scan.end) == (None, len(part.entries))
        messages = list(message_set.messages())
        assert part.count == len(messages) or not part.counted
        if part.record_batch:
            assert_as_producers_send_it(part, len(messages))
        found += [(m.key, m.value, m.timestamp_ms, m.headers or ()) for m in messages]
    return found


def assert_as_producers_send_it(part: Part, count: int) -> None:
    sent = b"".join(unsealed(part.entries))
    head = batch_at(sent, 0)
    assert head is not None
    assert head.end == len(sent) == len(part.entries)
    assert crc32c.crc32c(sent[21:]) == head.crc
    assert (head.base_offset, head.last_offset_delta, head.count) == (0, count - 1, count)
    assert (head.leader_epoch, head.producer_id, head.producer_epoch, head.base_sequence) == (-1, -1, -1, -1)
    assert head.attributes == part.codec


def wanted(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    return [
        (key, value, -1 if stamp is None else stamp, (("h", b"x"), ("h", None)) if headers else ())
        for _, key, value, stamp, headers in rows
    ]


# ---- record batches into record batches ----------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("attributes", [0, 0x10])
def test_a_batch_keeps_its_records_under_a_new_head(codec: int, attributes: int) -> None:
    rows = rows_of(100, 7, headers=packed([("h", b"x"), ("h", None)]))
    data = batch(rows, codec, attributes)
    [step] = pass_through(fetched(data), TARGET, V39, LIMIT)
    [part] = step.parts
    assert bytes(part.entries)[OVERHEAD:] == data[OVERHEAD:]
    assert (part.tp, part.magic, part.codec, part.count, part.counted) == (TARGET, 2, codec, 7, True)
    assert (part.resume_at, step.resume_at) == (107, 107)
    assert read([step]) == wanted(rows)


def test_a_batch_that_begins_before_the_wanted_offset_is_written_again_without_what_is_before() -> None:
    rows = rows_of(100, 7)
    steps = list(pass_through(fetched(batch(rows), start=104), TARGET, V39, LIMIT))
    assert read(steps) == wanted(rows[4:])
    assert steps[-1].resume_at == 107


def test_what_a_cleaner_left_of_a_batch_is_written_again() -> None:
    data = bytearray(batch(rows_of(100, 3)))
    struct.pack_into(">i", data, 23, 9)  # the last offset stays when records go
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    steps = list(pass_through(fetched(bytes(data)), TARGET, V39, LIMIT))
    assert read(steps) == wanted(rows_of(100, 3))
    assert steps[-1].resume_at == 110


def test_times_that_a_broker_set_are_those_of_the_copy() -> None:
    rows = rows_of(100, 3)
    steps = list(pass_through(fetched(batch(rows, attributes=0x08)), TARGET, V39, LIMIT))
    newest = rows[-1][3]
    assert [stamp for _, _, stamp, _ in read(steps)] == [newest] * 3


def test_small_neighbours_share_a_batch_and_large_ones_go_as_they_are() -> None:
    small = [rows_of(100 + 3 * n, 3) for n in range(4)]
    large = rows_of(112, 2, size=40_000)
    after = rows_of(114, 1)
    data = b"".join(map(batch, [*small, large, after]))
    steps = list(pass_through(fetched(data), TARGET, V39, LIMIT))
    assert [part.count for step in steps for part in step.parts] == [12, 2, 1]
    assert [step.resume_at for step in steps] == [112, 114, 115]
    assert read(steps) == wanted([row for rows in (*small, large, after) for row in rows])


def test_neighbours_whose_codec_is_slow_go_as_they_are_unless_they_are_tiny() -> None:
    chance = [bytes((n * n + k) % 251 for k in range(9000)) for n in range(3)]
    rows: list[Row] = [(100 + n, None, crc32c.crc32c(one).to_bytes(4, "big") * 2500, 5, None) for n, one in
                       enumerate(chance)]  # fmt: skip
    tiny = [batch([row], GZIP) for row in rows]
    assert [p.count for s in pass_through(fetched(b"".join(tiny)), TARGET, V39, LIMIT) for p in s.parts] == [3]
    noise: list[Row] = [(100 + n, None, random.Random(n).randbytes(9000), 5, None) for n in range(3)]
    data = b"".join(batch([row], GZIP) for row in noise)
    assert [p.count for s in pass_through(fetched(data), TARGET, V39, LIMIT) for p in s.parts] == [1, 1, 1]


def test_a_codec_that_the_target_does_not_know_is_another_one_there() -> None:
    rows = rows_of(100, 5)
    steps = list(pass_through(fetched(batch(rows, ZSTD)), TARGET, V011, LIMIT))
    assert {part.codec for step in steps for part in step.parts} == {LZ4}
    assert read(steps) == wanted(rows)


def test_damage_stops_a_batch_that_would_pass_and_one_that_is_joined() -> None:
    for more in (b"", batch(rows_of(103, 1))):
        data = bytearray(batch(rows_of(100, 3)) + more)
        data[-3] ^= 1
        with pytest.raises(CorruptMessage):
            list(pass_through(fetched(bytes(data)), TARGET, V39, LIMIT))


def test_large_batches_are_cut_to_what_the_target_takes() -> None:
    rows = rows_of(100, 400, size=1000)
    for codec in (0, SNAPPY):
        steps = list(transcode(fetched(batch(rows, codec)), TARGET, V39, 100_000, codec))
        parts = [part for step in steps for part in step.parts]
        assert len(parts) >= 4
        assert max(len(part.entries) for part in parts) <= 100_000
        assert read(steps) == wanted(rows)


def test_a_message_that_is_larger_than_all_goes_alone() -> None:
    rows = [*rows_of(100, 2), *rows_of(102, 1, size=300_000), *rows_of(103, 2)]
    steps = list(transcode(fetched(batch(rows)), TARGET, V39, 100_000))
    assert [part.count for step in steps for part in step.parts] == [2, 1, 2]
    assert read(steps) == wanted(rows)


# ---- older formats into record batches -----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    found=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 2]),
            st.sampled_from([0, GZIP, LZ4]),
            st.lists(st.tuples(BLOBS, BLOBS, HEADS), min_size=1, max_size=6),
        ),
        min_size=1,
        max_size=6,
    ),
    skipped=st.integers(0, 9),
    to=st.sampled_from([V39, V40]),
    aligned=st.booleans(),
)
def test_whatever_a_log_holds_arrives_once_and_in_order(
    found: list[tuple[int, int, list[tuple[bytes | None, bytes | None, bytes | None]]]],
    skipped: int,
    to: object,
    aligned: bool,
) -> None:
    data, rows, offset = b"", list[Row](), 100
    for magic, codec, messages in found:
        made: list[Row] = [
            (offset + n, key, value, 5000 + n if magic else None, headers if magic == 2 else None)
            for n, (key, value, headers) in enumerate(messages)
        ]
        if magic == 2:
            data += batch(made, codec)
        else:
            whole = bytearray(V010.messages.encode([row[:4] for row in made], codec, magic))
            data += bytes(whole)
        rows += made
        offset += len(made)
    start = 100 + min(skipped, len(rows) - 1)
    begins = start == 100
    message_set = fetched(data, start)
    steps = list(pass_through(message_set, TARGET, to, LIMIT, aligned and begins))  # type: ignore[arg-type]
    assert read_all(steps) == [row[:2] for row in wanted(row for row in rows if row[0] >= start)]
    assert [step.resume_at for step in steps] == sorted({step.resume_at for step in steps})
    assert steps[-1].resume_at == message_set.resume_at
    if to is V40:
        assert {part.magic for step in steps for part in step.parts} == {2}
        stamps = [row[2:] for row in wanted(row for row in rows if row[0] >= start)]
        assert [row[2:] for row in read(steps)] == stamps


def read_all(steps: Iterable[Step]) -> list[tuple[object, ...]]:
    """Key and value, of sets of older formats, too."""
    found: list[tuple[object, ...]] = []
    for part in (part for step in steps for part in step.parts):
        message_set, _ = V39.messages.message_set("t", 0, -(1 << 60), memoryview(bytes(part.entries)), None)
        found += [(m.key, m.value) for m in message_set.messages()]
    return found


def test_messages_of_0_7_become_batches() -> None:
    data = V07.messages.encode([(0, None, b"a", None), (1, None, b"b", None)], 1)
    data += V07.messages.encode([(2, None, b"c", None)], 0)
    message_set, _ = V07.messages.message_set("orders", 3, 0, memoryview(data), None)
    steps = list(transcode(message_set, TARGET, V40, LIMIT, 0))
    assert read(steps) == [(None, one, -1, ()) for one in (b"a", b"b", b"c")]
    assert [part.count for step in steps for part in step.parts] == [3]
    assert steps[-1].resume_at == len(data)


@pytest.mark.parametrize("to", [V39, V40])
def test_headers_travel(to: object) -> None:
    rows = rows_of(100, 9, headers=packed([("h", b"x"), ("h", None)]))
    rows[4] = (104, None, None, 77, None)
    message_set = fetched(batch(rows[:5], GZIP) + batch(rows[5:]))

    def place(rows: Rows) -> Iterable[Placed]:
        lists = Lists(rows.keys, rows.values, rows.timestamps_ms, rows.headers)
        return (Placed({TARGET: lists}, rows.resume_at),)

    one = list(transcode(message_set, TARGET, to, LIMIT))  # type: ignore[arg-type]
    other = list(by_columns(message_set, place, to, LIMIT))  # type: ignore[arg-type]
    assert read(one) == read(other) == wanted(rows)


# ---- record batches into older formats -----------------------------------------------------------------------------


def losses(to: object, *drop: str) -> Losses:
    return Losses(V39, to, frozenset(drop))  # type: ignore[arg-type]


def test_headers_for_a_target_without_them_stop_at_the_message_that_has_some() -> None:
    rows = rows_of(100, 5)
    rows[3] = (*rows[3][:4], packed([("h", b"x")]))
    found = losses(V010)
    steps = pass_through(fetched(batch(rows)), TARGET, V010, LIMIT, fit=found.fit(SOURCE))
    with pytest.raises(FieldLost) as refused:
        list(steps)
    assert refused.value.offset == 103
    assert str(refused.value) == (
        "orders/3 at 103: the message has headers, and those of the target (Kafka 0.10.2) have none, which came with "
        "Kafka 0.11: set mirror.drop.fields: headers to copy such messages without their headers"
    )
    assert found.counts == {}


def test_what_precedes_the_message_that_stops_is_sent() -> None:
    rows = rows_of(100, 5)
    rows[3] = (*rows[3][:4], packed([("h", b"x")]))
    sent: list[Step] = []
    steps = pass_through(fetched(batch(rows)), TARGET, V010, LIMIT, fit=losses(V010).fit(SOURCE))

    def send() -> None:
        for step in steps:
            sent.append(step)

    with pytest.raises(FieldLost):
        send()
    assert sent[-1].resume_at == 103
    assert read(sent) == wanted(rows[:3])


def test_what_may_be_dropped_is_dropped_and_counted() -> None:
    rows = [*rows_of(100, 2), *rows_of(102, 3, headers=packed([("h", b"x")])), (105, None, b"x", None, None)]
    data = batch(rows[:4]) + batch(rows[4:], GZIP)
    to_010, to_08 = losses(V010, "headers"), losses(V08, "headers", "timestamps")
    steps = list(pass_through(fetched(data), TARGET, V010, LIMIT, fit=to_010.fit(SOURCE)))
    assert {part.magic for step in steps for part in step.parts} == {1}
    assert read(steps) == wanted([(*row[:4], None) for row in rows])
    assert to_010.counts == {("orders", "headers"): 3}
    steps = list(transcode(fetched(data), TARGET, V08, LIMIT, fit=to_08.fit(SOURCE)))
    assert {part.magic for step in steps for part in step.parts} == {0}
    assert to_08.counts == {("orders", "headers"): 3, ("orders", "timestamps"): 5}


def test_timestamps_for_a_target_without_them_are_refused_by_name() -> None:
    with pytest.raises(FieldLost, match=r"at 100: the message has timestamps, .* set mirror.drop.fields: timestamps "):
        list(transcode(fetched(batch(rows_of(100, 1))), TARGET, V08, LIMIT, fit=losses(V08).fit(SOURCE)))


def test_without_a_rule_headers_are_never_lost_in_silence() -> None:
    with pytest.raises(LocalError, match="no headers"):
        list(transcode(fetched(batch(rows_of(100, 1, headers=packed([("h", b"")])))), TARGET, V08, LIMIT))


def test_a_source_whose_every_message_would_stop_is_refused_at_the_start() -> None:
    assert losses(V08).refusal("dc1") == (
        "source dc1: its messages (Kafka 3.9) have timestamps, and those of the target (Kafka 0.8.2) have none: set "
        "mirror.drop.fields: timestamps to copy them without"
    )
    assert losses(V08, "timestamps").refusal("dc1") is None
    assert losses(V010).refusal("dc1") is None


def test_where_nothing_can_be_lost_nothing_is_looked_at() -> None:
    assert losses(V39).fit(SOURCE) is None
    assert Losses(V08, V08).fit(SOURCE) is None
    assert Losses(V010, V39).fit(SOURCE) is None
    assert losses(V08).fields == ("headers", "timestamps")
    assert Losses(V010, V08).fields == ("timestamps",)


def test_joining_is_for_neighbours_of_one_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "JOINED_BYTES", {0: 1 << 20, LZ4: 1 << 20})
    data = batch(rows_of(100, 2)) + batch(rows_of(102, 2), LZ4) + batch(rows_of(104, 2), LZ4) + batch(rows_of(106, 1))
    steps = list(pass_through(fetched(data), TARGET, V39, LIMIT))
    assert [(part.codec, part.count) for step in steps for part in step.parts] == [(0, 2), (LZ4, 4), (0, 1)]
    assert read(steps) == wanted(rows_of(100, 7))


# sets that open to far more than is sent


def bombs(count: int, size: int) -> MessageSet:
    """Record batches of a few hundred bytes, each of a large message and a small one."""
    batches = []
    for n in range(count):
        rows = [(2 * n, b"k", bytes(size), None), (2 * n + 1, b"k", b"small", None)]
        batches.append((2 * n).to_bytes(8, "big") + bytes(V39.messages.encode(rows, GZIP, 2))[8:])
    found, _ = V39.messages.message_set("orders", 3, 0, memoryview(b"".join(batches)), 100)
    assert isinstance(found, MessageSet)
    return found


def test_a_step_ends_by_what_was_opened_for_it_though_little_of_that_is_sent(monkeypatch):
    """A handler that keeps little or nothing: else all of what a set opens to is held, and no other task has a turn."""
    monkeypatch.setattr(reslice, "READ_BYTES", 1_000_000)
    found = bombs(20, 400_000)
    held: list[int] = []

    def little(columns: Columns, end: int) -> list[Share]:
        held.append(len(columns.data))
        return [Share(TARGET, Stretch(columns, row, row + 1), 5) for row in range(end) if columns.value_size[row] == 5]

    def nothing(rows: Rows) -> list[Placed]:
        held.append(sum(len(stretch.columns.data) for stretch in rows.stretches))
        return [Placed({}, rows.resume_at)]

    for made, ended, sent in (
        (resliced([(found, 0)], little, V39, 100_000_000), 5, 20),
        (by_columns(found, nothing, V39, 100_000_000), 7, 0),
    ):
        ends: list[int] = []
        count = 0
        for step in made:
            assert sum(held) <= 1_700_000
            held.clear()
            ends.append(step.resume_at)
            count += sum(part.count for part in step.parts)
        assert (len(ends), ends[-1], count) == (ended, 40, sent)
