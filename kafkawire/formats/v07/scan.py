"""Which entries of a fetched set are complete, and how they may travel: by hopping over their lengths, opening nothing.

An entry has no offset of its own: its position in the log is that of the set and the bytes before it.
"""

from __future__ import annotations

import struct

from kafkawire.errors import CorruptMessage
from kafkawire.formats.v07.layout import CODEC, ENTRY_OVERHEAD, LEAST, LENGTH, LOG_OVERHEAD, MAGIC_0, MAGIC_1, nonsense
from kafkawire.formats.v07.uniform import hop as hop_alike
from kafkawire.kernels import ready
from kafkawire.model import Run
from kafkawire.model import Scan as Scan
from kafkawire.primitives import Bytes

_START = struct.Struct(">iH")  # length, magic and attributes in one
_SMALLEST = ENTRY_OVERHEAD[MAGIC_0]
_LEAST = LEAST[MAGIC_1]
_WORTH = 4096  # bytes: for less a call of the quicker loops costs more than it saves
AGAIN = 8 * _WORTH  # bytes until the next try where it saved nothing


def scan(buffer: Bytes, start: int) -> Scan:
    """Find the complete entries of a set whose first byte has position start, without opening or checking any of them.

    A cut last entry is no damage.  One whose first bytes make no sense is, cut or not: who fetches from a position
    inside an entry reads such bytes, and must not be told to fetch two gigabytes.
    """
    unpack, total, overhead = _START.unpack_from, len(buffer), LOG_OVERHEAD
    at = begin = entries = plain = again = 0
    usual = -1  # magic and attributes of the entry before, where the next one may be taken by them
    runs: list[Run] = []
    damage = None
    while at + _SMALLEST <= total:
        length, kind = unpack(buffer, at)
        end = at + overhead + length
        if kind == usual and length >= _LEAST and end <= total and at < again:
            entries += 1
            at = end
            continue
        damage = nonsense(at, length, kind >> 8, start)
        if damage is not None or end > total:
            break
        codec, form = (kind & CODEC, MAGIC_1) if kind >> 8 else (0, MAGIC_0)
        if entries and (codec or form != plain):
            runs.append(Run(begin, at, 0, plain, entries, start + at))
            begin, entries = at, 0
        if codec:
            runs.append(Run(at, end, codec, form, 1, start + end))
            begin, usual = end, -1
        else:
            plain, entries, usual = form, entries + 1, kind if form == MAGIC_1 else -1
        at = end
        if entries and at >= again:
            at, more = hop(buffer, at, plain, total) if total - at > _WORTH else (at, 0)
            entries, again = entries + more, at if more else at + AGAIN
    else:
        damage = _short_tail(buffer, at, start)
    if entries:
        runs.append(Run(begin, at, 0, plain, entries, start + at))
    needed = 0 if runs or damage else _needed(buffer)
    return Scan(at, start + at, tuple(runs), needed, damage)


def hop(buffer: Bytes, at: int, magic: int, limit: int) -> tuple[int, int]:
    """Past complete plain entries of one format begun before `limit`, by the quicker form there is, which need not take
    any: (where they end, how many)."""
    quick = ready()
    return hop_alike(buffer, at, magic, limit) if quick is None else quick.hop07(buffer, at, magic, limit)


def _short_tail(buffer: Bytes, at: int, start: int) -> CorruptMessage | None:
    """What is wrong with a tail too short for the smallest entry."""
    left = len(buffer) - at
    if left < LOG_OVERHEAD:
        return None
    (length,) = LENGTH.unpack_from(buffer, at)
    return nonsense(at, length, buffer[at + LOG_OVERHEAD] if left > LOG_OVERHEAD else 0, start)


def _needed(buffer: Bytes) -> int:
    """Bytes of the first entry; where not even its length came, enough for that."""
    if len(buffer) < LOG_OVERHEAD:
        return _SMALLEST if len(buffer) else 0
    return LOG_OVERHEAD + int(LENGTH.unpack_from(buffer)[0])
