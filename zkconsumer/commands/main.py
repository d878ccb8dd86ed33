"""The console script `zkconsumer`."""

from __future__ import annotations

import sys

from groundwork.signals import loading


def main() -> None:
    """Run this process's command line and exit with its code."""
    with loading():
        from groundwork.logs import drain_log
        from kafkawire import kernels
        from zkconsumer.commands.cli import cli, outcome

        for name in sys.argv[1:2]:
            cli.imported(name)
    code = outcome(sys.argv[1:])
    drain_log()
    kernels.leave(code)


if __name__ == "__main__":
    main()
