"""Console scripts of the drop-in tools (dropin).  The program `zkconsumer`: zkconsumer/commands."""

from __future__ import annotations

import sys
from collections.abc import Callable

from groundwork.signals import loading


def _script(name: str) -> Callable[[], None]:
    def run() -> None:
        with loading():
            from groupadmin.commands import dropin
        sys.exit(dropin.outcome(getattr(dropin, name), sys.argv[1:]))

    return run


consumer_groups = _script("consumer_groups")  # zk-consumer-groups
offset_export = _script("offset_export")  # zk-offset-export
offset_import = _script("offset_import")  # zk-offset-import
offset_checker = _script("offset_checker")  # zk-offset-checker
