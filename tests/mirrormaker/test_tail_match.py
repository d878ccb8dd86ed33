"""How far the target is, told from its tail: every cut, copies of batches, and what is none of ours."""

from __future__ import annotations

import random

import pytest

from mirrormaker.offsetmap.resume import Mismatch, TailMatch
from mirrormaker.offsetmap.tail import digest


def fed(tail: list[int], source: list[int], rng: random.Random) -> TailMatch:
    """The source given in sets of any size, until the tail is understood."""
    matching, at = TailMatch(tail), 0
    while not matching.done and at < len(source):
        some = source[at : at + rng.randint(1, 4)]
        there = matching.feed(some)
        at += there
        if there < len(some):
            break
    matching.end()
    return matching


def test_any_beginning_of_the_source_is_found_in_the_tail() -> None:
    rng = random.Random(1)
    for _ in range(500):
        source = [rng.randrange(4) for _ in range(rng.randrange(12))]  # many look the same
        count = rng.randint(0, len(source))
        found = fed(source[:count], source, rng)
        assert (found.matched, found.repeated) == (count, 0)


def test_copies_of_a_batch_are_stepped_over() -> None:
    rng = random.Random(2)
    for _ in range(500):
        source = list(range(rng.randint(1, 20)))
        tail: list[int] = []
        at = copies = 0
        while at < len(source) and rng.random() < 0.9:
            batch = source[at : at + rng.randint(1, 5)]
            times = rng.choice((1, 1, 2, 3))
            tail += batch * times
            copies += len(batch) * (times - 1)
            at += len(batch)
        found = fed(tail, source, rng)
        assert (found.matched, found.repeated) == (at, copies)


@pytest.mark.parametrize("tail", [[9], [1, 9], [1, 2, 9], [2, 1], [1, 2, 1, 3], [1, 2, 3, 4, 5]])
def test_what_is_not_the_sources_is_a_mismatch(tail: list[int]) -> None:
    with pytest.raises(Mismatch):
        fed(tail, [1, 2, 3, 4], random.Random(3))


def test_messages_that_look_alike_are_told_apart_by_key_value_and_null() -> None:
    alike = [(None, b"a"), (b"", b"a"), (b"a", b""), (b"a", None), (None, None), (b"", b""), (b"a", b"a"), (b"aa", b"")]
    assert len({digest(*each) for each in alike}) == len(alike)


def test_the_tail_as_a_reader_gives_it_has_copies_too() -> None:
    match = TailMatch((1, 2, 1, 2, 3))
    assert match.feed([1, 2, 3, 4]) == 3
    assert (match.done, match.repeated) == (True, 2)
