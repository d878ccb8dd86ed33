"""CRC-32C (Castagnoli), the checksum of record batches.  The package crc32c computes it, and is loaded when it is first
needed: programs that read only formats v0 and v1, such as some Spark tasks, work without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from kafkawire.errors import LibraryMissing
from kafkawire.primitives import Bytes


def crc32c(data: Bytes, so_far: int = 0) -> int:
    """Return the checksum of some bytes, continued from the checksum of the bytes before them.  Raises
    LibraryMissing."""
    return _loaded()(data, so_far)


@cache  # even for a loaded module an import statement costs a microsecond
def _loaded() -> Callable[[Bytes, int], int]:
    try:
        from crc32c import crc32c as compute
    except ImportError:
        raise LibraryMissing(
            "record batches need the package crc32c, which is not installed here; a zip cannot bring its machine code"
        ) from None
    return compute
