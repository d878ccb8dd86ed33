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

ANSWER_S = 60.0  # a release may take up to half of this
_CREDENTIALS = struct.Struct("iII")  # of SO_PEERCRED: pid, uid, gid


class NoMirror(Exception):
    """Raised when no mirror answers.  `forbidden` is set if this user may not open the socket, or should not
    trust it."""

    def __init__(self, sentence: str, forbidden: bool = False) -> None:
        super().__init__(sentence)
        self.forbidden = forbidden


class Refused(Exception):
    """Raised when the mirror refuses a command; the text gives the reason."""


class NotBelieved(OSError):
    """Raised when another user may have created the socket in place of a mirror."""


class Connection:
    """A connection to a mirror for one request."""

    def __init__(self, path: Path) -> None:
        """Connect.  Raises OSError, and NotBelieved if any user could have created the listener."""
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
        """Yield the responses to a request: one, or a stream of them.  Raises Refused and NoMirror."""
        try:
            request = json.dumps({"command": command, "arguments": arguments})
            with suppress(BrokenPipeError):  # the server refused already, and its response says why
                self._socket.sendall(request.encode() + b"\n")
            with self._socket.makefile("rb") as lines:
                came = False
                for line in lines:
                    came = True
                    yield _answer(line)
        except TimeoutError as silent:
            raise NoMirror(
                f"the mirror at {self.path} did not answer within {ANSWER_S:g} s; its log may say why"
            ) from silent
        except (OSError, ValueError) as lost:
            raise NoMirror(f"the mirror at {self.path} ended the connection: {lost}") from lost
        finally:
            self._socket.close()
        if not came:
            raise NoMirror(f"the mirror at {self.path} ended without an answer")


def _check_peer(path: Path, connected: socket.socket) -> None:
    """Raise NotBelieved if the listener's user is neither root nor ours, and any user could have created the socket."""
    uid, shared = peer_uid(connected), open_to_all(path.parent)
    if shared is not None and uid not in (0, os.getuid()):
        raise NotBelieved(
            f"{path}: user {uid} listens there, and all users may write to {shared}: the answers may be false."
            "  Run the command as the mirror's user, or give mirror.control.socket a place that others may not write to"
        )


def peer_uid(connected: socket.socket) -> int:
    """Return the uid of the process at the other end, as the kernel reports it."""
    _, uid, _ = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


def _answer(line: bytes) -> Any:
    """Return the response of the mirror.  Raises Refused, and ValueError for a line that is not a mirror's response."""
    found = json_value(line)
    if not isinstance(found, dict) or not found.keys() & {"answer", "error"}:
        raise ValueError("it is not a mirror's answer")
    if "error" in found:
        raise Refused(str(found["error"]))
    return found["answer"]


def connect(places: Sequence[Path], named: bool = False) -> Connection:
    """Connect to the first path where a mirror listens.  Raises NoMirror, which names the paths that were tried.

    named: the operator gave the path, so its folder may belong to another user.
    """
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
