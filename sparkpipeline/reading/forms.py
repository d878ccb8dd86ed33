"""Which form of the decoder a task runs: pure Python until its process has read so much that loading the other pays.

Spark's workers serve one task after the other.  To load the compiled form (kafkawire.kernels) costs each of them about
0.6 s and 100 MB, to read 32 MB of small messages without it 0.1 s.  From then on it is loaded in a thread, and the pure
form runs until it is there; a task waits for it only where KAFKAWIRE_KERNELS=numba says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from kafkawire import kernels
from kafkawire.columns import Columns
from kafkawire.dialects import Dialect
from kafkawire.model import MessageSet

LOAD_AFTER_BYTES = 32 << 20


class _Process:
    """What this worker has read so far."""

    def __init__(self) -> None:
        self.bytes = 0

    def pieces(self, spoken: Dialect, message_set: MessageSet, check_crcs: bool, most_bytes: int) -> Iterator[Columns]:
        self.bytes += len(message_set.buffer)
        wanted = self.bytes > LOAD_AFTER_BYTES or os.environ.get("KAFKAWIRE_KERNELS") == "numba"
        form = kernels.compiled() if wanted else kernels.ready()
        return spoken.messages.pieces_by(form, message_set, check_crcs, most_bytes)


_PROCESS = _Process()


def pieces(spoken: Dialect, message_set: MessageSet, check_crcs: bool, most_bytes: int) -> Iterator[Columns]:
    """As MessageSet.pieces, of about most_bytes; spoken: to the brokers that it is of.

    Raises LibraryMissing, and LocalError for KAFKAWIRE_KERNELS."""
    return _PROCESS.pieces(spoken, message_set, check_crcs, most_bytes)
