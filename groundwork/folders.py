"""Checks of who else may put files into a folder whose files are run, or trusted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

OTHERS = stat.S_IWGRP | stat.S_IWOTH
THROUGH = stat.S_IXGRP | stat.S_IXOTH


def open_to_all(folder: Path) -> Path | None:
    """Return the folder, or the nearest one above it, in which every user may make files; None if there is none.

    Raises OSError."""
    real = folder.resolve(strict=True)
    return next((each for each in (real, *real.parents) if os.stat(each).st_mode & stat.S_IWOTH), None)


def other_writer(folder: Path) -> str | None:
    """Return who, other than this user and root, may put files into a folder or replace it; None if no one may.

    A folder with the sticky bit may be open to all above it, such as /tmp: what is ours there stays ours.  Below a
    folder that no other user may enter, such as a home of 0700, modes do not matter.
    Links in the path are followed: give it resolved where it is used.  Raises OSError."""
    real = folder.resolve(strict=True)
    writer = None
    for each in (real, *real.parents):
        found, name = os.stat(each), "it" if each == real else str(each)
        if found.st_uid not in (0, os.getuid()):
            return f"{name} belongs to another user"
        if each != real and not found.st_mode & THROUGH:
            writer = None
        if writer is None and found.st_mode & OTHERS and (each == real or not found.st_mode & stat.S_ISVTX):
            writer = f"{'anybody' if found.st_mode & stat.S_IWOTH else 'a group'} may write to {name}"
    return writer
