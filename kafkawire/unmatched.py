"""Matching of two logs message by message, by fingerprints: finds the messages without a partner.  Pure.

    MISSING      the source has more of such messages than the target
    DUPLICATED   the target has more of them, and the source has some
    FOREIGN      the target has them, and the source has none

Of equal messages the last ones have no partner; the first ones if the target lost the beginning of its log.  A source
message may be optional: it can be the partner of a target message, and is never missing.

numpy does it where it is installed; pure Python with the same results where it is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from kafkawire.fingerprints import HAS_NUMPY

Side = Literal["source", "target"]
SOURCE: Side = "source"
TARGET: Side = "target"


class Unmatched(NamedTuple):
    """Rows without a partner, as ascending indexes: of the source's rows the missing ones, else of the target's."""

    missing: Any  # lists, or arrays of numpy
    duplicated: Any
    foreign: Any


def unmatched(
    source: Any, target: Any, optional: Sequence[int] = (), *, first: bool = False, vector: bool = HAS_NUMPY
) -> Unmatched:
    """Match the fingerprints of two logs, each in its own order.  optional: fingerprints of optional source messages.

    first: of equal messages the first ones are missing.
    """
    if vector:
        return _vector(source, target, optional, first)
    required, there = Counter(source), Counter(target)
    known = required + Counter(optional)
    extra = _taken(target, there - known, first=False)
    return Unmatched(
        _taken(source, required - there, first=first),
        [n for n in extra if target[n] in known],
        [n for n in extra if target[n] not in known],
    )


def _taken(hashes: Sequence[int], counts: Counter[int], *, first: bool) -> list[int]:
    """Return indexes of counts[h] rows with each fingerprint h: its first rows, or its last ones."""
    left, taken = Counter(counts), []
    rows = range(len(hashes))
    for n in (rows if first else reversed(rows)) if left else ():
        if left[hashes[n]] > 0:
            left[hashes[n]] -= 1
            taken.append(n)
    return taken if first else taken[::-1]


def _vector(source: Any, target: Any, optional: Sequence[int], first: bool) -> Unmatched:
    import numpy as np

    columns = [np.asarray(each, np.uint64) for each in (source, optional, target)]
    unique, which = np.unique(np.concatenate(columns), return_inverse=True)
    mine, free, yours = np.split(which, (len(columns[0]), len(columns[0]) + len(columns[1])))
    s, o, t = (np.bincount(each, minlength=len(unique)) for each in (mine, free, yours))
    extra = _vector_taken(yours, t, t - s - o, first=False)
    known = (s + o)[yours[extra]] > 0
    return Unmatched(_vector_taken(mine, s, s - t, first=first), extra[known], extra[~known])


def _vector_taken(which: Any, there: Any, odd: Any, *, first: bool) -> Any:
    """Return what _taken() does.  which: number of each row's fingerprint; there: rows of each; odd: those to take."""
    import numpy as np

    rows = np.flatnonzero(odd[which] > 0)
    numbers = which[rows]
    whole = odd[numbers] >= there[numbers]
    some = rows[~whole]
    left: dict[int, int] = {}
    taken: list[int] = []
    for row in some if first else some[::-1]:
        number = which[row]
        more = left.setdefault(number, odd[number])
        if more > 0:
            left[number] = more - 1
            taken.append(row)
    return np.sort(np.concatenate((rows[whole], np.array(taken, rows.dtype))))
