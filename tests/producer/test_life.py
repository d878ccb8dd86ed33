"""Signs of life of a link that is never answered: what they cover, and what is left when the link is over."""

from __future__ import annotations

from producer.barrier import Life


def test_a_sign_covers_what_was_written_before_it_was_asked_for():
    life = Life()
    life.wrote(5)
    assert life.wanted
    covers = life.ask()
    life.wrote(7)
    assert not life.wanted  # one at a time
    life.answered(covers)
    assert (life.unproved, life.wanted, life.proved) == (7, True, True)
    life.answered(life.ask())
    assert (life.unproved, life.wanted) == (0, False)


def test_what_has_no_sign_when_the_link_is_over_may_be_lost():
    life = Life()
    life.answered(life.ask())
    life.wrote(3)
    life.ask()
    life.wrote(4)
    assert life.lost() == 7
    assert (life.unproved, life.proved, life.fresh) == (0, False, True)


def test_a_new_link_is_asked_for_its_first_sign_once():
    life = Life()
    assert life.fresh
    life.ask()
    assert not life.fresh
    life.answered(0)
    assert not life.fresh
    assert life.lost() == 0
    assert life.fresh
