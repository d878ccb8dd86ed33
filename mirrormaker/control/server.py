"""Control server of a running mirror: JSON requests on a Unix socket, one per line.

    {"command": "pause", "arguments": {"what": "orders", "keep": true}}
    {"answer": ["source dc1: orders paused, kept over restarts"]}        or {"error": "no source has a topic order; …"}

`status` with every_s sends responses until the client closes the connection.  A wrong request gets an error, and the
server keeps running.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from groundwork.jsontext import json_value
from groundwork.lineserver import InUse, LineServer
from groundwork.tasks import TaskGroup
from mirrormaker.control.place import beside, make_folder

log = logging.getLogger(__name__)

MIN_EVERY_S, MAX_EVERY_S = 0.2, 20.0  # interval of a status stream; the client waits for 30 s
MOST_BESIDE = 64  # further mirrors of the same file
PROFILE_S, PROFILE_MAX_S = 30, 600  # default and maximum
Arguments = Mapping[str, Any]
Action = Callable[[Arguments], Iterator[Any]]  # yields responses as JSON values.  Raises Refused


class Refused(Exception):
    """Raised when an action is refused; the text is one sentence."""


def number(arguments: Arguments, name: str, *, least: float, most: float = math.inf) -> float | None:
    """Return an argument that is a number, or None if it is not given.  Raises Refused."""
    value = arguments.get(name)
    if value is None:
        return None
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or not least <= value <= min(most, sys.float_info.max):  # JSON allows 1e999 and infinities
        bound = f"at least {least:g}" + (f" and at most {most:g}" if most < math.inf else "")
        raise Refused(f"{name} is {value!r}: it must be a number of {bound}")
    return float(value)


class ControlServer:
    """Control server of one mirror: actions by command name."""

    def __init__(self, tasks: TaskGroup, actions: Mapping[str, Action]) -> None:
        self._actions = actions
        self._lines = LineServer(tasks, self._answers, refusal=_error)

    def start(self, path: Path, environ: Mapping[str, str]) -> Path:
        """Listen at a path, or beside it if another mirror listens there, and return the path.  Raises OSError."""
        make_folder(path, environ)
        # Mirrors in containers may share the folder and have the same process id: use the next free path.
        for place in (path, *(beside(path, os.getpid() + n) for n in range(MOST_BESIDE))):
            try:
                self._lines.start(place)
            except InUse:
                continue
            if place != path:
                log.warning("control: another mirror listens at %s; this one does at %s", path, place)
            return place
        raise InUse(f"{MOST_BESIDE + 1} mirrors listen there")

    def close(self) -> None:
        self._lines.close()

    def _answers(self, line: bytes) -> Iterator[bytes]:
        try:
            command, arguments = _request(line)
            if command not in self._actions:
                raise Refused(f"there is no command {command!r}: {', '.join(self._actions)}")
            for answer in self._actions[command](arguments):
                yield json.dumps({"answer": answer}, separators=(",", ":")).encode()
        except Refused as reason:
            yield _error(str(reason))


def _request(line: bytes) -> tuple[str, Mapping[str, Any]]:
    """Return the command and its arguments.  Raises Refused."""
    try:
        found = json_value(line)
    except ValueError as reason:
        raise Refused(f"a request is one line of JSON: {reason}") from reason
    if not isinstance(found, dict) or not isinstance(found.get("arguments", {}), dict):
        raise Refused('a request is an object: {"command": "status", "arguments": {}}')
    return str(found.get("command")), found.get("arguments", {})


def _error(sentence: str) -> bytes:
    return json.dumps({"error": sentence}).encode()
