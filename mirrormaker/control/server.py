"""Control server of a running mirror: JSON requests on a Unix socket, a line each.

    {"command": "pause", "arguments": {"what": "orders", "keep": true}}
    {"answer": ["source dc1: orders paused, kept over restarts"]}        or {"error": "no source has a topic order; …"}

`status` with every_s answers again and again until the client ends the connection.  Wrong requests are answered by an
error and end nothing.
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

MIN_EVERY_S, MAX_EVERY_S = 0.2, 20.0  # of a stream of status; the client waits for 30 s
MOST_BESIDE = 64  # further mirrors of one file
PROFILE_S, PROFILE_MAX_S = 30, 600  # by default, and at most
Arguments = Mapping[str, Any]
Action = Callable[[Arguments], Iterator[Any]]  # its answers: values that JSON has.  Raises Refused


class Refused(Exception):
    """It is not done; the text is one sentence."""


def number(arguments: Arguments, name: str, *, least: float, most: float = math.inf) -> float | None:
    """An argument that is a number; None where it is not given.  Raises Refused."""
    value = arguments.get(name)
    if value is None:
        return None
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or not least <= value <= min(most, sys.float_info.max):  # JSON has 1e999, and numbers without end
        bound = f"at least {least:g}" + (f" and at most {most:g}" if most < math.inf else "")
        raise Refused(f"{name} is {value!r}: a number of {bound} is wanted")
    return float(value)


class ControlServer:
    """The server of one mirror: actions by the name of their command."""

    def __init__(self, tasks: TaskGroup, actions: Mapping[str, Action]) -> None:
        self._actions = actions
        self._lines = LineServer(tasks, self._answers, refusal=_error)

    def start(self, path: Path, environ: Mapping[str, str]) -> Path:
        """Listen at a path, or beside it where another mirror listens there; where it does.  Raises OSError."""
        make_folder(path, environ)
        # Mirrors in containers may share the folder and have the same process number: the next free one is taken.
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
    """The command and its arguments.  Raises Refused."""
    try:
        found = json_value(line)
    except ValueError as reason:
        raise Refused(f"a request is one line of JSON: {reason}") from reason
    if not isinstance(found, dict) or not isinstance(found.get("arguments", {}), dict):
        raise Refused('a request is an object: {"command": "status", "arguments": {}}')
    return str(found.get("command")), found.get("arguments", {})


def _error(sentence: str) -> bytes:
    return json.dumps({"error": sentence}).encode()
