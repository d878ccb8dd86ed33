"""Output of commands: handles a pipe without a reader, a full pipe, and a full disk."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections.abc import Callable
from typing import IO, Any, BinaryIO

from groundwork.output import EXIT, print_note
from groundwork.streams import DISK_FULL, discard


def printing(run: Callable[[], int]) -> int:
    """Return the exit code of run() once all its output is written.  A full disk gives one sentence."""
    try:
        code = run()
        close(sys.stdout)  # otherwise the interpreter's exit would complain
        return code
    except OSError as e:
        if e.errno not in (*DISK_FULL, errno.EIO):
            raise
        discard(sys.stdout)
        print_note(f"error: the output cannot be written: {e.strerror}")
        return EXIT["runtime"]


def has_no_reader(to: BinaryIO) -> bool:
    """True if the other end of our pipe is closed; a write would show it, but there may be nothing to write for
    hours."""
    try:
        poll = select.poll()
        poll.register(to.fileno(), 0)
        return any(what & (select.POLLERR | select.POLLHUP) for _, what in poll.poll(0))
    except (OSError, ValueError):  # not a file, as in a test
        return False


def close(to: IO[Any]) -> None:
    """Flush; discard output that cannot be written, or the interpreter's exit would try again and complain."""
    try:
        to.flush()
    except BrokenPipeError:
        discard(to)


def leave(to: IO[Any]) -> None:
    """End after a signal: a file gets its last whole line; a pipe, which may be full, is not waited for."""
    try:
        if stat.S_ISREG(os.fstat(to.fileno()).st_mode):
            to.flush()
    except (OSError, ValueError):
        pass  # not a file, as in a test, or a full disk
    discard(to)
