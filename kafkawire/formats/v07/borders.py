"""Search for the next entry in bytes of a 0.7 log that begin inside an entry or in a damaged one.

In a 0.7 log only the length of each entry leads to the next.  If a length is lost, the next entry is found by its
checksum: bytes count as an entry if their length, magic and codec are valid, the checksum of their payload is right,
and the same holds for the bytes after them (or the bytes end there).  Entries inside a payload may still be found by
mistake: in a message that is itself a 0.7 set, or in a wrapper whose bytes could not be compressed.
"""

from __future__ import annotations

import re
import zlib

from kafkawire.formats.v07.layout import CODEC, ENTRY_OVERHEAD, HEAD, HEADS, LOG_OVERHEAD, MAGIC_0, MAGIC_1, nonsense
from kafkawire.primitives import Bytes

LARGEST = (1 << 25) - 1  # larger entries are not searched for
CHECKED_BYTES = 256 << 20  # limit on checksummed payload bytes per search: a quarter of a second
_CANDIDATE = re.compile(rb"(?=[\x00\x01]...(?:\x00|\x01[\x00-\x02]))(?!\x00\x00\x00[\x00-\x04])", re.DOTALL)


def next_border(data: Bytes, start: int = 0) -> int | None:
    """Return the first byte at or after start where an entry begins; None if none is certain."""
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
    """Return whether an entry begins at `at`, and how many bytes were checked for it.

    That takes one entry with a payload and no invalid bytes after it, or two entries.
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
    """Return the end of the entry by its header; None if its header is invalid."""
    if len(view) - at < HEAD.size:
        return None
    length, magic, attributes = HEAD.unpack_from(view, at)
    if length > LARGEST or nonsense(at, length, magic, 0) is not None:
        return None
    if magic and (attributes & ~CODEC or attributes & CODEC == CODEC):
        return None
    return at + LOG_OVERHEAD + int(length)
