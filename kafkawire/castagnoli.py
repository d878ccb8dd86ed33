"""CRC-32C (Castagnoli), the checksum of record batches.  The package crc32c computes it, and is loaded when first
needed: what reads only formats v0 and v1, as a task of Spark may, works without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from kafkawire.errors import LibraryMissing
from kafkawire.primitives import Bytes


def crc32c(data: Bytes, so_far: int = 0) -> int:
    """The checksum of some bytes, continued from that of those before them.  Raises LibraryMissing."""
    return _loaded()(data, so_far)


@cache  # an import statement that finds what is loaded already costs a microsecond
def _loaded() -> Callable[[Bytes, int], int]:
    try:
        from crc32c import crc32c as compute
    except ImportError:
        raise LibraryMissing(
            "record batches need the package crc32c, which is not installed here; no zip can bring its machine code"
        ) from None
    return compute
