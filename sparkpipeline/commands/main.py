"""The console script `sparkpipeline`."""

from __future__ import annotations

import sys

from groundwork.signals import loading


def main() -> None:
    """Run this process's command line and exit with its code."""
    with loading():
        from sparkpipeline.commands.cli import outcome
    sys.exit(outcome(sys.argv[1:]))


if __name__ == "__main__":
    main()
