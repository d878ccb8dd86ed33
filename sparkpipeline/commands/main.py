"""The console script `sparkpipeline`: answers ctrl-C from its first moment on, then loads and runs the commands."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from groundwork.openfiles import fill_standard_files
from groundwork.signals import ignore_at_exit
from groundwork.streams import write_stderr

INTERRUPTED = 130


def main() -> None:
    """Run this process's command line and exit with its code."""
    fill_standard_files()
    ignore_at_exit()
    signal.signal(signal.SIGINT, interrupted)
    from sparkpipeline.commands.cli import outcome

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(outcome(sys.argv[1:]))


def interrupted(number: int, frame: FrameType | None) -> None:
    """Ctrl-C while nothing is open that needs to be closed: one sentence, and the end."""
    write_stderr(b"sparkpipeline: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
