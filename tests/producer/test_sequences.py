"""Sequences: what was sent once goes again as it is, and numbers never leave a gap, whatever is lost or refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.batchseal import LARGEST_SEQUENCE, after, sealed
from kafkawire.errors import CorruptMessage, LinkLost
from kafkawire.formats.v2.layout import batch_at, head_over
from kafkawire.formats.v2.read import check_crc
from kafkawire.model import Broker, Part, ProducerId, TopicPartition
from kafkawire.protocol.request import ProducedPartition
from producer.batches import Batch, Batches, Limits
from producer.errors import UnknownOutcome
from producer.outcomes import Outcomes, Patience
from producer.sequences import Sequences
from tests.fakes.batchlog import BatchLog, record_batch
from tests.fakes.tickets import OnceTicket, Ticket

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
BROKER = Broker(1, "h", 1)
NOW_MS = 1_764_000_000_000
ID, NEXT_ID = ProducerId(7, 0), ProducerId(8, 0)


class Producer:
    """Batches, outcomes and sequences of one producer, and the logs it writes to."""

    def __init__(self, transactional: bool = False, patience: Patience | None = None) -> None:
        self.wanted = 0
        self.sequences = Sequences(self._want, transactional=transactional, clock_ms=lambda: NOW_MS)
        self.sequences.renew(ID)
        self.batches = Batches(Limits())
        self.events: list[str] = []
        self.outcomes = Outcomes(
            self.batches, patience or Patience(), None, lambda level, text: self.events.append(text),  # type: ignore[arg-type]
            sequences=self.sequences,
        )  # fmt: skip
        self.logs = {TP: BatchLog(), OTHER: BatchLog()}
        self.clock = 0.0

    def _want(self) -> None:
        self.wanted += 1

    def add(
        self,
        text: bytes,
        count: int = 1,
        tp: TopicPartition = TP,
        ticket: Ticket | None = None,
        time_ms: int | None = None,
    ) -> Ticket:
        ticket = ticket or Ticket()
        entries = record_batch(text, count, NOW_MS if time_ms is None else time_ms)
        self.batches.add(Part(tp, entries, 2, 0, count), ticket, self.clock)
        return ticket

    def sent(self) -> list[Batch]:
        """What goes into the next request."""
        self.clock += 100.0
        due = self.batches.due(self.clock, lambda tp: self.sequences.ready(tp, self.batches.head(tp)))
        sealed_ones = [batch for batch in due if self.sequences.seal(batch)]
        for batch in due:
            if batch not in sealed_ones:
                self.batches.put_back(batch, batch.pieces, self.clock)
        return sealed_ones

    def one(self) -> Batch:
        (batch,) = self.sent()
        return batch

    def store(self, batch: Batch) -> tuple[int, int]:
        return self.logs[batch.tp].append(b"".join(map(bytes, batch.buffers())))

    def answer(self, batch: Batch, code: int, base: int = -1) -> None:
        self.outcomes.answered(batch, ProducedPartition(code, base, version=9), BROKER, self.clock)

    def lose(self, batch: Batch) -> None:
        self.outcomes.lost(batch, LinkLost("gone"), self.clock)

    def deliver(self, batch: Batch) -> None:
        self.answer(batch, *self.store(batch))


# ---- the seal -------------------------------------------------------------------------------------------------------


def test_a_sealed_batch_has_the_producer_in_its_head_and_the_records_as_they_were():
    (head, records), numbers = sealed(record_batch(b"records", 5), ProducerId(99, 3), 40, transactional=True)
    data = bytes(head) + bytes(records)
    batch = batch_at(data, 0)
    assert batch is not None
    check_crc(data, batch)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, numbers) == (99, 3, 40, 5)
    assert (batch.base_offset, batch.leader_epoch, batch.transactional, batch.control) == (0, -1, True, False)
    assert bytes(records) == b"records"


def test_a_head_that_is_taken_over_is_the_one_that_would_be_made():
    entries = bytearray(record_batch(b"records", 5))
    entries[21:23] = b"\x00\x14"  # lz4, of a transaction that is not ours
    batch = batch_at(entries, 0)
    assert batch is not None
    for producer, sequence, transactional in ((ProducerId(1 << 40, 3), 40, True), (ProducerId(-1, -1), -1, False)):
        (head, records), _ = sealed(entries, producer, sequence, transactional)
        assert head == head_over(
            records,
            attributes=4 | 16 * transactional,
            last_offset_delta=4,
            timestamps_ms=(batch.first_timestamp_ms, batch.max_timestamp_ms),
            producer=(*producer, sequence),
            count=5,
        )


@pytest.mark.parametrize("entries", [b"", record_batch(b"a")[:-1], record_batch(b"a") + record_batch(b"b")])
def test_only_exactly_one_batch_is_sealed(entries: bytes):
    with pytest.raises(CorruptMessage, match="one record batch"):
        sealed(entries, ID, 0)


def test_behind_the_largest_sequence_comes_zero():
    assert after(LARGEST_SEQUENCE, 1) == 0
    assert after(LARGEST_SEQUENCE - 1, 4) == 2
    assert after(5, 3) == 8


# ---- sequences ------------------------------------------------------------------------------------------------------


def test_numbers_follow_each_other_by_partition():
    run = Producer()
    for text, count, tp in ((b"a", 3, TP), (b"x", 2, OTHER)):
        run.add(text, count, tp)
    first = run.sent()
    assert [(b.tp, b.pieces[0].seal.sequence) for b in first] == [(TP, 0), (OTHER, 0)]  # type: ignore[union-attr]
    for batch in first:
        run.deliver(batch)
    run.add(b"b")
    batch = run.one()
    assert batch.pieces[0].seal is not None
    assert batch.pieces[0].seal.sequence == 3
    run.deliver(batch)
    assert run.logs[TP].stored == [b"a", b"b"]


def test_a_lost_response_sends_the_same_bytes_and_the_broker_stores_them_once():
    run = Producer()
    ticket = run.add(b"a", 3)
    first = run.one()
    bytes_of_first = b"".join(map(bytes, first.buffers()))
    run.store(first)
    run.lose(first)
    second = run.one()
    assert b"".join(map(bytes, second.buffers())) == bytes_of_first
    run.deliver(second)
    assert (run.logs[TP].stored, ticket.told) == ([b"a"], [("done",)])


def test_what_the_broker_stored_before_counts_as_stored():
    run = Producer()
    ticket = run.add(b"a")
    run.answer(run.one(), 46)
    assert ticket.told == [("done",)]
    run.add(b"b")
    assert run.one().pieces[0].seal.sequence == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("code", [45, 47, 59])
def test_a_broker_that_forgot_the_producer_gets_the_batch_under_another_id_and_its_neighbours_keep_theirs(code: int):
    run = Producer()
    run.add(b"x", tp=OTHER)
    run.deliver(run.one())
    run.add(b"a")
    run.deliver(run.one())
    ticket = run.add(b"b")
    batch = run.one()
    run.answer(batch, code)
    assert run.sent() == []
    assert run.wanted
    run.sequences.renew(NEXT_ID)
    run.deliver(run.one())
    run.add(b"y", tp=OTHER)
    neighbour = run.one()
    assert neighbour.pieces[0].seal.producer == ID  # type: ignore[union-attr]
    assert neighbour.pieces[0].seal.sequence == 1  # type: ignore[union-attr]
    run.deliver(neighbour)
    assert (run.logs[TP].stored, ticket.told) == ([b"a", b"b"], [("done",)])
    assert any("lacks messages that it acknowledged" in event for event in run.events) == (code == 45)


def test_a_part_that_may_be_stored_and_is_dropped_leaves_no_gap():
    """Its lease is over: what follows can neither reuse its numbers nor go on behind them."""
    for was_stored in (True, False):
        run = Producer()
        run.add(b"a")
        run.deliver(run.one())
        dropped = run.add(b"b")
        batch = run.one()
        if was_stored:
            run.store(batch)
        run.lose(batch)
        dropped.willing = False
        ticket = run.add(b"c")
        assert run.sent() == []
        run.sequences.renew(NEXT_ID)
        run.deliver(run.one())
        assert run.logs[TP].stored == [b"a", b"b", b"c"][: 2 + was_stored] if was_stored else [b"a", b"c"]
        assert (dropped.told, ticket.told) == ([], [("done",)])
        assert run.sequences.renewals == 1


def test_the_numbers_of_a_batch_that_was_refused_for_sure_are_free():
    run = Producer(patience=Patience(retries=0))
    refused = run.add(b"a")
    run.answer(run.one(), 19)  # not enough replicas: before anything is appended
    assert refused.told[0][0] == "failed"
    run.add(b"b")
    batch = run.one()
    assert batch.pieces[0].seal.sequence == 0  # type: ignore[union-attr]
    run.deliver(batch)
    assert (run.logs[TP].stored, run.sequences.renewals) == ([b"b"], 0)


def test_a_batch_that_timed_out_and_is_given_up_costs_the_partition_its_id():
    run = Producer(patience=Patience(retries=0))
    run.add(b"a")
    run.answer(run.one(), 20)  # appended, and not enough replicas have it
    run.add(b"b")
    assert run.sent() == []
    run.sequences.renew(NEXT_ID)
    assert run.one().pieces[0].seal.producer == NEXT_ID  # type: ignore[union-attr]


@pytest.mark.parametrize(("code", "named"), [(6, True), (3, True), (7, True), (20, True), (56, False), (-1, False)])
def test_the_numbers_of_a_batch_that_was_appended_and_then_refused_go_to_no_other(code: int, named: bool):
    """Its leader was deposed while it waited for replicas, and the lease is over: another source's part comes next."""
    run = Producer()
    run.add(b"a")
    run.deliver(run.one())
    revoked = run.add(b"revoked")
    batch = run.one()
    _, base = run.store(batch)
    run.answer(batch, code, base if named else -1)
    revoked.willing = False
    ticket = run.add(b"of another source")
    assert run.sent() == []
    run.sequences.renew(NEXT_ID)
    run.deliver(run.one())
    assert run.logs[TP].stored == [b"a", b"revoked", b"of another source"]
    assert (revoked.told, ticket.told) == ([], [("done",)])


