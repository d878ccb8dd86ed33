"""Comparison of two clusters' logs, message by message, as the JVM's DumpLogSegments reads them.

No decoder of this project is used: a decoder must not check itself.  A partition is compared as a multiset of
(key, value): messages that the source has more of are lost; those that the target has more of are duplicates when the
source has them at all, and phantoms when it does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Logged = tuple[int, str | None, str | None]  # offset, key and value as text


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of one partition; every number counts messages."""

    topic: str
    partition: int
    source: int
    target: int
    lost: int
    duplicates: int
    outside: int  # duplicates of messages that were committed before the mirror was killed: there must be none
    phantoms: int
    examples: tuple[str, ...]  # the first values that are lost, outside or phantoms


def compare(
    topic: str, partition: int, source: Sequence[Logged], target: Sequence[Logged], *, committed: int = 0
) -> Comparison:
    """Compare the logs of a partition in both clusters.

    committed: the group's committed offset when the mirror was killed; only messages from there on may be in the target
    twice.
    """
    offsets = {(key, value): offset for offset, key, value in source}
    wanted = Counter((key, value) for _offset, key, value in source)
    found = Counter((key, value) for _offset, key, value in target)
    lost, extra = wanted - found, found - wanted
    phantoms = Counter({message: n for message, n in extra.items() if message not in offsets})
    duplicates = extra - phantoms
    outside = Counter({message: n for message, n in duplicates.items() if offsets[message] < committed})
    examples = [str(value)[:60] for _key, value in [*lost, *outside, *phantoms]][:5]
    return Comparison(
        topic=topic,
        partition=partition,
        source=wanted.total(),
        target=found.total(),
        lost=lost.total(),
        duplicates=duplicates.total(),
        outside=outside.total(),
        phantoms=phantoms.total(),
        examples=tuple(examples),
    )
