"""Reads the files of a configuration while a mirror runs.  mirrormaker.config interprets them.

A running mirror may read its files while they are being written: cp and some editors write a file in place, so a reader
may see half of it.  Several files (--consumer.config, --producer.config) may be replaced one after the other, or all
between two reads, as a ConfigMap does it.  read_settled() reads again until nothing has changed meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from groundwork.options import OptionError

SETTLED_S = 1.0  # a file changed more recently than this may be only half written
WRITING_S = 10.0  # longest wait for the files to settle
STEP_S = 0.1
T = TypeVar("T")


def read_settled(files: Sequence[Path], read: Callable[[], T], sleep: Callable[[float], object]) -> T:
    """Return the result of read() once none of the files changed during the read or within SETTLED_S before it.

    Raises OptionError if the files do not settle within WRITING_S, and anything that read() raises.
    """
    stamps, since = _stamps(files), time.monotonic()
    until = since + WRITING_S
    young = any(stamp is not None and time.time() - stamp[0] / 1e9 < SETTLED_S for stamp in stamps)
    while True:
        if young and time.monotonic() - since < SETTLED_S:
            sleep(STEP_S)
        else:
            try:
                found = read()
            except Exception:
                if _stamps(files) == stamps:
                    raise
            else:
                if _stamps(files) == stamps:
                    return found
        if (now := _stamps(files)) != stamps:
            stamps, since, young = now, time.monotonic(), True
        if time.monotonic() > until:
            names = ", ".join(str(path) for path in files)
            raise OptionError([f"{names}: changed again and again for {WRITING_S:g} s; reload once it is written"])


def _stamps(files: Sequence[Path]) -> list[tuple[int, ...] | None]:
    """Return for each file its modification time in ns, size and identity, or None if it cannot be read."""
    return [_stamp(path) for path in files]


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_dev, found.st_ino