def test_a_batch_that_one_leader_appended_may_be_stored_whatever_the_next_leader_answers():
    """A producer with three retries: its second message is stored when it says so."""
    run = Producer(patience=Patience(retries=3))
    first = run.add(b"first")
    batch = run.one()
    _, base = run.store(batch)
    run.answer(batch, 6, base)
    for _ in range(3):
        run.answer(run.one(), 6)  # not the leader yet, and nothing is appended
    assert first.told[0][0] == "failed"
    second = run.add(b"second")
    run.sequences.renew(NEXT_ID)
    run.deliver(run.one())
    assert (run.logs[TP].stored, second.told) == ([b"first", b"second"], [("done",)])


@pytest.mark.parametrize("code", [45, 47, 59, 10, 2])
def test_what_may_be_stored_and_cannot_go_again_as_it_is_fails_where_it_must_not_be_stored_twice(code: int):
    run = Producer()
    ticket = OnceTicket()
    run.add(b"a", 2, ticket=ticket)
    run.lose(run.one())
    run.answer(run.one(), 6)
    assert ticket.told == []
    run.answer(run.one(), code)
    [(what, reason, _)] = ticket.told
    assert (what, isinstance(reason, UnknownOutcome), len(run.batches)) == ("failed", True, 0)


@pytest.mark.parametrize("code", [45, 47, 59])
@pytest.mark.parametrize("open_outcome", ["lost", "timed out", "none"])
def test_what_goes_again_under_another_id_and_may_be_stored_is_told_with_its_count(code: int, open_outcome: str):
    """Brokers forget a producer by the times of its messages, so old messages make them refuse a copy with 59."""
    run = Producer()
    ticket = run.add(b"old", 3)
    batch = run.one()
    if open_outcome != "none":
        _, base = run.store(batch)
        run.lose(batch) if open_outcome == "lost" else run.answer(batch, 7, base)
        batch = run.one()
    run.answer(batch, code)
    run.sequences.renew(NEXT_ID)
    run.deliver(run.one())
    said = [event for event in run.events if "may be in its log twice" in event]
    assert len(said) == (open_outcome != "none")
    assert all("t/0: 3 messages" in event for event in said)
    assert (len(run.logs[TP].stored), ticket.told) == (1 + (open_outcome != "none"), [("done",)])


