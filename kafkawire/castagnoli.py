"""CRC-32C (Castagnoli), the checksum of record batches.  The package crc32c computes it, and is loaded when first
needed: what reads only formats v0 and v1, as a task of Spark may, works without it.
"""

from __future__ import annotations

from kafkawire.errors import LibraryMissing
from kafkawire.primitives import Bytes


def crc32c(data: Bytes, so_far: int = 0) -> int:
    """The checksum of some bytes, continued from that of those before them.  Raises LibraryMissing."""
    try:
        from crc32c import crc32c as compute  # found in sys.modules from the second time on
    except ImportError:
        raise LibraryMissing(
            "record batches need the package crc32c, which is not installed here; no zip can bring its machine code"
        ) from None
    return int(compute(data, so_far))
