"""Client of a mirror's control socket: plain blocking calls, for commands."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from groundwork.jsontext import json_value
from groundwork.lineserver import PathTooLong, check_path

ANSWER_S = 60.0  # a release may take half of it


class NoMirror(Exception):
    """No mirror answers.  forbidden: a socket is there that this user may not open."""

    def __init__(self, sentence: str, forbidden: bool = False) -> None:
        super().__init__(sentence)
        self.forbidden = forbidden


class Refused(Exception):
    """The mirror does not do it; the text says why."""


class Connection:
    """A connection to a mirror for one request."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        check_path(path)
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(ANSWER_S)
            self._socket.connect(os.fspath(path))
        except BaseException:
            self._socket.close()
            raise

    def answers(self, command: str, arguments: dict[str, Any]) -> Iterator[Any]:
        """The answers to a request: one, or more and more of a stream.  Raises Refused, NoMirror."""
        try:
            request = json.dumps({"command": command, "arguments": arguments})
            with suppress(BrokenPipeError):  # it refused already, and says why
                self._socket.sendall(request.encode() + b"\n")
            with self._socket.makefile("rb") as lines:
                came = False
                for line in lines:
                    came = True
                    yield _answer(line)
        except TimeoutError as silent:
            raise NoMirror(
                f"the mirror at {self.path} does not answer for {ANSWER_S:g} s; its log may say why"
            ) from silent
        except (OSError, ValueError) as lost:
            raise NoMirror(f"the mirror at {self.path} ended the connection: {lost}") from lost
        finally:
            self._socket.close()
        if not came:
            raise NoMirror(f"the mirror at {self.path} ended without an answer")


def _answer(line: bytes) -> Any:
    """What the mirror answered.  Raises Refused; ValueError for what no mirror answers."""
    found = json_value(line)
    if not isinstance(found, dict) or not found.keys() & {"answer", "error"}:
        raise ValueError("it is no answer of a mirror")
    if "error" in found:
        raise Refused(str(found["error"]))
    return found["answer"]


def connect(places: Sequence[Path]) -> Connection:
    """A connection to the first place where a mirror listens.  Raises NoMirror, which names what was tried."""
    forbidden: list[Path] = []
    for place in places:
        try:
            return Connection(place)
        except PathTooLong as reason:
            raise NoMirror(str(reason)) from reason
        except OSError as reason:
            if reason.errno in (errno.EACCES, errno.EPERM):
                forbidden.append(place)
    if forbidden:
        raise NoMirror(
            f"{forbidden[0]} may not be opened by this user: run the command as the mirror's user, or as root", True
        )
    tried = ", ".join(map(str, places))
    raise NoMirror(
        f"no mirror answers at {tried}: is it running, and does it run as this user?  Its log says where it listens; "
        "--socket names another place"
    )
