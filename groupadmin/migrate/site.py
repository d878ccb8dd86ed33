"""Site of a migration: the cluster as the steps use it, with snapshots, writes, markers and time.

Each snapshot reads the cluster again, since topics come and go, and covers at least the plan's partitions.

A marker is the node /consumers/GROUP/migration.  It is written only in the version that was read.  It is behind the
journal by one step at most.  So a marker that is ahead of this journal was written by another plan, or with another
copy of the journal: such a group is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from groupadmin.apply.writes import StoreWrite, WriteResult, apply_writes
from groupadmin.migrate.journal import Standing
from groupadmin.migrate.rules.groupplan import GroupPlan
from groupadmin.migrate.rules.states import MigrationRefused
from groupadmin.snapshot.cluster import AdminClient, Cluster, read_cluster
from groupadmin.snapshot.model import GroupSnapshot
from groupadmin.snapshot.reader import WIDE, read_snapshots
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from zkconsumer.offsets.migrationmarker import Marker, MarkerUnclear, Phase, marker_path, marker_text, read_marker
from zkconsumer.session.nodes import read_nodes
from zkconsumer.session.zkcalls import Closed, WriteOutcome
from zkconsumer.session.zksession import ZkSession


@dataclass(frozen=True, slots=True)
class Marked:
    """A group's marker node as read.  marker: None without a node, or when it cannot be read; .unclear says why.

    version: of the node; None: there is no node, or it is closed to us.
    """

    marker: Marker | None = None
    version: int | None = None
    unclear: str = ""


def read_markers(session: ZkSession, groups: Iterable[str]) -> dict[str, Marked]:
    """Return the marker nodes of these groups.  Raises ZooKeeperAway."""
    names = list(groups)
    closed: Closed = {}
    nodes = read_nodes(session, [marker_path(name) for name in names], closed)
    found = {}
    for name in names:
        if marker_path(name) in closed:
            found[name] = Marked(unclear=closed[marker_path(name)])
            continue
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
    """Write markers, each over the version that was read, and read them back; return a sentence for each that
    failed."""
    fresh, moved = {}, {}
    for group, (marker, there) in wanted.items():
        data = marker_text(marker).encode()
        if there.version is None:
            fresh[marker_path(group)] = data
        else:
            moved[marker_path(group)] = (data, there.version)
    outcomes: dict[str, WriteOutcome | int] = {**session.create(fresh), **session.write(moved)}
    after = read_markers(session, wanted)
    problems = {}
    for group, (marker, _) in wanted.items():
        if after[group].marker != marker:
            became = outcomes[marker_path(group)]
            refused = isinstance(became, WriteOutcome) and became is not WriteOutcome.DONE
            why = became.value if isinstance(became, WriteOutcome) and refused else "another process wrote it"
            problems[group] = (
                f"{marker_path(group)} does not say {marker.phase}: {why}; find out what else moves this group"
            )
    return problems


def other_plan(marked: Marked, plan_id: str, standing: Standing) -> MigrationRefused | None:
    """Return why this group belongs to another plan, by its marker and the journal; None: it does not."""
    if marked.unclear:
        closed = marked.version is None
        remedy = "give the credentials for the node" if closed else "delete the node if nothing of yours wrote it"
        return MigrationRefused("marker unclear", marked.unclear, remedy)
    there, (phase, reached_ms) = marked.marker, standing.past[-1]
    if there is None or there.phase is Phase.ROLLED_BACK:
        return None
    state = f"plan {there.plan} has it, and it is {there.phase}"
    if there.at_ms > reached_ms and (there.plan, there.phase) != (plan_id, phase):
        which = "this plan by another journal" if there.plan == plan_id else state
        return MigrationRefused("another migration", which, "continue with that journal")
    if there.plan != plan_id and there.left_zookeeper and phase in (Phase.PLANNED, Phase.CHECKED):
        return MigrationRefused("another migration", state, "its offsets in ZooKeeper are old: continue with that plan")
    return None


MAX_OFFSETS = 20_000_000  # limit of offsets to ask Kafka for that may not exist; takes some minutes


class Site:
    """The cluster of one plan.

    groups: number of groups in the plan.  Kafka is also asked for offsets of topics that ZooKeeper does not name, some
    groups at a time, in every snapshot alike; beyond MAX_OFFSETS offsets it is not, which is reported.
    """

    def __init__(self, admin: AdminClient, groups: int) -> None:
        if admin.session is None:
            raise ValueError("a migration needs ZooKeeper")
        self.admin = admin
        self.session: ZkSession = admin.session
        self._groups = groups
        self._cluster: Cluster | None = None
        self._reported = False

    @property
    def cluster(self) -> Cluster:
        """Return the cluster as last read."""
        return self._cluster or self.read_cluster()

    def read_cluster(self) -> Cluster:
        """Read the cluster again."""
        self._cluster = read_cluster(self.admin)
        return self._cluster

    def unplanned_snapshots(self, groups: Sequence[str]) -> dict[str, GroupSnapshot]:
        """Return the snapshots of groups without a plan, with the cluster as last read.  Groups that are closed to us
        are left out (AdminClient.closed)."""
        found: dict[str, GroupSnapshot] = {}
        wide = self._wide()
        for some in self._batches(groups, wide):
            found |= read_snapshots(self.admin, some, self.cluster, wide=wide, closed=self.admin.closed)
        return found

    def snapshots(self, plans: Sequence[GroupPlan], only_presence: bool = False) -> dict[str, GroupSnapshot]:
        """Return the snapshots of groups.  only_presence: only members are needed, so log bounds are left out."""
        if not plans:
            return {}
        cluster = self.cluster if only_presence else self.read_cluster()
        planned = {plan.group: [row.tp for row in plan.rows] for plan in plans}
        found: dict[str, GroupSnapshot] = {}
        wide = not only_presence and self._wide()
        for some in self._batches([plan.group for plan in plans], wide):
            found |= read_snapshots(self.admin, some, cluster, also=planned, wide=wide, bounds=not only_presence)
        return found

    def _positions_each(self) -> int:
        """Number of partitions for which one group may have an offset."""
        rows = (len(row.partitions) for topic, row in self.cluster.topics.items() if topic != OFFSETS_TOPIC)
        return max(1, sum(rows))

    def _wide(self) -> bool:
        positions = self._groups * self._positions_each()
        if positions > MAX_OFFSETS and not self._reported:
            self._reported = True
            self.admin.tell(
                f"{self._groups} groups may have {positions} positions in Kafka: only topics that ZooKeeper names, or"
                " that members read now, are looked at; plan fewer groups at a time to see all"
            )
        return positions <= MAX_OFFSETS

    def _batches(self, groups: Sequence[str], wide: bool) -> Iterable[Sequence[str]]:
        """Yield the groups in batches that bound the number of requested offsets."""
        size = max(1, WIDE // self._positions_each()) if wide else max(1, len(groups))
        return (groups[at : at + size] for at in range(0, len(groups), size))

    def write(self, writes: Sequence[StoreWrite], retention_ms: int | None) -> list[WriteResult]:
        """Write offsets; each is read back."""
        return apply_writes(self.admin, self.cluster, writes, retention_ms=retention_ms)

    def markers(self, groups: Iterable[str]) -> dict[str, Marked]:
        """Return the markers of groups."""
        return read_markers(self.session, groups)

    def mark(self, wanted: Mapping[str, tuple[Marker, Marked]]) -> dict[str, str]:
        """Write markers over the versions that were read; return a sentence for each that failed."""
        return write_markers(self.session, wanted) if wanted else {}

    def sleep(self, seconds: float) -> None:
        """Wait; the ZooKeeper session stays alive."""
        self.admin.sleep(seconds)

    def now(self) -> float:
        """Return the time of a monotonic clock, in seconds."""
        return self.admin.now()

    def now_ms(self) -> int:
        """Return the time in ms since 1970."""
        return self.admin.clock_ms()
