"""Place of the control socket: where a mirror makes it, and where a command looks for it.  Pure, but for the folder.

    mirror.control.socket       as it says, where it is given
    systemd                     $RUNTIME_DIRECTORY/NAME.sock: /run/mirrormaker/NAME/NAME.sock of mirrormaker@NAME
    otherwise                   $XDG_RUNTIME_DIR/mirrormaker/NAME.sock
    without that, too           mirrormaker-UID/NAME.sock in the folder for temporary files, UID: of the user

NAME is the name of the configuration file without its suffix.  A second mirror of the same file (two may share a group)
takes NAME.sock.PID beside it: no file's own socket has such a name, so no command takes another mirror for it.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from groundwork.folders import OTHERS

OFF = "none"
SYSTEMD = Path("/run/mirrormaker")  # RuntimeDirectory=mirrormaker/%i
SUFFIX = ".sock"
_SOCKET = re.compile(rf".+{re.escape(SUFFIX)}(\.[0-9]+)?")


class NoFolder(OSError):
    """The folder for the socket cannot be made, or others may write to it."""


def own_place(name: str, configured: str, environ: Mapping[str, str]) -> Path | None:
    """Where a mirror called NAME makes its socket; None: nowhere."""
    if configured:
        return None if configured == OFF else Path(configured)
    return _default_folder(environ) / f"{name}{SUFFIX}"


def _default_folder(environ: Mapping[str, str]) -> Path:
    runtime = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    return Path(runtime) if runtime else _own_folder(environ)


def _own_folder(environ: Mapping[str, str]) -> Path:
    """The folder of a user without systemd's."""
    session = environ.get("XDG_RUNTIME_DIR", "")
    return Path(session) / "mirrormaker" if session else Path(tempfile.gettempdir()) / f"mirrormaker-{os.getuid()}"


def beside(path: Path, pid: int) -> Path:
    """The place of a mirror that finds its own taken."""
    return path.with_name(f"{path.name}.{pid}")


def make_folder(path: Path, environ: Mapping[str, str]) -> None:
    """Make the folder of a socket, for this user alone, where it is one of ours.  Raises NoFolder."""
    folder = path.parent
    try:
        if folder == _own_folder(environ):
            folder.mkdir(mode=0o700, exist_ok=True)
            check_folder(path, environ)
        elif not folder.is_dir():
            raise NoFolder(f"{folder} is no folder")
    except NoFolder:
        raise
    except OSError as reason:
        raise NoFolder(f"{folder}: {reason.strerror}") from reason


def check_folder(path: Path, environ: Mapping[str, str]) -> None:
    """Raise NoFolder for the folder of a socket that is to be this user's alone, and is not.

    Mirror and command check it alike: in the folder for temporary files whoever is first may make it."""
    folder = path.parent
    if folder != _own_folder(environ):
        return
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & OTHERS:
        raise NoFolder(
            f"{folder} is no folder of this user alone: remove it, or name another place with mirror.control.socket or"
            " --socket"
        )


def candidates(name: str, configured: str, environ: Mapping[str, str]) -> list[Path]:
    """Where the mirror of a file called NAME may listen, most likely first; configured: what the file says."""
    if configured and configured != OFF:
        places = [Path(configured)]
    else:
        folders = [_default_folder(environ), SYSTEMD / name, _own_folder(environ)]
        places = [folder / f"{name}{SUFFIX}" for folder in dict.fromkeys(folders)]
    return [place for first in places for place in (first, *_others_beside(first))]


def _others_beside(first: Path) -> list[Path]:
    """Sockets of further mirrors of the same file."""
    named = re.compile(rf"{re.escape(first.name)}\.[0-9]+")
    return sorted(path for path in _listed(first.parent) if named.fullmatch(path.name))


def all_sockets(environ: Mapping[str, str]) -> list[Path]:
    """The sockets of all mirrors that have theirs at a default place, and that this user may see."""
    folders: Iterable[Path] = dict.fromkeys([_default_folder(environ), *_listed(SYSTEMD), _own_folder(environ)])
    return sorted({path for folder in folders for path in _listed(folder) if _SOCKET.fullmatch(path.name)})


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
