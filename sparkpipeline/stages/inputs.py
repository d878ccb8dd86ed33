"""The inputs of a stage: ledgers of loads and of other stages, as far as they are published.  Reads, never writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkpipeline.errors import Missing
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.model import LiveFile, Manifest
from sparkpipeline.paths import folders
from sparkpipeline.stages.consuming import Batch


class NotYet(Exception):
    """An input that cannot be read now; the text says why.  No failure: the stage waits."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Up to where an input may be read.  newest: its last batch; identity: of that batch's manifest; schema: as the
    batch's facts tell it, None where they do not (loads)."""

    newest: int
    identity: str
    schema: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Upstream:
    """One input.  kind: graph.LOAD or graph.STAGE; topics: of a load, only files of these; all when empty."""

    name: str
    kind: str
    ledger: Ledger
    topics: frozenset[str] = frozenset()

    def standing(self) -> Standing:
        """Raises NotYet while there is no batch, or one whose files are still on their way."""
        state = self.ledger.state()
        if state.unpublished:
            raise NotYet(f"batch {state.unpublished[0].batch} of {self.name} is committed, and not published yet")
        if state.newest is None:
            raise NotYet(f"{self.name} has no batch yet")
        return Standing(state.newest.batch, identity(state.newest), state.newest.facts.get("schema"))

    def batches(self, since: int, until: int) -> list[Batch]:
        """Those with since < number <= until."""
        found: list[Batch] = []
        for manifest in self.ledger.manifests(since):
            if manifest.batch > until:
                break
            files = tuple(file.final for file in manifest.files if self._wants(file.final))
            gone = tuple(path for path in manifest.supersedes if self._wants(path))
            found.append(Batch(manifest.batch, manifest.kind, files, gone))
        return found

    def live(self, as_of: int) -> Mapping[str, LiveFile]:
        """Final path -> file, after batch as_of."""
        live = self.ledger.live_files(as_of)
        return {path: file for path, file in live.items() if self._wants(path)} if self.topics else live

    def _wants(self, path: str) -> bool:
        return not self.topics or folders(path).get("topic") in self.topics

    def is_still(self, batch: int, said: str) -> bool:
        """Whether the ledger is the one that had this batch with this identity (0: before the first one)."""
        if batch == 0:
            return True
        try:
            return identity(self.ledger.manifest(batch)) == said
        except Missing:
            return False


def identity(manifest: Manifest) -> str:
    """What tells a batch from one of the same number in a ledger that was begun anew in the same folder."""
    return hashlib.sha256(manifest.text().encode()).hexdigest()[:16]
