"""Work folders in the temporary folder, removed by their owner or, when it was killed, at the next start.

    localkafka-XXXX/.owner    pid of the process that uses it and holds a lock on it until it ends

A folder without .owner, or whose .owner names no process, is never swept: it was kept, or belongs to another program.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from groundwork.decimals import decimal_int

PREFIX = "localkafka-"


class WorkFolder:
    """A work folder of this process.  path: an existing folder to own; None: a new one in the temporary folder."""

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            sweep()
            path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.path = path
        draft = path / ".owner.draft"
        self._lock = os.open(draft, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.write(self._lock, b"%d\n" % os.getpid())
        draft.rename(path / ".owner")  # locked before a sweep can find it

    def close(self, keep: bool = False) -> None:
        """Give up ownership and remove it; with keep only if it is empty.  A second call does nothing."""
        if self._lock < 0:
            return
        owner = self.path / ".owner"
        if keep and any(path != owner for path in self.path.iterdir()):
            owner.unlink()
        else:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1


def sweep() -> None:
    """Remove the folders of killed processes of this user."""
    for owner in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/.owner"):
        try:
            with owner.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if decimal_int(lock.read().strip()) is not None:
                    shutil.rmtree(owner.parent, ignore_errors=True)
        except OSError:
            continue  # in use, another user's, or swept by another process
