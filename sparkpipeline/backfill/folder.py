"""Folder of a backfill: state that outlives a crash.

    plan.json                       the plan: created once
    runs/NNNN.json                  a driver began to copy: the next one waits until none of its requests can still
                                    arrive
    done/LLLLL-CCCCCC.json          chunk C of lane L is copied and acknowledged
    handed-over.json                the group's offsets are written

Every file is created exclusively and never changed.
"""

from __future__ import annotations

import json

from groundwork.decimals import decimal_int
from groundwork.failpoints import failpoint
from sparkpipeline.backfill.backfillplan import BackfillPlan, Done
from sparkpipeline.errors import Refused
from sparkpipeline.ledger.files import Files
from sparkpipeline.ledger.manifests import utc


class BackfillFolder:
    """Folder of a backfill. folder: as open_files takes it."""

    def __init__(self, files: Files, folder: str) -> None:
        self.folder = folder.rstrip("/")
        self._files = files

    def plan(self) -> BackfillPlan | None:
        """Return the plan; None if there is none.  Raises LedgerDamaged."""
        path = f"{self.folder}/plan.json"
        return BackfillPlan.of(self._files.read(path).decode(), path) if self._files.exists(path) else None

    def put_plan(self, plan: BackfillPlan) -> None:
        """Write the plan.  Raises Refused if another run was quicker."""
        failpoint("backfill before plan")
        if not self._files.create(f"{self.folder}/plan.json", plan.text().encode()):
            raise Refused("another run has just planned a backfill in this folder", folder=self.folder)
        failpoint("backfill after plan")

    def begin_run(self, who: str, now_ms: int) -> int:
        """Record that copying begins, and return how many runs began before.  Raises Refused when another run begins at
        the same time."""
        before = len(self._files.list(f"{self.folder}/runs"))
        row = {"who": who, "began": utc(now_ms), "began_ms": now_ms}
        if not self._files.create(f"{self.folder}/runs/{before + 1:04}.json", f"{json.dumps(row)}\n".encode()):
            raise Refused("another run of this backfill begins at this moment", folder=self.folder)
        return before

    def began(self) -> bool:
        """True if any run has begun to copy."""
        return bool(self._files.list(f"{self.folder}/runs"))

    def put_done(self, done: Done) -> None:
        """Write a chunk's mark.  Raises Refused if it has one: another driver is at work."""
        if not self._files.create(self._mark(done.lane, done.chunk), done.text().encode()):
            raise Refused(
                f"chunk {done.chunk} of lane {done.lane} was marked by another run: only one may be at work",
                folder=self.folder,
            )

    def last_done(self) -> dict[int, Done]:
        """Return the newest mark of each lane.  Raises LedgerDamaged."""
        newest: dict[int, int] = {}
        for entry in self._files.list(f"{self.folder}/done"):
            lane, chunk = map(decimal_int, entry.name.removesuffix(".json").partition("-")[::2])
            if lane is not None and chunk is not None:
                newest[lane] = max(chunk, newest.get(lane, -1))
        paths = {lane: self._mark(lane, chunk) for lane, chunk in newest.items()}
        return {lane: Done.of(self._files.read(path).decode(), path) for lane, path in paths.items()}

    def handed_over(self) -> str | None:
        """Return when the group was handed over; None: not yet."""
        path = f"{self.folder}/handed-over.json"
        if not self._files.exists(path):
            return None
        return str(json.loads(self._files.read(path))["at"])

    def put_handed_over(self, group: str, positions: int, now_ms: int) -> None:
        row = {"group": group, "positions": positions, "at": utc(now_ms), "at_ms": now_ms}
        self._files.create(f"{self.folder}/handed-over.json", f"{json.dumps(row)}\n".encode())

    def _mark(self, lane: int, chunk: int) -> str:
        return f"{self.folder}/done/{lane:05}-{chunk:06}.json"
