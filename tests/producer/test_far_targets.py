"""Targets behind a long link: codecs share a set, partitions are shared out among requests, and the order stays."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.formats.v01 import messages as codec
from kafkawire.model import Part, TopicPartition
from producer.batches import SHARED_BYTES, Batches, Limits
from producer.connection import FAR_S
from tests.fakes.broker import Close, Fail, FakeCluster, Wait
from tests.fakes.tickets import Ticket
from tests.producer.running import WAIT_S, Running, part, running, until

T0, T1, T2, T3 = (TopicPartition("t", n) for n in range(4))


def anybody(_: TopicPartition) -> bool:
    return True


def sets_of(limits: Limits, parts: list[Part], far: bool) -> list[list[Part]]:
    """All sets of one partition, in the order they are sent."""
    batches, sets = Batches(limits), []
    for each in parts:
        batches.add(each, Ticket(), 0.0)
    while batches:
        (batch,) = batches.due(0.0, anybody, far=far)
        sets.append([piece.part for piece in batch.pieces])
        batches.complete(batch)
    assert (batches.bytes_pending, batches.bytes_in_flight) == (0, 0)
    return sets


def entries(codecs: list[int], size: int = 10, magic: int = 0) -> list[Part]:
    return [Part(T0, bytes([n]) * size, magic, each, 1) for n, each in enumerate(codecs)]


def test_a_far_target_gets_plain_and_compressed_entries_as_one_set():
    parts = entries([0, 1, 1, 0, 2])
    assert sets_of(Limits(), parts, far=True) == [parts]
    assert sets_of(Limits(), parts, far=False) == [parts[:1], parts[1:3], parts[3:4], parts[4:]]


def test_a_target_that_takes_one_wrapper_a_set_gets_no_other_entry_beside_it():
    parts = entries([0, 0, 1, 0])
    assert sets_of(Limits(one_wrapper_per_set=True), parts, far=True) == [parts[:2], parts[2:3], parts[3:]]


def test_formats_never_share_a_set_and_codecs_do_in_v0_alone():
    parts = [*entries([0, 1]), *entries([0, 1, 1], magic=1), *entries([0, 1], magic=2)]
    sets = sets_of(Limits(), parts, far=True)
    assert sets == [parts[:2], parts[2:3], parts[3:5], parts[5:6], parts[6:]]


CODECS = st.lists(st.tuples(st.sampled_from([0, 0, 1, 2]), st.integers(1, 60)), min_size=1, max_size=40)


@given(CODECS, st.booleans())
def test_sets_of_a_far_target_against_a_slow_twin(drawn: list[tuple[int, int]], measures: bool):
    limits = Limits(batch_bytes=100, max_message_bytes=120, measures_whole_set=measures)
    parts = [Part(T0, bytes([n]) * size, 0, codec, 1) for n, (codec, size) in enumerate(drawn)]

    def largest(together: list[Part]) -> float:
        kinds = {each.codec for each in together}
        if kinds == {0}:
            return min(100, 120 * 0.95) if measures else 100
        return 120 * (0.8 if len(kinds - {0}) == 1 else 0.4)

    expected: list[list[Part]] = []
    for each in parts:
        longer = [*expected[-1], each] if expected else []
        # What was taken may not be too large for the codecs it has either, as it grows.
        if longer and sum(len(one.entries) for one in longer) <= int(largest(longer)):
            expected[-1] = longer
        else:
            expected.append([each])
    assert sets_of(limits, parts, far=True) == expected


def test_a_far_target_gets_half_of_what_waits_in_a_request_so_that_another_is_sent_meanwhile():
    for far, requests in ((False, [4]), (True, [2, 1, 1])):
        batches = Batches(Limits(batch_bytes=SHARED_BYTES))
        for tp in (T0, T1, T2, T3):
            batches.add(Part(tp, bytes(SHARED_BYTES), 0, 0, 1), Ticket(), 0.0)
        assert [len(batches.due(0.0, anybody, far=far)) for _ in requests] == requests
    few = Batches(Limits())
    for tp in (T0, T1, T2, T3):
        few.add(Part(tp, bytes(100), 0, 0, 1), Ticket(), 0.0)
    assert len(few.due(0.0, anybody, far=True)) == 4


def wrapped(values: list[bytes], tp: TopicPartition, kind: int) -> Part:
    rows = [(n, None, value, None) for n, value in enumerate(values)]
    return Part(tp, codec.encode(rows, kind), 0, kind, len(values), 100)


def far_away(run: Running, cluster: FakeCluster) -> None:
    """Let the sender learn that its broker is far."""
    cluster.script("produce", Wait(seconds=2 * FAR_S))
    run.sent(part(b"-1"))


@pytest.mark.parametrize("seed", range(4))
def test_order_and_messages_stay_with_requests_in_flight_that_fail(seed: int):
    dice = random.Random(seed)
    with FakeCluster({"t": 4}) as cluster, running(cluster, batch_bytes=2048, request_bytes=4096) as run:
        far_away(run, cluster)
        troubles = [Fail(6, ("t", 0)), Fail(7, ("t", 1)), Fail(19), Close(), Fail(5, ("t", 2)), None, None]
        cluster.script("produce", *(dice.choice([*troubles, Wait(seconds=FAR_S)]) for _ in range(40)))
        sent: dict[int, list[bytes]] = {n: [] for n in range(4)}
        tickets = []
        for number in range(240):
            tp = TopicPartition("t", dice.randrange(4))
            values = [b"%d.%d" % (number, n) + b"." * 50 for n in range(dice.randrange(1, 6))]
            sent[tp.partition] += values  # type: ignore[index]
            tickets += run.submit(wrapped(values, tp, dice.choice([0, 0, 1])))
        assert run.sender.flush(WAIT_S), run.events
        sent[0].insert(0, b"-1")
        assert {n: cluster.values("t", n) for n in range(4)} == sent
        assert all(ticket.told[-1] == ("done",) for ticket in tickets)
        assert run.sender.counters.retries > 0


def test_requests_in_flight_never_share_a_partition():
    with FakeCluster({"t": 4}) as cluster, running(cluster, batch_bytes=1024) as run:
        far_away(run, cluster)
        before = len(cluster.seen("produce"))
        cluster.script("produce", *[Wait(seconds=2 * FAR_S)] * 4)
        run.submit(*(part(b"%d" % n * 900, tp=TopicPartition("t", n % 4)) for n in range(8)))
        until(lambda: run.sender.in_flight)
        link_of = run.sender._connections[1, 0]
        flying = [batch.tp for sent in link_of._in_flight for batch in sent.batches]
        assert len(flying) == len(set(flying))
        assert run.sender.flush(WAIT_S)
        for n in range(4):
            assert cluster.values("t", n)[-2:] == [b"%d" % n * 900, b"%d" % (n + 4) * 900]
        assert len(cluster.seen("produce")) > before


def test_a_near_target_gets_each_codec_in_a_request_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("producer.connection.FAR_S", 60.0)  # however busy the machine is
    values = [[b"a", b"b"], [b"c"], [b"d"]]
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        run.sent(part(b"0"))
        assert not run.sender._connections[1, 0]._far
        run.sent(*(wrapped(each, T0, kind) for each, kind in zip(values, (0, 1, 0), strict=True)))
        assert len(cluster.seen("produce")) == 4
        run.sender._connections[1, 0]._round_trip_s = 60.0
        run.sent(*(wrapped(each, T0, kind) for each, kind in zip(values, (0, 1, 0), strict=True)))
        assert len(cluster.seen("produce")) == 5
        assert cluster.values("t", 0) == [b"0", *[value for each in values for value in each] * 2]
