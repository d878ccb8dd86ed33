"""Migration marker: one persistent node per group in ZooKeeper, read by starting members and by the next plan.

    /consumers/GROUP/migration   {"version":"1","plan":"0123456789abcdef","phase":"cutover","at_ms":"1700000000000"}

Numbers are text, because a JVM's reader keeps only 32 bits of a bare number.  The marker is written after the journal
and may be behind it by the last step; the journal counts.  Pure: text to values and back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from groundwork.jsontext import json_value
from kafkawire.znodes.group import CONSUMERS
from zkconsumer.errors import ConsumerError

VERSION = "1"


class Phase(StrEnum):
    """Phase of a migration; the values are written in journals, nodes and reports."""

    PLANNED = "planned"
    CHECKED = "checked"
    COPIED = "copied"
    VERIFIED = "verified"
    DUAL = "dual"
    CUTOVER = "cutover"
    DONE = "done"
    HANDOVER = "handover"
    COORDINATED = "coordinated"
    DUAL_BACK = "dual-back"
    COPIED_BACK = "copied-back"
    VERIFIED_BACK = "verified-back"
    ROLLED_BACK = "rolled-back"


BY_KAFKA = (Phase.HANDOVER, Phase.COORDINATED)
LEFT_ZOOKEEPER = (Phase.CUTOVER, Phase.DONE, *BY_KAFKA, Phase.DUAL_BACK, Phase.COPIED_BACK, Phase.VERIFIED_BACK)


class MarkerUnclear(ConsumerError):
    """Raised when the node holds what no release of ours writes, so it decides nothing."""


@dataclass(frozen=True, slots=True)
class Marker:
    """The plan that migrates a group, and its phase."""

    plan: str
    phase: Phase
    at_ms: int  # since 1970

    @property
    def left_zookeeper(self) -> bool:
        """True if a member that only uses ZooKeeper may read old offsets at its start: it should be refused."""
        return self.phase in LEFT_ZOOKEEPER

    @property
    def by_kafka(self) -> bool:
        """True if Kafka coordinates the group: a member that registers in ZooKeeper should be refused."""
        return self.phase in BY_KAFKA


def marker_path(group: str) -> str:
    """Return the node's path."""
    return f"{CONSUMERS}/{group}/migration"


def marker_text(marker: Marker) -> str:
    """Return the text of the node."""
    said = {"version": VERSION, "plan": marker.plan, "phase": marker.phase, "at_ms": str(marker.at_ms)}
    return json.dumps(said, separators=(",", ":"))


def read_marker(group: str, data: str | bytes) -> Marker:
    """Return the marker in the text of a node.  Raises MarkerUnclear."""
    try:
        said = json_value(data)
        if said["version"] != VERSION:
            raise ValueError(f"version {said['version']!r}")
        return Marker(str(said["plan"]), Phase(said["phase"]), int(said["at_ms"]))
    except (ValueError, KeyError, TypeError) as why:
        raise MarkerUnclear(
            f"{marker_path(group)} holds {data!r}, which is not a migration marker ({type(why).__name__}: {why}); "
            "see what wrote it before this group is moved"
        ) from None
