"""Client of a mirror's control socket: plain blocking calls, for commands."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from groundwork.folders import open_to_all
from groundwork.jsontext import json_value
from groundwork.lineserver import PathTooLong, check_path
from mirrormaker.control.place import NoFolder, check_folder

ANSWER_S = 60.0  # a release may take half of it
_CREDENTIALS = struct.Struct("iII")  # of SO_PEERCRED: pid, uid, gid


class NoMirror(Exception):
    """No mirror answers.  forbidden: a socket is there that this user may not open, or should not believe."""

    def __init__(self, sentence: str, forbidden: bool = False) -> None:
        super().__init__(sentence)
        self.forbidden = forbidden


class Refused(Exception):
    """The mirror does not do it; the text says why."""


class NotBelieved(OSError):
    """Another user may have made the socket, in place of a mirror."""


class Connection:
    """A connection to a mirror for one request."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, and NotBelieved for a listener that may be anybody's."""
        check_path(path)
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(ANSWER_S)
            self._socket.connect(os.fspath(path))
            _check_peer(path, self._socket)
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


def _check_peer(path: Path, connected: socket.socket) -> None:
    """Raise NotBelieved if a user who is neither root nor ours listens, and every user could have made the socket."""
    uid, shared = peer_uid(connected), open_to_all(path.parent)
    if shared is not None and uid not in (0, os.getuid()):
        raise NotBelieved(
            f"{path}: user {uid} listens there, and all may write to {shared}: whoever it is, the answers would be his."
            "  Run the command as the mirror's user, or give mirror.control.socket a place that others may not write to"
        )


def peer_uid(connected: socket.socket) -> int:
    """Return the user who listens at the other end, as the kernel has it."""
    _, uid, _ = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


def _answer(line: bytes) -> Any:
    """What the mirror answered.  Raises Refused; ValueError for what no mirror answers."""
    found = json_value(line)
    if not isinstance(found, dict) or not found.keys() & {"answer", "error"}:
        raise ValueError("it is no answer of a mirror")
    if "error" in found:
        raise Refused(str(found["error"]))
    return found["answer"]


def connect(places: Sequence[Path], named: bool = False) -> Connection:
    """A connection to the first place where a mirror listens.  Raises NoMirror, which names what was tried.

    named: the operator gave the path, so that its folder may be another user's"""
    forbidden: list[Path] = []
    doubted: list[str] = []
    for place in places:
        try:
            if not named:
                check_folder(place, os.environ)
            return Connection(place)
        except (NoFolder, NotBelieved) as reason:
            doubted.append(str(reason))
        except PathTooLong as reason:
            raise NoMirror(str(reason)) from reason
        except OSError as reason:
            if reason.errno in (errno.EACCES, errno.EPERM):
                forbidden.append(place)
    if doubted:
        raise NoMirror(doubted[0], True)
    if forbidden:
        raise NoMirror(
            f"{forbidden[0]} may not be opened by this user: run the command as the mirror's user, or as root", True
        )
    tried = ", ".join(map(str, places))
    raise NoMirror(
        f"no mirror answers at {tried}: is it running, and does it run as this user?  Its log says where it listens; "
        "--socket names another place"
    )
