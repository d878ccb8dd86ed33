"""The cluster of a migration as its steps use it: looks, writes, markers, time.

Each look reads the cluster anew, since topics come and go, and asks of each group for at least what its plan knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkawire.v08.offsetrecords import OFFSETS_TOPIC
from zkconsumer.groupworld.look import WIDE, look
from zkconsumer.groupworld.world import Cluster, World, read_cluster
from zkconsumer.groupworld.write import Order, Written, carry_out
from zkconsumer.migrating.markers import Marked, read_markers, write_markers
from zkconsumer.migration.marker import Marker
from zkconsumer.migration.planning import GroupPlan
from zkconsumer.migration.snapshot import GroupSnapshot
from zkconsumer.session.zksession import ZkSession


class Site:
    """groups: how many the plan has, or is to have: Kafka is asked for topics that ZooKeeper does not name only where
    that is not too much, and at every look alike.
    """

    def __init__(self, world: World, groups: int) -> None:
        if world.session is None:
            raise ValueError("a migration needs ZooKeeper")
        self.world = world
        self.session: ZkSession = world.session
        self._groups = groups
        self._cluster: Cluster | None = None

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
        return look(self.world, groups, self.cluster, to_groups=to_groups, wide=self._wide)

    def look(self, plans: Sequence[GroupPlan], only_presence: bool = False) -> dict[str, GroupSnapshot]:
        """Groups as they are now.  only_presence: who is there is what matters; logs are not asked for."""
        if not plans:
            return {}
        cluster = self.cluster if only_presence else self.read_cluster()
        names = {plan.group: plan.to_group for plan in plans if plan.to_group != plan.group}
        planned = {plan.group: [row.tp for row in plan.rows] for plan in plans}
        return look(
            self.world,
            [plan.group for plan in plans],
            cluster,
            to_groups=names,
            also=planned,
            wide=self._wide and not only_presence,
            bounds=not only_presence,
        )

    @property
    def _wide(self) -> bool:
        partitions = sum(len(row.partitions) for topic, row in self.cluster.topics.items() if topic != OFFSETS_TOPIC)
        return self._groups * partitions <= WIDE

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
