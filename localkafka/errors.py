"""Error class of this package; its text says what is missing, and the remedy."""

from __future__ import annotations

from collections import deque
from pathlib import Path


class LocalKafkaError(Exception):
    """A cluster cannot be started or used: java, mvn, a port or a version is missing, or a process has ended."""


def last_lines(log: Path, count: int = 12) -> str:
    """Return the last lines of a log, indented, for an error; a sentence instead if there is no log."""
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            tail = deque((line.rstrip() for line in lines if line.strip()), maxlen=count)
    except FileNotFoundError:
        return "    (it wrote no log)"
    return "\n".join(f"    {line}" for line in tail) or "    (it wrote nothing)"
