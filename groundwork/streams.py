"""Standard output and standard error without a reader: a terminal that is gone, a closed pipe, a full disk.

What could not be written stays in the stream's buffer.  The interpreter's exit tries it once more, and ends the program
with 120 where that fails.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import IO, Any

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_stderr(data: bytes) -> None:
    """Write to standard error from a signal handler, or a thread that must go on.

    A terminal that is gone, or a pipe without a reader, takes nothing: what follows the line matters more.
    """
    with suppress(OSError):
        os.write(2, data)


def discard(stream: IO[Any]) -> None:
    """Drop what is still buffered: the reader is gone, or does not read and must not be waited for."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, number)
    os.close(nothing)
