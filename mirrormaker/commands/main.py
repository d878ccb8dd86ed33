"""The console script `mirrormaker`: answers signals from its first moment on, then loads and runs the commands (cli).

Loading takes a good part of a second; a ctrl-C in it would end in the traceback of some import.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from groundwork.openfiles import fill_standard_files
from groundwork.signals import ignore_at_exit
from groundwork.streams import write_stderr
from mirrormaker import signals

INTERRUPTED = 130


def main() -> None:
    """Run this process's command line and exit with its code."""
    fill_standard_files()
    ignore_at_exit(signals.ending())
    signal.signal(signal.SIGINT, interrupted)  # until `run` takes the signals over, before it connects to anything
    if sys.argv[1:2] == ["run"]:
        signals.load()
    from groundwork.logs import drain_log
    from kafkawire import kernels
    from mirrormaker.commands.cli import outcome

    code = outcome(sys.argv[1:])
    drain_log()
    kernels.leave(code)


def interrupted(number: int, frame: FrameType | None) -> None:
    """Ctrl-C before any resource is held: one sentence, and the end."""
    write_stderr(b"mirrormaker: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
