"""Path of the control socket: where a mirror creates it, and where a command looks for it.  Pure, except for the
folder.

    mirror.control.socket       the given path, if set
    systemd                     $RUNTIME_DIRECTORY/NAME.sock: /run/mirrormaker/NAME/NAME.sock of mirrormaker@NAME
    otherwise                   $XDG_RUNTIME_DIR/mirrormaker/NAME.sock
    without both                mirrormaker-UID/NAME.sock in the folder for temporary files

NAME is the name of the configuration file without its suffix.  A second mirror of the same file (two may share a group)
uses NAME.sock.PID beside it.  The socket of another file never has such a name, so no command mistakes one mirror for
another.
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
    """Raised when the folder for the socket cannot be created, or others may write to it."""


def own_place(name: str, configured: str, environ: Mapping[str, str]) -> Path | None:
    """Return the path at which a mirror called NAME creates its socket, or None for no socket."""
    if configured:
        return None if configured == OFF else Path(configured)
    return _default_folder(environ) / f"{name}{SUFFIX}"


def _default_folder(environ: Mapping[str, str]) -> Path:
    runtime = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    return Path(runtime) if runtime else _own_folder(environ)


def _own_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's own folder for sockets, without systemd."""
    session = environ.get("XDG_RUNTIME_DIR", "")
    return Path(session) / "mirrormaker" if session else Path(tempfile.gettempdir()) / f"mirrormaker-{os.getuid()}"


def beside(path: Path, pid: int) -> Path:
    """Return the path for a mirror whose own path is taken."""
    return path.with_name(f"{path.name}.{pid}")


def make_folder(path: Path, environ: Mapping[str, str]) -> None:
    """Create the folder of a socket, for this user alone, if it is one of the default folders.  Raises NoFolder."""
    folder = path.parent
    try:
        if folder == _own_folder(environ):
            folder.mkdir(mode=0o700, exist_ok=True)
            check_folder(path, environ)
        elif not folder.is_dir():
            raise NoFolder(f"{folder} is not a folder")
    except NoFolder:
        raise
    except OSError as reason:
        raise NoFolder(f"{folder}: {reason.strerror}") from reason


def check_folder(path: Path, environ: Mapping[str, str]) -> None:
    """Raise NoFolder if the folder of a socket should belong to this user alone and does not.

    Mirror and command both check: any user may create a folder in the folder for temporary files.
    """
    folder = path.parent
    if folder != _own_folder(environ):
        return
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & OTHERS:
        raise NoFolder(
            f"{folder} does not belong to this user alone: remove it, or name another place with "
            "mirror.control.socket or --socket"
        )


def candidates(name: str, configured: str, environ: Mapping[str, str]) -> list[Path]:
    """Return the paths where the mirror of a file called NAME may listen, most likely first.  `configured`: the file's
    setting."""
    if configured and configured != OFF:
        places = [Path(configured)]
    else:
        folders = [_default_folder(environ), SYSTEMD / name, _own_folder(environ)]
        places = [folder / f"{name}{SUFFIX}" for folder in dict.fromkeys(folders)]
    return [place for first in places for place in (first, *_others_beside(first))]


def _others_beside(first: Path) -> list[Path]:
    """Return the sockets of further mirrors of the same file."""
    named = re.compile(rf"{re.escape(first.name)}\.[0-9]+")
    return sorted(path for path in _listed(first.parent) if named.fullmatch(path.name))


def all_sockets(environ: Mapping[str, str]) -> list[Path]:
    """Return the sockets of all mirrors at default paths that this user may see."""
    folders: Iterable[Path] = dict.fromkeys([_default_folder(environ), *_listed(SYSTEMD), _own_folder(environ)])
    return sorted({path for folder in folders for path in _listed(folder) if _SOCKET.fullmatch(path.name)})


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
