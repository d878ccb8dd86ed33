"""Sender on the fake cluster: what the target refuses, as too large, as damaged, or again and again."""

from __future__ import annotations

import pytest

from kafkawire.errors import BrokerError, CorruptMessage
from kafkawire.model import Part
from producer.errors import TooLarge
from tests.fakes.broker import Fail, FakeCluster, entry, gzipped
from tests.producer.running import OTHER, TP, WAIT_S, part, running


def test_a_message_larger_than_the_target_takes_ends_its_part_after_what_precedes_it():
    with FakeCluster({"t": 2}, message_max_bytes=500) as cluster, running(cluster) as run:
        values = [b"%d" % n for n in range(20)]
        values[13] = b"x" * 1000
        ticket, neighbour = run.sent(part(*values), part(b"n", tp=OTHER))
        assert cluster.values("t", 0) == values[:13]
        assert neighbour.told == [("done",)]
        *reached, (what, reason, position) = ticket.told
        assert [kind for kind, _ in reached] == ["reached"] * len(reached)
        positions = [at for _, at in reached]
        assert positions == sorted(positions)
        assert positions[-1] == position == 113
        assert (what, type(reason)) == ("failed", TooLarge)
        for named in ("t/0 on broker 1 (127.0.0.1:", "1026 bytes", "source offset 113", "message.max.bytes"):
            assert named in str(reason)


def test_a_wrapper_that_is_too_large_goes_in_halves():
    values = [b"%d" % n + bytes(range(256)) * 2 for n in range(16)]
    with FakeCluster({"t": 1}, message_max_bytes=400) as cluster, running(cluster) as run:
        whole = gzipped(*(entry(value, offset=n) for n, value in enumerate(values)))
        assert len(whole) > 400
        (ticket,) = run.sent(Part(TP, whole, 0, 1, 16, 16))
        assert cluster.values("t", 0) == values
        assert ticket.told[-1] == ("done",)
        assert all(kind == "reached" for kind, *_ in ticket.told[:-1])
        assert len(cluster.seen("produce")) > 2


def test_parts_that_are_too_large_only_together_go_apart():
    small = bytes(range(256))
    with FakeCluster({"t": 1}, message_max_bytes=600) as cluster, running(cluster, message_max_bytes=2000) as run:
        wrappers = [gzipped(entry(small)) for _ in range(4)]
        tickets = run.sent(*(Part(TP, wrapper, 0, 1, 1, None) for wrapper in wrappers))
        assert cluster.values("t", 0) == [small] * 4
        assert all(ticket.told == [("done",)] for ticket in tickets)


def test_damage_of_our_own_ends_its_part_after_what_precedes_it():
    good = part(b"a", b"b")
    bad = bytearray(entry(b"damaged", offset=102))
    bad[-1] ^= 1
    broken = Part(TP, bytes(good.entries) + bytes(bad) + entry(b"after", offset=103), 0, 0, 4, 104)
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        before, ticket = run.sent(part(b"before", first=99), broken)
        assert cluster.values("t", 0) == [b"before", b"a", b"b"]
        assert before.told == [("done",)]
        reached, (what, reason, position) = ticket.told
        assert reached == ("reached", 102)  # what precedes the damage is stored, and may be committed
        assert (what, position) == ("failed", 102)
        assert isinstance(reason, CorruptMessage)
        assert reason.offset == 102
        assert "t/0 on broker 1" in str(reason)


def test_damage_on_the_way_is_sent_again():
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        cluster.script("produce", Fail(2))
        (ticket,) = run.sent(part(b"a"))
        assert (cluster.values("t", 0), ticket.told) == ([b"a"], [("done",)])


@pytest.mark.parametrize("code", [-1, 2, 17, 29])
def test_a_refusal_that_would_be_repeated_ends_after_a_few_tries(code: int):
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        cluster.script("produce", *[Fail(code)] * 5)
        ticket, after = run.submit(part(b"a"), part(b"b", tp=TP, first=101))
        assert run.sender.flush(WAIT_S)
        assert cluster.seen("produce")[0].body["sets"].keys() == {("t", 0)}
        ((what, reason, _),) = ticket.told
        assert what == "failed"
        assert isinstance(reason, BrokerError)
        assert reason.code == code
        assert after.told == [("done",)]


def test_an_answer_without_error_and_without_offset_stored_nothing():
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        cut = entry(b"value")[:-1]
        (ticket,) = run.sent(Part(TP, cut, 0, 0, 1, 1))
        ((what, reason, _),) = ticket.told
        assert what == "failed"
        assert "stored nothing" in str(reason)
        assert "t/0 on broker 1" in str(reason)


def test_bounded_retries_end_with_the_last_reason():
    with FakeCluster({"t": 1}) as cluster, running(cluster, retries=2) as run:
        cluster.script("produce", *[Fail(7)] * 3)
        (ticket,) = run.sent(part(b"a"))
        assert len(cluster.seen("produce")) == 3
        assert "t/0 on broker 1" in str(ticket.told[0][1])
        assert "RequestTimedOut (7)" in str(ticket.told[0][1])
