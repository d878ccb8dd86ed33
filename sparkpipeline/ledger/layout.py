"""Where a ledger keeps what, below its base folder.  Pure.

    data/…                              final files
    _load/plans/00000017.json           exactly what batch 17 does, before anything is read
    _load/staging/00000017-2/           what attempt 2 at it writes
    _load/staging/00000017-2.claim      whose attempt that is: made first, so that no two drivers share a folder
    _load/staging/00000017-2.seal       it goes to its commit now, or was given up: never both (attempts.py)
    _load/commits/00000017.json         manifest: the commit
    _load/done/00000017.json            published
    _load/trash/00000017/data/…         what batch 17 superseded, until the retention time
    _load/snapshots/00000100.json       the sum of batches 1 to 100, and .files.gz with the live files (snapshots.py)

The underscore keeps Spark, Hive and pyarrow out of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LOG = "_load"
_NUMBER = re.compile(r"(\d{8,})\.json")
_ATTEMPT = re.compile(r"(\d{8,})-(\d+)(\.claim|\.seal)?")


@dataclass(frozen=True, slots=True)
class Layout:
    """base: a URI or path without a slash at its end."""

    base: str

    def final(self, path: str) -> str:
        """The full path of a final file."""
        return f"{self.base}/{path}"

    def folder(self, name: str) -> str:
        """plans, staging, commits, done, trash or snapshots."""
        return f"{self.base}/{LOG}/{name}"

    def plan(self, batch: int) -> str:
        return f"{self.folder('plans')}/{batch:08}.json"

    def commit(self, batch: int) -> str:
        return f"{self.folder('commits')}/{batch:08}.json"

    def done(self, batch: int) -> str:
        return f"{self.folder('done')}/{batch:08}.json"

    def staging(self, batch: int, attempt: int) -> str:
        return f"{self.folder('staging')}/{batch:08}-{attempt}"

    def claim(self, batch: int, attempt: int) -> str:
        return f"{self.staging(batch, attempt)}.claim"

    def seal(self, batch: int, attempt: int) -> str:
        return f"{self.staging(batch, attempt)}.seal"

    def trash(self, batch: int) -> str:
        return f"{self.folder('trash')}/{batch:08}"

    def snapshot(self, through: int) -> str:
        return f"{self.folder('snapshots')}/{through:08}.json"

    def snapshot_files(self, through: int) -> str:
        return f"{self.folder('snapshots')}/{through:08}.files.gz"


def batch_of(name: str) -> int | None:
    """The batch of a file name in plans, commits, done or snapshots; None for a name that is none of ours."""
    found = _NUMBER.fullmatch(name)
    return None if found is None else int(found[1])


def attempt_of(name: str) -> tuple[int, int] | None:
    """Batch and attempt of a name in staging; None for a name that is none of ours."""
    found = _ATTEMPT.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))
