"""How long claims may be believed in."""

from __future__ import annotations

import pytest

from zkconsumer.session.lease import Lease, LeaseOver, margin_of


def test_no_beat_no_lease():
    with pytest.raises(LeaseOver, match="not yet been confirmed"):
        Lease().check(0.0)


def test_it_counts_from_when_the_beat_was_sent_not_from_its_answer():
    lease = Lease(margin_s=1.0)
    lease.beat_answered(100.0, 6.0)  # at 103, say
    assert lease.valid_until == 105.0
    lease.check(104.9)
    with pytest.raises(LeaseOver, match=r"lease over since 2\.0 s"):
        lease.check(107.0)


@pytest.mark.parametrize(
    ("part", "negotiated", "margin"),
    [(6, 6.0, 1.0), (6, 12.0, 2.0), (4, 6.0, 1.5), (4, 4.0, 1.0), (4, 2.0, 0.5), (6, 2.0, 0.5), (6, 0.4, 0.2)],
)
def test_the_margin_is_a_part_of_the_time_out_within_bounds(part, negotiated, margin):
    assert margin_of(negotiated, part) == pytest.approx(margin)
    lease = Lease(margin_part=part)
    lease.beat_answered(0.0, negotiated)
    assert lease.valid_until == pytest.approx(negotiated - margin)


def test_answers_out_of_order_never_shorten_it():
    lease = Lease(margin_s=1.0)
    lease.beat_answered(10.0, 6.0)
    lease.beat_answered(9.0, 6.0)
    assert lease.valid_until == 15.0


def test_a_revoked_lease_holds_again_with_the_next_beat_only():
    lease = Lease(margin_s=1.0)
    lease.beat_answered(10.0, 6.0)
    lease.revoke(12.0)
    with pytest.raises(LeaseOver, match="the ZooKeeper session is lost"):
        lease.check(12.0)
    lease.beat_answered(11.5, 6.0)  # of the session before
    with pytest.raises(LeaseOver):
        lease.check(12.0)
    lease.beat_answered(12.5, 6.0)
    lease.check(13.0)
