"""Two clusters' logs held against each other, message by message, as the JVM's own DumpLogSegments reads them.

Nothing of ours decodes a message here: a decoder must not be its own judge.  A partition is compared as a multiset of
(key, value): what the source has more of is lost; what the target has more of is a duplicate when the source has it at
all, and a phantom when it does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Logged = tuple[int, str | None, str | None]  # offset, key and value as text


@dataclass(frozen=True, slots=True)
class Comparison:
    """One partition of both clusters; every figure counts messages."""

    topic: str
    partition: int
    source: int
    target: int
    lost: int
    duplicates: int
    outside: int  # duplicates of messages that were committed when the mirror was killed: nothing may repeat those
    phantoms: int
    examples: tuple[str, ...]  # the first values that are lost, outside or phantoms


def compare(
    topic: str, partition: int, source: Sequence[Logged], target: Sequence[Logged], committed: int = 0
) -> Comparison:
    """Hold the two logs of a partition against each other.

    committed is the group's position when the mirror was killed: only messages from there on may stand in the target
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
