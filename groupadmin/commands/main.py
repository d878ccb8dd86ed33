"""Console scripts: they handle ctrl-C from the start, then load and run the commands (cli, dropin).

Loading takes a good part of a second; ctrl-C during it would print a traceback of some import.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from groundwork.openfiles import fill_standard_files
from groundwork.signals import ignore_at_exit
from groundwork.streams import write_stderr

INTERRUPTED = 130


def main() -> None:
    """`zkconsumer`: run this process's command line and exit with its code."""
    with loading():
        from groundwork.logs import drain_log
        from groupadmin.commands.cli import cli, outcome
        from kafkawire import kernels

        for name in sys.argv[1:2]:
            cli.imported(name)
    code = outcome(sys.argv[1:])
    drain_log()
    kernels.leave(code)


def consumer_groups() -> None:
    """`zk-consumer-groups`."""
    with loading():
        from groupadmin.commands import dropin
    sys.exit(dropin.outcome(dropin.consumer_groups, sys.argv[1:]))


def offset_export() -> None:
    """`zk-offset-export`."""
    with loading():
        from groupadmin.commands import dropin
    sys.exit(dropin.outcome(dropin.offset_export, sys.argv[1:]))


def offset_import() -> None:
    """`zk-offset-import`."""
    with loading():
        from groupadmin.commands import dropin
    sys.exit(dropin.outcome(dropin.offset_import, sys.argv[1:]))


def offset_checker() -> None:
    """`zk-offset-checker`."""
    with loading():
        from groupadmin.commands import dropin
    sys.exit(dropin.outcome(dropin.offset_checker, sys.argv[1:]))


@contextmanager
def loading() -> Iterator[None]:
    """Ctrl-C ends the process at once in the block; after it, commands release what they hold."""
    fill_standard_files()
    ignore_at_exit()
    signal.signal(signal.SIGINT, interrupted)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted(number: int, frame: FrameType | None) -> None:
    """Ctrl-C while nothing has to be released: print one word and end."""
    write_stderr(b"interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
