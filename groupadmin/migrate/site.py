"""The cluster of a migration as its steps use it: looks, writes, markers, time.

Each look reads the cluster anew, since topics come and go, and asks of each group for at least what its plan knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from groupadmin.apply.writes import Order, Written, carry_out
from groupadmin.migrate.groupplan import GroupPlan
from groupadmin.migrate.markers import Marked, read_markers, write_markers
from groupadmin.snapshot.cluster import Cluster, World, read_cluster
from groupadmin.snapshot.model import GroupSnapshot
from groupadmin.snapshot.reader import WIDE, look
from kafkawire.v08.offsetrecords import OFFSETS_TOPIC
from zkconsumer.offsets.marker import Marker
from zkconsumer.session.zksession import ZkSession

MOST = 20_000_000  # positions that are asked for though nobody may have committed them; some minutes


class Site:
    """groups: how many the plan has, or is to have: Kafka is also asked for topics that ZooKeeper does not name, some
    groups at a time, and at every look alike; beyond MOST positions it is not, which is told.
    """

    def __init__(self, world: World, groups: int) -> None:
        if world.session is None:
            raise ValueError("a migration needs ZooKeeper")
        self.world = world
        self.session: ZkSession = world.session
        self._groups = groups
        self._cluster: Cluster | None = None
        self._told = False

    @property
    def cluster(self) -> Cluster:
        """As it was when it was last read."""
        return self._cluster or self.read_cluster()

    def read_cluster(self) -> Cluster:
        """Read it anew."""
        self._cluster = read_cluster(self.world)
        return self._cluster

    def first_look(self, groups: Sequence[str], to_groups: Mapping[str, str]) -> dict[str, GroupSnapshot]:
        """Groups that have no plan yet; the cluster is not read anew."""
        found: dict[str, GroupSnapshot] = {}
        wide = self._wide()
        for some in self._batches(groups, wide):
            found |= look(self.world, some, self.cluster, to_groups=to_groups, wide=wide)
        return found

    def look(self, plans: Sequence[GroupPlan], only_presence: bool = False) -> dict[str, GroupSnapshot]:
        """Groups as they are now.  only_presence: who is there is what matters; logs are not asked for."""
        if not plans:
            return {}
        cluster = self.cluster if only_presence else self.read_cluster()
        names = {plan.group: plan.to_group for plan in plans if plan.to_group != plan.group}
        planned = {plan.group: [row.tp for row in plan.rows] for plan in plans}
        found: dict[str, GroupSnapshot] = {}
        wide = not only_presence and self._wide()
        for some in self._batches([plan.group for plan in plans], wide):
            found |= look(self.world, some, cluster, to_groups=names, also=planned, wide=wide, bounds=not only_presence)
        return found

    def _positions_each(self) -> int:
        """Partitions that one group may have a position of."""
        rows = (len(row.partitions) for topic, row in self.cluster.topics.items() if topic != OFFSETS_TOPIC)
        return max(1, sum(rows))

    def _wide(self) -> bool:
        positions = self._groups * self._positions_each()
        if positions > MOST and not self._told:
            self._told = True
            self.world.tell(
                f"{self._groups} groups may have {positions} positions in Kafka: only topics that ZooKeeper names, or"
                " that members read now, are looked at; plan fewer groups at a time to see all"
            )
        return positions <= MOST

    def _batches(self, groups: Sequence[str], wide: bool) -> Iterable[Sequence[str]]:
        """So many groups that what is asked for, and kept for a moment, is bounded."""
        size = max(1, WIDE // self._positions_each()) if wide else max(1, len(groups))
        return (groups[at : at + size] for at in range(0, len(groups), size))

    def write(self, orders: Sequence[Order], retention_ms: int | None) -> list[Written]:
        """Carry out; each is read back."""
        return carry_out(self.world, self.cluster, orders, retention_ms)

    def markers(self, groups: Iterable[str]) -> dict[str, Marked]:
        """What migrations left in ZooKeeper."""
        return read_markers(self.session, groups)

    def mark(self, wanted: Mapping[str, tuple[Marker, Marked]]) -> dict[str, str]:
        """Write markers over what was read; a sentence for each that is not there now."""
        return write_markers(self.session, wanted) if wanted else {}

    def sleep(self, seconds: float) -> None:
        """Wait; ZooKeeper's session is kept meanwhile."""
        self.world.sleep(seconds)

    def now(self) -> float:
        """Seconds of a clock that is never put right."""
        return self.world.now()

    def now_ms(self) -> int:
        """ms since 1970."""
        return self.world.clock_ms()
