"""Folders in which a mirror keeps state that a restart needs: offset maps, and limits set by an operator.

    offset.map.folder, state.folder    given in the configuration
    state.folder         for pauses and throttles that are kept over restarts
    $STATE_DIRECTORY                   set by systemd for StateDirectory=

A folder that cannot be written is found before the mirror joins any group: it exits with 73, and systemd does not
retry.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from mirrormaker.options import MirrorOptions

VARIABLE = "STATE_DIRECTORY"


class StateFolderUnwritable(Exception):
    """Raised when a folder cannot be written; the text is a sentence that names it."""


def state_folder(environ: Mapping[str, str]) -> str:
    """Return the folder from systemd, its first if there are several, or ""."""
    return environ.get(VARIABLE, "").partition(":")[0]


def folders(mirror: MirrorOptions, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the folders that this mirror will write, each with the name of its setting."""
    if mirror.map_folder and not mirror.map_topic:
        yield "offset.map.folder", Path(mirror.map_folder)
    if mirror.state_folder:
        yield "mirror.state.folder", Path(mirror.state_folder)
    if mirror.state_folder:
        yield "state.folder", Path(mirror.state_folder)
    if given := state_folder(environ):
        yield f"${VARIABLE}", Path(given)


def must_be_writable(name: str, folder: Path) -> None:
    """Write a file there and delete it.  Raises StateFolderUnwritable."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".mirrormaker-", suffix=".probe") as probe:
            probe.write(b"\n")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as exc:
        raise StateFolderUnwritable(
            f"{name}: folder {folder} cannot be written: {exc.strerror or exc}; it must exist, let this user "
            "write, and have room"
        ) from exc
