"""Where the next entry begins in bytes of a 0.7 log that begin inside one, or in a damaged one.

Nothing in a log of 0.7 says where its entries begin but the lengths that lead from one to the next.  Where such a
length is lost, the entry that follows is found by its checksum: bytes are taken for one when their length, magic and
codec make sense, their payload has the checksum they say, and so has what follows them (or the bytes end there).  What
is taken for an entry all the same is one inside a payload that holds entries as they are: a message that is itself a
set of 0.7, or a wrapper whose bytes could not be compressed.
"""

from __future__ import annotations

import re
import zlib

from kafkawire.formats.v07.layout import CODEC, ENTRY_OVERHEAD, HEAD, HEADS, LOG_OVERHEAD, MAGIC_0, MAGIC_1, nonsense
from kafkawire.primitives import Bytes

LARGEST = (1 << 25) - 1  # an entry of 32 MB or more is not looked for
CHECKED_BYTES = 256 << 20  # of payloads, before the search is given up: a quarter of a second
_CANDIDATE = re.compile(rb"(?=[\x00\x01]...(?:\x00|\x01[\x00-\x02]))(?!\x00\x00\x00[\x00-\x04])", re.DOTALL)


def next_border(data: Bytes, start: int = 0) -> int | None:
    """The first byte from start on where an entry begins; None: none is certain."""
    view, left = memoryview(data), CHECKED_BYTES
    for found in _CANDIDATE.finditer(view, start):
        at = found.start()
        believed, checked = _believed(view, at)
        if believed:
            return at
        left -= checked
        if left < 0:
            return None
    return None


def _believed(view: memoryview, at: int) -> tuple[bool, int]:
    """Whether an entry begins there, and how many bytes had to be checked for it.

    One entry whose payload is not empty, and nothing senseless behind it; or two.
    """
    checked = proofs = 0
    while proofs < 2:
        end = _end(view, at)
        if end is None:
            return False, checked
        if end > len(view):
            return proofs > 0, checked
        form = MAGIC_1 if view[at + LOG_OVERHEAD] else MAGIC_0
        payload = view[at + ENTRY_OVERHEAD[form] : end]
        checked += len(payload)
        if zlib.crc32(payload) != HEADS[form].unpack_from(view, at)[1]:
            return False, checked
        proofs += len(payload) > 0
        at = end
        if len(view) - at < HEAD.size:
            return proofs > 0, checked
    return True, checked


def _end(view: memoryview, at: int) -> int | None:
    """Where the entry ends as its head says; None: its head makes no sense."""
    if len(view) - at < HEAD.size:
        return None
    length, magic, attributes = HEAD.unpack_from(view, at)
    if length > LARGEST or nonsense(at, length, magic, 0) is not None:
        return None
    if magic and (attributes & ~CODEC or attributes & CODEC == CODEC):
        return None
    return at + LOG_OVERHEAD + int(length)
