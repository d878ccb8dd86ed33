"""Entries in the queue of a sender when their brokers become another release."""

from __future__ import annotations

import pytest

from kafkawire.dialects import NEWEST, Dialect, dialect
from kafkawire.errors import CorruptMessage
from kafkawire.model import Message, Part, TopicPartition
from producer.batches import Batch, Piece
from producer.formatchange import in_format, outdated, renewed
from tests.fakes.tickets import Ticket

TP = TopicPartition("t", 3)
ROWS = [(7, b"k", b"v", None), (8, None, b"w" * 300, None), (9, b"k", None, None)]
NEW = [row for row in ("0.11", "3.9", "4.0") if dialect(row).record_batches and 2 in dialect(row).formats]


def part(spoken: Dialect, codec: int = 0, magic: int | None = None) -> Part:
    wanted = spoken.magic if magic is None else magic
    entries = spoken.messages.encode(ROWS, codec, wanted)
    return Part(TP, entries, wanted, codec, len(ROWS) if not codec else 1, resume_at=10, counted=not codec)


def read(found: Part) -> list[Message]:
    return list(NEWEST.messages.message_set("t", 3, 0, memoryview(found.entries), None)[0].messages())


def piece(one: Part) -> Piece:
    return Piece(one, Ticket(), 0.0)


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("release", NEW)
def test_old_entries_become_one_record_batch(release: str, codec: int) -> None:
    now = in_format(part(dialect("0.8.2"), codec), dialect(release))
    assert (now.magic, now.codec, now.count, now.counted, now.resume_at) == (2, codec, 3, True, 10)
    assert [(m.key, m.value) for m in read(now)] == [(k, v) for _, k, v, _ in ROWS]
    assert NEWEST.messages.check(now.entries) is None


def test_only_what_the_brokers_refuse_is_changed_and_each_part_keeps_its_ticket() -> None:
    old, new = dialect("0.8.2"), dialect("0.10.2")
    batch = Batch(TP, [piece(part(new)), piece(part(new, codec=1))])
    assert not outdated(batch, new)
    assert outdated(batch, old)
    first, second = renewed(batch, old)
    assert [one.part.magic for one in (first, second)] == [0, 0]
    assert (first.whole, second.whole) == tuple(batch.pieces)
    assert first.last
    assert [(m.key, m.value, m.timestamp_ms) for m in read(first.part)] == [(k, v, None) for _, k, v, _ in ROWS]


def test_a_codec_that_the_brokers_do_not_know_is_the_nearest_they_know() -> None:
    assert in_format(part(dialect("0.10.0"), codec=3), dialect("0.8.1")).codec == 2


def test_what_cannot_be_read_is_an_error_and_no_empty_batch() -> None:
    broken = Part(TP, b"\x00" * 40, 1, 0, 1)
    with pytest.raises(CorruptMessage):
        in_format(broken, dialect("0.8.2"))
