"""Batches: what is due, in what company, and in what order it goes again.  No clock: time is an argument."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.dialects import NEWEST
from kafkawire.model import RECORD_BATCH, Part, TopicPartition
from producer.batches import Batch, Batches, Limits
from tests.fakes.tickets import Ticket

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def part(text: str, tp: TopicPartition = T0, codec: int = 0, magic: int = 0, count: int = 1) -> Part:
    entries = text.encode() if magic < RECORD_BATCH else NEWEST.messages.encode([(0, None, text.encode(), None)], 0, 2)
    return Part(tp, entries, magic, codec, count)


def everybody(_: TopicPartition) -> bool:
    return True


def texts(batch: Batch) -> list[str]:
    if batch.record_batches:
        fetched, _ = NEWEST.messages.message_set("t", 0, 0, memoryview(b"".join(batch.buffers())), None)
        return [(message.value or b"").decode() for message in fetched.messages()]
    return [bytes(buffer).decode() for buffer in batch.buffers()]


def due(batches: Batches, now: float = 0.0) -> list[list[str]]:
    return [texts(batch) for batch in batches.due(now, everybody)]


def filled(limits: Limits, *parts: Part, ticket: Ticket | None = None) -> Batches:
    batches = Batches(limits)
    for each in parts:
        batches.add(each, ticket or Ticket(), 0.0)
    return batches


def test_neighbouring_plain_parts_travel_together_and_partitions_share_a_request():
    batches = filled(Limits(), part("a"), part("x", T1), part("b"))
    assert due(batches) == [["a", "b"], ["x"]]


def test_a_record_batch_travels_alone():
    batches = filled(Limits(), part("a", magic=2), part("b", magic=2), part("x", T1, magic=2))
    first = batches.due(0.0, everybody)
    assert [texts(batch) for batch in first] == [["a"], ["x"]]
    assert {batch.magic for batch in first} == {2}
    batches.complete(first[0])
    assert due(batches) == [["b"]]


def test_a_request_has_record_batches_or_sets_of_older_formats_and_the_next_one_the_others():
    other = TopicPartition("t", 2)
    batches = filled(Limits(), part("a"), part("x", T1, magic=2), part("c", other, magic=1))
    first = batches.due(0.0, everybody)
    assert [texts(batch) for batch in first] == [["a"], ["c"]]
    assert batches.is_due(0.0, everybody)
    assert due(batches) == [["x"]]


def test_a_partition_has_at_most_one_batch_in_flight():
    batches = filled(Limits(), part("a"))
    (first,) = batches.due(0.0, everybody)
    batches.add(part("b"), Ticket(), 0.0)
    assert due(batches) == []
    batches.complete(first)
    assert due(batches) == [["b"]]


def test_only_partitions_of_the_asking_lane_are_given():
    batches = filled(Limits(), part("a"), part("x", T1))
    assert [texts(b) for b in batches.due(0.0, lambda tp: tp == T1)] == [["x"]]


def test_a_batch_ends_at_batch_bytes_but_always_carries_one_part():
    batches = filled(Limits(batch_bytes=4), part("aaa"), part("b"), part("c"), part("dddddd"))
    seen = []
    while found := batches.due(0.0, everybody):
        seen += [texts(b) for b in found]
        batches.complete(found[0])
    assert seen == [["aaa", "b"], ["c"], ["dddddd"]]


def test_formats_and_codecs_are_never_mixed_in_a_set():
    batches = filled(Limits(), part("a"), part("b", magic=1), part("c", codec=1), part("d", codec=2), part("e"))
    seen = []
    while found := batches.due(0.0, everybody):
        seen += [texts(b) for b in found]
        batches.complete(found[0])
    assert seen == [["a"], ["b"], ["c"], ["d"], ["e"]]


def test_wrappers_that_are_merged_stay_below_80_percent_of_the_message_limit():
    limits = Limits(max_message_bytes=10)
    batches = filled(limits, *(part("www", codec=2) for _ in range(4)))
    assert due(batches) == [["www", "www"]]


def test_one_wrapper_per_set_where_the_target_wants_that():
    batches = filled(Limits(one_wrapper_per_set=True), part("w", codec=2), part("w", codec=2))
    assert due(batches) == [["w"]]


def test_wrappers_of_v1_that_are_merged_have_no_offsets_of_a_log_but_the_first():
    """Those of a log from its begin on are one wrapper to a broker of 0.10, which then numbers the first alone."""
    wrappers = [number.to_bytes(8, "big") + b"%d" % number for number in (52, 99, 100)]
    for magic, expected in [(1, [wrappers[0], bytes(8) + b"99", bytes(8) + b"100"]), (0, wrappers)]:
        batches = Batches(Limits())
        for wrapper in wrappers:
            batches.add(Part(T0, wrapper, magic, 1, 1), Ticket(), 0.0)
        (batch,) = batches.due(0.0, everybody)
        assert b"".join(batch.buffers()) == b"".join(expected)
    plain = filled(Limits(), part("a" * 10, magic=1), part("b" * 10, magic=1))
    (batch,) = plain.due(0.0, everybody)
    assert b"".join(batch.buffers()) == b"a" * 10 + b"b" * 10


def test_a_target_that_measures_the_whole_set_gets_sets_below_its_limit():
    batches = filled(Limits(measures_whole_set=True, max_message_bytes=100), *(part("x" * 30) for _ in range(4)))
    assert [len(batch) for batch in due(batches)] == [3]


def test_a_request_ends_at_request_bytes_and_the_others_come_first_next_time():
    limits = Limits(request_bytes=10, batch_bytes=10)
    batches = filled(limits, part("a" * 8), part("b" * 8, T1))
    assert due(batches) == [["a" * 8]]
    batches.add(part("c"), Ticket(), 0.0)
    assert due(batches) == [["b" * 8]]


def test_linger_waits_for_company_and_no_longer():
    batches = filled(Limits(linger_s=5.0, batch_count=3), part("a"))
    assert not batches.is_due(4.9, everybody)
    assert batches.next_due(everybody) == 5.0
    assert due(batches, 4.9) == []
    assert due(batches, 5.0) == [["a"]]


@pytest.mark.parametrize(
    "company",
    [
        [part("b"), part("c")],  # count
        [part("b", count=2)],
        [part("b" * 100)],  # bytes
        [part("b", codec=1)],  # cannot travel with it
    ],
)
def test_enough_company_ends_the_lingering(company: list[Part]):
    batches = filled(Limits(linger_s=5.0, batch_count=3, batch_bytes=100), part("a"), *company)
    assert due(batches)[0][0] == "a"


def test_a_flush_ends_the_lingering_of_what_is_there():
    batches = filled(Limits(linger_s=5.0), part("a"))
    batches.flush(1.0)
    batches.add(part("x", T1), Ticket(), 2.0)
    assert due(batches, 3.0) == [["a"]]


def test_what_failed_goes_again_before_all_others_and_not_before_its_pause_is_over():
    batches = filled(Limits(batch_bytes=2), part("a"), part("b"), part("c"))
    (batch,) = batches.due(0.0, everybody)
    batches.put_back(batch, batch.pieces, not_before=1.0)
    assert due(batches, 0.9) == []
    assert batches.next_due(everybody) == 1.0
    assert due(batches, 1.0) == [["a", "b"]]


def test_pieces_marked_alone_go_alone_and_in_order():
    batches = filled(Limits(), part("a"), part("b"))
    (batch,) = batches.due(0.0, everybody)
    for piece in batch.pieces:
        piece.alone = True
    batches.put_back(batch, batch.pieces, 0.0)
    assert due(batches) == [["a"]]


def test_what_may_not_be_sent_is_dropped_without_a_word():
    lost, kept = Ticket(willing=False), Ticket()
    batches = Batches(Limits())
    batches.add(part("a"), lost, 0.0)
    batches.add(part("b"), kept, 0.0)
    batches.add(part("c"), lost, 0.0)
    batches.add(part("d"), kept, 0.0)
    seen = []
    while found := batches.due(0.0, everybody):
        seen += [texts(b) for b in found]
        batches.complete(found[0])
    assert seen == [["b"], ["d"]]
    assert lost.told == []
    assert batches.dropped == 2
    assert not batches


def test_a_ticket_that_says_no_while_its_part_backs_off_is_not_sent_again():
    ticket = Ticket()
    batches = filled(Limits(), part("a"), ticket=ticket)
    (batch,) = batches.due(0.0, everybody)
    batches.put_back(batch, batch.pieces, 1.0)
    ticket.willing = False
    assert due(batches, 2.0) == []
    assert not batches


def test_drop_takes_what_waits_and_keeps_what_is_in_flight_from_going_again():
    gone, stays = Ticket(), Ticket()
    batches = Batches(Limits(batch_bytes=1))
    batches.add(part("a"), gone, 0.0)
    batches.add(part("b"), gone, 0.0)
    batches.add(part("c"), stays, 0.0)
    (batch,) = batches.due(0.0, everybody)
    assert batches.drop(lambda _, ticket: ticket is gone) == 2
    batches.put_back(batch, batch.pieces, 0.0)
    assert due(batches) == [["c"]]
    assert batches.bytes_pending == 1


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.sampled_from(["ok", "again", "alone"])), max_size=60)
)
def test_whatever_happens_each_partition_keeps_its_order_and_the_bytes_add_up(script: list[tuple[int, int, str]]):
    batches = Batches(Limits(batch_bytes=12, request_bytes=20))
    sent: dict[int, list[str]] = {0: [], 1: [], 2: []}
    stored: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for number, (partition, size, _) in enumerate(script):
        text = f"{number:0{max(size, 2)}d}"
        sent[partition].append(text)
        batches.add(part(text, TopicPartition("t", partition)), Ticket(), 0.0)
    fates = iter([fate for _, _, fate in script])
    while found := batches.due(0.0, everybody):
        assert batches.bytes_in_flight == sum(batch.size for batch in found)
        for batch in found:
            fate = next(fates, "ok")
            if fate == "ok":
                stored[batch.tp.partition] += texts(batch)  # type: ignore[index]
                batches.complete(batch)
                continue
            for piece in batch.pieces:
                piece.alone |= fate == "alone"
            batches.put_back(batch, batch.pieces, 0.0)
    assert stored == sent
    assert (batches.bytes_pending, batches.bytes_in_flight, bool(batches)) == (0, 0, False)


def test_what_was_refused_goes_by_itself_where_one_suspect_must_be_told_from_others():
    batches = filled(Limits(), part("a"), part("x", T1))
    for batch in batches.due(0.0, everybody):
        for piece in batch.pieces:
            piece.refusals = 1
        batches.put_back(batch, batch.pieces, 0.0)
    assert batches.due(0.0, everybody, alone=False) == []
    assert not batches.is_due(0.0, everybody, alone=False)
    assert batches.next_due(everybody, alone=False) is None
    assert batches.is_due(0.0, everybody, alone=True)
    (first,) = batches.due(0.0, everybody, alone=True)
    (second,) = batches.due(0.0, everybody, alone=True)
    assert sorted(texts(first) + texts(second)) == ["a", "x"]
    assert first.refused


def test_what_waits_may_be_moved_to_another_partition_in_order_and_nothing_is_counted_twice():
    mine, other = Ticket(), Ticket()
    batches = filled(Limits(), part("x", T1))
    for text, ticket in (("a", mine), ("b", other), ("c", mine)):
        batches.add(part(text), ticket, 0.0)
    pending = batches.bytes_pending
    assert batches.move(T0, T1, lambda ticket: ticket is mine) == [mine, mine]
    assert (batches.bytes_pending, len(batches)) == (pending, 4)
    assert sorted(due(batches)) == [["b"], ["x", "a", "c"]]
    assert batches.move(T0, T1, lambda ticket: True) == []  # in flight


def test_a_part_that_was_moved_can_still_be_given_up():
    batches = filled(Limits(), part("a"))
    [whole] = batches.submitted()
    batches.move(T0, T1, lambda ticket: True)
    batches.end(whole)
    assert (batches.bytes_pending, bool(batches)) == (0, False)