@pytest.mark.parametrize(
    ("code", "named", "unknown"), [(7, True, 1), (6, True, 1), (56, False, 1), (-1, False, 1), (19, False, 0)]
)
def test_answers_that_leave_it_open_whether_a_batch_is_stored_are_counted_like_lost_ones(
    code: int, named: bool, unknown: int
):
    run = Producer()
    run.add(b"a")
    batch = run.one()
    _, base = run.store(batch)
    run.answer(batch, code, base if named else -1)
    assert run.outcomes.counters.unknown == unknown
    run.lose(run.one())
    assert run.outcomes.counters.unknown == unknown + 1


@pytest.mark.parametrize("code", [45, 47, 59])
def test_what_no_leader_appended_goes_again_under_another_id_though_it_must_not_be_stored_twice(code: int):
    run = Producer()
    ticket = OnceTicket()
    run.add(b"a", ticket=ticket)
    run.answer(run.one(), 6)
    run.answer(run.one(), code)
    run.sequences.renew(NEXT_ID)
    run.deliver(run.one())
    assert (run.logs[TP].stored, ticket.told) == ([b"a"], [("done",)])


def test_a_batch_with_numbers_goes_again_as_it_is_though_it_must_not_be_stored_twice_until_it_is_given_up():
    run = Producer(patience=Patience(retries=1))
    ticket = OnceTicket()
    run.add(b"a", ticket=ticket)
    run.lose(run.one())
    run.answer(run.one(), 6)
    [(what, reason, _)] = ticket.told
    assert what == "failed"
    assert isinstance(reason, UnknownOutcome)


