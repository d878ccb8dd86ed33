"""The console script `mirrormaker`, which answers signals from its first moment on."""

from __future__ import annotations

import sys

from groundwork.signals import load_quietly
from mirrormaker import signals


def main() -> None:
    """Run this process's command line and exit with its code."""
    load_quietly(signals.ending())  # until `run` takes the signals over, before it connects to anything
    if sys.argv[1:2] == ["run"]:
        signals.load()
    from groundwork.logs import drain_log
    from kafkawire import kernels
    from mirrormaker.commands.cli import outcome

    code = outcome(sys.argv[1:])
    drain_log()
    kernels.leave(code)


if __name__ == "__main__":
    main()
