"""How long claims may be believed in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groundwork import clocks
from groundwork.clocks import Moment
from tests.fakes.clocks import FakeClocks
from zkconsumer.session.lease import Lease, LeaseOver, margin_of


def test_no_beat_no_lease():
    with pytest.raises(LeaseOver, match="not yet been confirmed"):
        Lease().check(Moment(0.0))


def test_it_counts_from_when_the_beat_was_sent_not_from_its_answer():
    lease = Lease(margin_s=1.0)
    lease.beat_answered(Moment(100.0), 6.0)  # at 103, say
    assert lease.valid_until == 105.0
    lease.check(Moment(104.9))
    with pytest.raises(LeaseOver, match=r"lease over since 2\.0 s"):
        lease.check(Moment(107.0))


@pytest.mark.parametrize(
    ("part", "negotiated", "margin"),
    [(6, 6.0, 1.0), (6, 12.0, 2.0), (4, 6.0, 1.5), (4, 4.0, 1.0), (4, 2.0, 0.5), (6, 2.0, 0.5), (6, 0.4, 0.2)],
)
def test_the_margin_is_a_part_of_the_time_out_within_bounds(part, negotiated, margin):
    assert margin_of(negotiated, part) == pytest.approx(margin)
    lease = Lease(margin_part=part)
    lease.beat_answered(Moment(0.0), negotiated)
    assert lease.valid_until == pytest.approx(negotiated - margin)


def test_answers_out_of_order_never_shorten_it():
    lease = Lease(margin_s=1.0)
    lease.beat_answered(Moment(10.0), 6.0)
    lease.beat_answered(Moment(9.0), 6.0)
    assert lease.valid_until == 15.0


def test_a_revoked_lease_holds_again_with_the_next_beat_only():
    lease = Lease(margin_s=1.0)
    lease.beat_answered(Moment(10.0), 6.0)
    lease.revoke(12.0)
    with pytest.raises(LeaseOver, match="the ZooKeeper session is lost"):
        lease.check(Moment(12.0))
    lease.beat_answered(Moment(11.5), 6.0)  # of the session before
    with pytest.raises(LeaseOver):
        lease.check(Moment(12.0))
    lease.beat_answered(Moment(12.5), 6.0)
    lease.check(Moment(13.0))


JUMPS: dict[str, Callable[[FakeClocks], None]] = {
    "suspended": lambda machine: machine.suspend(2.0),
    "a paused VM, whose time of day is set": lambda machine: machine.set_ahead(2.0),
}


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_a_clock_that_jumped_ends_the_lease_until_a_beat_sent_after_it_is_answered(
    jump: Callable[[FakeClocks], None], monkeypatch: pytest.MonkeyPatch
):
    machine, lease = FakeClocks(monkeypatch, 100.0), Lease(margin_s=1.0)
    lease.beat_answered(clocks.moment(), 30.0)
    before = clocks.moment()
    jump(machine)
    machine.pass_s(0.01)
    assert not lease.holds(clocks.moment())
    with pytest.raises(LeaseOver, match=r"this machine was suspended, or is a VM that was paused.*ZooKeeper has not"):
        lease.check(clocks.moment())
    assert lease.valid_until > clocks.boot()
    assert lease.end_at_jump(clocks.moment()) == pytest.approx(2.0)
    assert lease.valid_until < clocks.boot() < lease.ends_at
    assert lease.end_at_jump(clocks.moment()) == 0.0  # once
    lease.beat_answered(before, 30.0)
    assert not lease.holds(clocks.moment())
    lease.beat_answered(clocks.moment(), 30.0)
    lease.check(clocks.moment())
    assert lease.valid_until == clocks.boot() + 29.0


def test_the_lease_counts_the_time_of_a_suspend(monkeypatch: pytest.MonkeyPatch):
    machine, lease = FakeClocks(monkeypatch, 100.0), Lease(margin_s=1.0)
    lease.beat_answered(clocks.moment(), 6.0)
    machine.suspend(20.0)
    with pytest.raises(LeaseOver, match=r"lease over since 15\.0 s"):
        lease.check(clocks.moment())


def test_a_jump_within_the_margin_and_a_clock_that_is_set_back_end_nothing(monkeypatch: pytest.MonkeyPatch):
    machine, lease = FakeClocks(monkeypatch, 100.0), Lease(margin_s=1.0)
    lease.beat_answered(clocks.moment(), 30.0)
    machine.suspend(0.9)
    lease.check(clocks.moment())
    machine.set_ahead(-3600.0)
    lease.check(clocks.moment())


def test_the_boot_clock_of_this_machine_is_never_behind_the_monotonic_one():
    moment = clocks.moment()
    assert moment.asleep >= -clocks.STILL_S
    assert clocks.moment().jump_s(moment) < 0.5