@pytest.mark.parametrize(("time_ms", "again"), [(NOW_MS - 30 * 86_400_000, False), (-1, False), (NOW_MS, True)])
@pytest.mark.parametrize("code", [None, 7])
def test_a_batch_of_old_messages_does_not_go_again_where_it_must_not_be_stored_twice(
    time_ms: int, again: bool, code: int | None
):
    """Its leader is killed, reads its log again, and has forgotten the producer: 2.5 and later take any sequence."""
    run = Producer()
    ticket = OnceTicket()
    run.add(b"a", ticket=ticket, time_ms=time_ms)
    batch = run.one()
    _, base = run.store(batch)
    run.lose(batch) if code is None else run.answer(batch, code, base)
    assert len(run.sent()) == again
    assert [isinstance(reason, UnknownOutcome) for _, reason, _ in ticket.told] == [True] * (not again)
    assert run.logs[TP].stored == [b"a"]


def test_a_batch_of_old_messages_that_no_leader_appended_goes_again_where_it_must_not_be_stored_twice():
    run = Producer()
    ticket = OnceTicket()
    run.add(b"a", ticket=ticket, time_ms=-1)
    run.answer(run.one(), 6)
    run.deliver(run.one())
    assert (run.logs[TP].stored, ticket.told) == ([b"a"], [("done",)])


def test_sets_of_older_formats_have_no_numbers():
    run = Producer()
    run.batches.add(Part(TP, b"entries", 1, 0, 1), Ticket(), 0.0)
    batch = run.one()
    assert not batch.sealed
    assert batch.buffers() == [b"entries"]
    run.lose(batch)
    assert [b.buffers() for b in run.sent()] == [[b"entries"]]


def test_without_a_producer_id_nothing_is_numbered_once_it_is_given_up():
    run = Producer()
    run.sequences.producer = None
    run.add(b"a")
    assert run.sent() == []
    assert run.wanted
    run.sequences.give_up()
    assert not run.one().sealed


