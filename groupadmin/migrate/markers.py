"""The node /consumers/GROUP/migration of many groups: read, and written only while it is as it was read.

It is behind the journal by a step at most, so one that is later than our journal was written by somebody else: another
plan, or another copy of the journal.  Such a group is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from groupadmin.migrate.events import Standing
from groupadmin.migrate.states import MigrationRefused
from zkconsumer.offsets.marker import Marker, MarkerUnclear, Phase, marker_path, marker_text, read_marker
from zkconsumer.session.nodes import read_nodes
from zkconsumer.session.zkcalls import Outcome
from zkconsumer.session.zksession import ZkSession


@dataclass(frozen=True, slots=True)
class Marked:
    """A group's node as it was read.  marker None: there is none, or .unclear says why it makes no sense.

    version: of the node; None: there is none.
    """

    marker: Marker | None = None
    version: int | None = None
    unclear: str = ""


def read_markers(session: ZkSession, groups: Iterable[str]) -> dict[str, Marked]:
    """The nodes of these groups.  Raises ZooKeeperAway."""
    names = list(groups)
    nodes = read_nodes(session, [marker_path(name) for name in names])
    found = {}
    for name in names:
        node = nodes[marker_path(name)]
        if node is None:
            found[name] = Marked()
            continue
        try:
            found[name] = Marked(read_marker(name, node.data), node.version)
        except MarkerUnclear as why:
            found[name] = Marked(None, node.version, str(why))
    return found


def write_markers(session: ZkSession, wanted: Mapping[str, tuple[Marker, Marked]]) -> dict[str, str]:
    """Write these, each over the node that was read, and read them back; a sentence for each that is not there now."""
    fresh, moved = {}, {}
    for group, (marker, there) in wanted.items():
        data = marker_text(marker).encode()
        if there.version is None:
            fresh[marker_path(group)] = data
        else:
            moved[marker_path(group)] = (data, there.version)
    outcomes: dict[str, Outcome | int] = {**session.create(fresh), **session.write(moved)}
    after = read_markers(session, wanted)
    problems = {}
    for group, (marker, _) in wanted.items():
        if after[group].marker != marker:
            became = outcomes[marker_path(group)]
            why = (
                became.value if isinstance(became, Outcome) and became is not Outcome.DONE else "somebody else wrote it"
            )
            problems[group] = f"{marker_path(group)} does not say {marker.phase}: {why}; look who else moves this group"
    return problems


def somebody_else(marked: Marked, plan_id: str, standing: Standing) -> MigrationRefused | None:
    """Why this group belongs to somebody else, by its node and where our journal says it is."""
    if marked.unclear:
        return MigrationRefused("marker unclear", marked.unclear, "delete the node if nothing of yours wrote it")
    there, (phase, reached_ms) = marked.marker, standing.past[-1]
    if there is None or there.phase is Phase.ROLLED_BACK:
        return None
    told = f"plan {there.plan} has it, and it is {there.phase}"
    if there.at_ms > reached_ms and (there.plan, there.phase) != (plan_id, phase):
        which = "this plan by another journal" if there.plan == plan_id else told
        return MigrationRefused("another migration", which, "go on where that journal is")
    if there.plan != plan_id and there.left_zookeeper and phase in (Phase.PLANNED, Phase.CHECKED):
        return MigrationRefused("another migration", told, "its positions in ZooKeeper are old: go on with that plan")
    return None
