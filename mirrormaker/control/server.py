"""Control server of a running mirror: JSON requests on a Unix socket, a line each.

    {"command": "pause", "arguments": {"what": "orders", "keep": true}}
    {"answer": ["source dc1: orders paused, kept over restarts"]}        or {"error": "no source has a topic order; …"}

`status` with every_s answers again and again until the client ends the connection.  Wrong requests are answered by an
error and end nothing.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from groundwork.lineserver import InUse, LineServer
from groundwork.tasks import TaskGroup
from mirrormaker.control.actions import ACTIONS, Refused, RunningMirror
from mirrormaker.control.place import beside, make_folder

log = logging.getLogger(__name__)


class ControlServer:
    """The server of one mirror."""

    def __init__(self, tasks: TaskGroup, mirror: RunningMirror) -> None:
        self._mirror = mirror
        self._lines = LineServer(tasks, self._answers, refusal=_error)

    def start(self, path: Path, environ: Mapping[str, str]) -> Path:
        """Listen at a path, or beside it where another mirror listens there; where it does.  Raises OSError."""
        make_folder(path, environ)
        try:
            self._lines.start(path)
        except InUse:
            other = beside(path, os.getpid())
            log.warning("control: another mirror listens at %s; this one does at %s", path, other)
            self._lines.start(other)
            return other
        return path

    def close(self) -> None:
        self._lines.close()

    def _answers(self, line: bytes) -> Iterator[bytes]:
        try:
            command, arguments = _request(line)
            for answer in ACTIONS[command](self._mirror, arguments):
                yield json.dumps({"answer": answer}, separators=(",", ":")).encode()
        except Refused as reason:
            yield _error(str(reason))


def _request(line: bytes) -> tuple[str, Mapping[str, Any]]:
    """The command and its arguments.  Raises Refused."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as reason:
        raise Refused(f"a request is one line of JSON: {reason}") from reason
    if not isinstance(found, dict) or not isinstance(found.get("arguments", {}), dict):
        raise Refused('a request is an object: {"command": "status", "arguments": {}}')
    command = found.get("command")
    if command not in ACTIONS:
        raise Refused(f"there is no command {command!r}: {', '.join(ACTIONS)}")
    return str(command), found.get("arguments", {})


def _error(sentence: str) -> bytes:
    return json.dumps({"error": sentence}).encode()