# ---- in a transaction -----------------------------------------------------------------------------------------------


def test_in_a_transaction_only_partitions_that_belong_to_it_are_sent_to():
    run = Producer(transactional=True)
    run.add(b"a")
    run.add(b"x", tp=OTHER)
    assert run.sent() == []
    run.sequences.added({TP})
    assert [batch.tp for batch in run.sent()] == [TP]
    run.sequences.ended()
    run.sequences.added({OTHER})
    (batch,) = run.sent()
    head = batch_at(b"".join(map(bytes, batch.buffers())), 0)
    assert head is not None
    assert head.transactional


@pytest.mark.parametrize(("code", "fenced"), [(45, False), (47, True), (59, False), (90, True), (48, False)])
def test_what_the_broker_forgot_ends_the_transaction(code: int, fenced: bool):
    run = Producer(transactional=True)
    run.sequences.added({TP})
    run.add(b"a")
    run.answer(run.one(), code)
    assert f"({code})" in run.sequences.broken
    assert run.sequences.fenced is fenced
    assert run.sent() == []
    run.sequences.renew(ProducerId(7, 1))
    assert run.sequences.broken == ""
    assert run.sent() == []
    run.sequences.added({TP})
    assert run.one().pieces[0].seal.sequence == 0  # type: ignore[union-attr]


def test_a_dropped_part_ends_the_transaction():
    run = Producer(transactional=True)
    run.sequences.added({TP})
    dropped = run.add(b"a")
    run.lose(run.one())
    dropped.willing = False
    run.add(b"b")
    assert run.sent() == []
    assert "may be stored" in run.sequences.broken


# ---- whatever happens -----------------------------------------------------------------------------------------------

Happens = st.sampled_from(
    ["answer", "lost before", "lost after", "refused", "timed out", "deposed", "forgets", "dropped", "deposed, dropped"]
)


@given(st.lists(st.tuples(Happens, st.integers(1, 4)), max_size=60), st.integers(0, 99))
def test_nothing_is_lost_or_stored_twice(script: list[tuple[str, int]], seed: int):
    """But for what is dropped, which is stored once or not at all, and for what a broker stored and then forgot."""
    run, ids, rng = Producer(), 100, random.Random(seed)
    texts: list[bytes] = []
    dropped: set[bytes] = set()
    happens = iter(script)
    for number, (_, count) in enumerate(script):
        text = b"%d" % number
        ticket = run.add(text, count)
        texts.append(text)
        for _ in range(20):
            if run.batches.head(TP) is None:
                break
            batches = run.sent()
            if not batches:
                ids += 1
                run.sequences.renew(ProducerId(ids, 0))
                continue
            batch, what = batches[0], next(happens, ("answer", 0))[0]
            if what in ("lost before", "lost after", "dropped"):
                if what == "lost after" or (what == "dropped" and rng.random() < 0.5):
                    run.store(batch)
                run.lose(batch)
                if what == "dropped":
                    ticket.willing = False
                    dropped.add(text)
                    run.batches.sweep()
            elif what == "refused":
                run.answer(batch, 6)
            elif what == "timed out":
                run.answer(batch, 7, run.store(batch)[1])
            elif what in ("deposed", "deposed, dropped"):
                run.answer(batch, 6, run.store(batch)[1])
                if what == "deposed, dropped":
                    ticket.willing = False
                    dropped.add(text)
                    run.batches.sweep()
            elif what == "forgets" and batch.pieces[0].seal.sent == 1:  # type: ignore[union-attr]
                run.logs[TP].forget()
                run.deliver(batch)
            else:
                run.deliver(batch)
    while run.batches:
        for batch in run.sent():
            run.deliver(batch)
        ids += 1
        run.sequences.renew(ProducerId(ids, 0))
    stored = run.logs[TP].stored
    assert len(stored) == len(set(stored))
    assert [text for text in stored if text not in dropped] == [text for text in texts if text not in dropped]
