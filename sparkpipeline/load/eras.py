"""Files from before a position was set back: the same offsets may mean other messages there.

A topic that was made anew begins at 0 again, and `load init --replace` takes the job there.  From then on the files of
before are nobody's to replace: a rewind that took their offsets for those of the log of today would throw their rows
away, and the log has them no more.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.model import PartitionId
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.load.facts import Standing
from sparkpipeline.load.plan import COMPACT
from sparkpipeline.paths import FinalName, Hour

Old = Callable[[str], bool]
Place = tuple[Hour, PartitionId]  # a compaction makes one file of each


def of_before(ledger: Ledger, standing: Standing) -> Old:
    """Says of a final path whether its rows were loaded before the position of its partition was last set back.

    A compacted file is as old as those it was made of, all of which are of one side.  Reads a manifest (and of
    compactions the plan) for each batch asked about."""
    heirs: dict[int, dict[Place, str]] = {}

    def old(final: str) -> bool:
        name = FinalName.of(final)
        if name is None or name.tp not in standing.set_back:
            return False
        if name.batch < standing.set_back[name.tp]:
            return True
        if name.batch not in heirs:
            heirs[name.batch] = _one_of_each(ledger, name.batch)
        before = heirs[name.batch].get((name.hour, name.partition))
        return before is not None and old(before)

    return old


def _one_of_each(ledger: Ledger, batch: int) -> dict[Place, str]:
    """Of a compaction: one of the files that each file was made of, by the hour and partition of both."""
    if ledger.manifest(batch).kind != COMPACT:
        return {}
    names = {path: FinalName.of(path) for path in ledger.plan(batch).supersedes}
    return {(name.hour, name.partition): path for path, name in names.items() if name is not None}
