"""Console scripts of the drop-in tools (dropin).  The program `zkconsumer`: zkconsumer/commands."""

from __future__ import annotations

import sys

from groundwork.signals import loading


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
