"""Checks who coordinates a group: ZooKeeper, where members register and claim partitions, or a broker, which they join
(0.9).

Neither side sees the other.  Members on both at once would each read every partition, so a member is refused at its
start while the other side has members:

    starts     sees                                                          else
    kafka      members (ids) or owners in ZooKeeper                          StillInZooKeeper
               offsets in ZooKeeper that Kafka does not have                 StillInZooKeeper
               a marker of a migration that did not hand the group over      StillInZooKeeper
    zookeeper  a marker of a migration that handed the group to Kafka        ByKafka
               members in the group that Kafka coordinates                   ByKafka

State that a member cannot see refuses nothing: a Kafka member without zookeeper.connect does not see ZooKeeper, and JVM
members check nothing.  So `zkconsumer migrate handover` first makes sure that the group has no members on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from groundwork.sentences import counted
from kafkawire.cluster.zookeeper import TOPICS
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError, WireError
from kafkawire.model import TopicPartition
from kafkawire.protocol import apis
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.coordinator import Coordinator
from zkconsumer.offsets.migrationmarker import Marker, MarkerUnclear, Phase, marker_path, read_marker
from zkconsumer.offsets.store import NONE, Committed
from zkconsumer.session.zksession import ZkSession

ROLL_BACK = "or roll the migration back first (`zkconsumer migrate rollback`)"


class StillInZooKeeper(ConsumerError):
    """Raised when a member joins a group at the brokers while the group is still in ZooKeeper."""


class ByKafka(ConsumerError):
    """Raised when a member registers in ZooKeeper, and Kafka coordinates the group."""


# rules ----------------------------------------------------------------------------------------------------------------


def check_joining(group: str, marker: Marker | None, members: Sequence[str], owned: int = 0) -> None:
    """Raise StillInZooKeeper if a member may not join the group at the brokers.

    members: ids in ZooKeeper; owned: number of owner nodes there.
    """
    if members or owned:
        there = [f"member {members[0]}{_more(members)}"] if members else []
        there += [f"owners of {counted(owned, 'partition')}"] if owned else []
        raise StillInZooKeeper(
            f"group {group} still has {' and '.join(there)} in ZooKeeper, and a member that Kafka coordinates would"
            " read the same partitions: stop every member in ZooKeeper, and hand the group over (`zkconsumer migrate"
            " handover`)"
        )
    if marker is not None and not marker.by_kafka:
        count = "its offsets in Kafka count, and members in ZooKeeper may start at any time"
        if not marker.left_zookeeper:
            count = "its offsets in ZooKeeper count, which a member that Kafka coordinates does not see"
        raise StillInZooKeeper(
            f"group {group} is in migration {marker.plan} (phase {marker.phase}), so {count}: {_next(marker)}"
        )


def check_registering(group: str, marker: Marker | None, kafka_members: Sequence[str]) -> None:
    """Raise ByKafka if a member may not register in ZooKeeper.

    kafka_members: members of the group of this name that Kafka coordinates, as far as known.
    """
    if marker is not None and marker.by_kafka:
        raise ByKafka(
            f"group {group} was handed to Kafka by migration {marker.plan} (phase {marker.phase}), and a member in"
            f" ZooKeeper would read the same partitions: start it with coordination=kafka, {ROLL_BACK}"
        )
    if kafka_members:
        raise ByKafka(
            f"group {group} has member {kafka_members[0]}{_more(kafka_members)} that Kafka coordinates, and a member in"
            " ZooKeeper would read the same partitions: start it with coordination=kafka, or stop those"
        )


def check_copied(group: str, committed: Mapping[TopicPartition, Committed]) -> None:
    """Raise StillInZooKeeper if a member that Kafka coordinates may not start.

    committed: Kafka's offsets for the partitions with an offset in ZooKeeper.
    """
    left = sorted(tp for tp, at in committed.items() if at is NONE)
    if left:
        raise StillInZooKeeper(
            f"group {group}: ZooKeeper has offsets of {counted(len(left), 'partition')} but Kafka has none of them, the"
            f" first {left[0]}, where a member that Kafka coordinates would begin by auto.offset.reset: copy them"
            " (`zkconsumer migrate copy`), or set them (`zkconsumer offsets set --store kafka`)"
        )


def _next(marker: Marker) -> str:
    if marker.phase is Phase.ROLLED_BACK:
        return "it was rolled back, so make a new plan (`zkconsumer migrate plan`)"
    if marker.left_zookeeper:
        return "stop every member and hand the group over first (`zkconsumer migrate handover`)"
    return "cut over, then hand it over (`zkconsumer migrate cutover`, `zkconsumer migrate handover`)"


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


# reading --------------------------------------------------------------------------------------------------------------


def must_have_left_zookeeper(session: ZkSession, dialect: Dialect, group: str) -> None:
    """Check at the start of a member with coordination=kafka.  Raises StillInZooKeeper and ZooKeeperAway.

    An unreadable marker also refuses it.
    """
    try:
        marker = group_marker(session, group)
    except MarkerUnclear as unclear:
        raise StillInZooKeeper(f"{unclear}; until then no member joins it at the brokers") from unclear
    members = sorted(session.children(dialect.znodes.ids(group)) or ())
    check_joining(group, marker, members, _owned(session, dialect, group))


def must_not_be_kafkas(
    session: ZkSession,
    dialect: Dialect,
    group: str,
    coordinator: Callable[[], Coordinator],
    tell: Callable[[str], object],
) -> None:
    """Check at the start of a member in ZooKeeper.  Raises ByKafka and ZooKeeperAway.

    The coordinator is only asked if __consumer_offsets exists (the look-up would create it).  tell: gets the reason if
    Kafka's members are unknown.
    """
    try:
        marker = group_marker(session, group)
    except MarkerUnclear as unclear:
        tell(f"{unclear}; so whether Kafka coordinates group {group} is not known")
        marker = None
    check_registering(group, marker, ())
    if _coordinates(dialect) and session.children(f"{TOPICS}/{OFFSETS_TOPIC}") is not None:
        try:
            members = [member for member, _, _ in coordinator().describe(group).members]
        except WireError as why:
            tell(f"whether group {group} has members that Kafka coordinates is not known: {why}")
        else:
            check_registering(group, marker, members)


def group_marker(session: ZkSession, group: str) -> Marker | None:
    """Return the migration marker of a group.  Raises MarkerUnclear and ZooKeeperAway."""
    path = marker_path(group)
    node = session.read([path])[path]
    return read_marker(group, node.data) if node is not None else None


def _coordinates(dialect: Dialect) -> bool:
    try:
        dialect.speaks(apis.DESCRIBE_GROUPS.key)
    except LocalError:
        return False
    return True


def _owned(session: ZkSession, dialect: Dialect, group: str) -> int:
    folder = dialect.znodes.owners(group, "-").rpartition("/")[0]
    topics = session.children(folder) or ()
    return sum(len(session.children(dialect.znodes.owners(group, topic)) or ()) for topic in topics)
