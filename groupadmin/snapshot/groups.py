"""Consumer groups in ZooKeeper: members, owners and lag.  Reads only.

list_groups   a row for each group
read_group    the nodes of one group: members with their subscriptions, partitions, owners
describe      a row for each partition of groups: owner, committed offset, log end offset
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from groundwork.decimals import decimal_int
from groupadmin.snapshot.tree import closed_groups, groups_in_zookeeper
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.listoffsets import LATEST, problems
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.zookeeper import TOPICS, ZookeeperLeaders, told_of
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError, RegistrationError
from kafkawire.model import PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.topicnames import LONGEST_EVER, why_no_name
from kafkawire.znodes.group import CONSUMERS, Registration
from zkconsumer.errors import NoSuchGroup
from zkconsumer.filters import Selection
from zkconsumer.group.assignor import Threads, java_order
from zkconsumer.group.membership import threads_of
from zkconsumer.group.topicnodes import no_brokers, read_topic_nodes
from zkconsumer.offsets.store import Committed
from zkconsumer.offsets.zookeeper import position
from zkconsumer.session.nodes import list_children
from zkconsumer.session.zkcalls import Closed
from zkconsumer.session.zksession import ZkSession

Tell = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Summary of a group.  topics: number of topics with an owned partition or a committed offset.  None: not known,
    for a node of the group is closed to us."""

    group: str
    members: int | None
    topics: int | None


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member by its id node.  registration: None, with a sentence in why, when it cannot be read.

    streams: number of streams by topic.  session: the owner of the ephemeral node, 0 for a persistent one.
    host: from its id; None when the id is not of the JVM's form.
    """

    consumer_id: str
    host: str | None
    _: KW_ONLY
    session: int
    registration: Registration | None
    streams: Mapping[str, int]
    why: str | None = None


@dataclass(frozen=True, slots=True)
class GroupNodes:
    """Nodes of a group.  partitions: of each topic that its members read, or that it has nodes of, in order.  owners:
    data of owner nodes, also for partitions that do not exist (any more)."""

    group: str
    _: KW_ONLY
    members: tuple[GroupMember, ...]
    partitions: Mapping[str, Sequence[PartitionId]]
    owners: Mapping[TopicPartition, str]
    committed: Sequence[TopicPartition]  # partitions with an offset node
    sessionless: frozenset[TopicPartition] = frozenset()  # partitions whose owner node no session holds
    left_out: tuple[str, ...] = ()  # sentences about topics whose node makes no sense, or is closed to us

    @property
    def threads(self) -> dict[str, Threads]:
        """Return the thread ids by topic, of members with a readable registration, in Java's order."""
        return threads_of({member.consumer_id: member.streams for member in self.members})


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One partition of a group.  committed: an offset, NONE or Unknown.  start, end: of the log, None: unknown.
    owner: None without an owner.  readable: end for the lag, where it is not the log's (GroupSnapshot.readable_end).
    deleted: the cluster does not have the partition (any more)."""

    topic: str
    partition: PartitionId
    owner: str | None
    committed: Committed
    _: KW_ONLY
    end: int | None
    start: int | None = None
    readable: int | None = None
    deleted: bool = False

    @property
    def lag(self) -> int | None:
        """Return the messages (0.7: bytes) from the committed offset, or from the start of the log if that is later, to
        the log end, or to a transaction that is not over; negative when the offset is beyond the end."""
        end = self.end if self.readable is None else self.readable
        return lag(self.committed, self.start, end) if self.end is not None else None

    @property
    def lost(self) -> int:
        """Return the messages (0.7: bytes) after the committed offset that the log does not hold any more."""
        return max(0, self.start - self.committed) if isinstance(self.committed, int) and self.start is not None else 0


def lag(committed: Committed, start: int | None, end: int | None) -> int | None:
    """Return what is left to read from a committed offset.  What retention deleted does not count: no member can read
    it.  Negative, and shown as such, when the offset is beyond the end; None when the offset or the end is unknown."""
    if not isinstance(committed, int) or end is None:
        return None
    return end - (committed if start is None else max(committed, min(start, end)))


# groups and members ---------------------------------------------------------------------------------------------------


def list_groups(session: ZkSession, dialect: Dialect, closed: dict[str, str]) -> list[GroupSummary]:
    """Return all groups, sorted.  closed: filled with the groups that are closed to us, and why.  Raises
    ZooKeeperAway."""
    ids = {group: dialect.znodes.ids(group) for group in groups_in_zookeeper(session)}
    folders = {group: _folders(dialect, group) for group in ids}
    shut: Closed = {}
    listed = list_children(session, [path for group in ids for path in (ids[group], *folders[group])], shut)
    closed |= closed_groups(shut)
    found = []
    for group in ids:
        if group in closed:
            found.append(GroupSummary(group, None, None))
            continue
        topics = {topic for folder in folders[group] for topic in listed[folder] or ()}
        found.append(GroupSummary(group, len(listed[ids[group]] or ()), len(topics)))
    return found


def read_group(session: ZkSession, dialect: Dialect, group: str) -> GroupNodes:
    """Read the nodes of a group.  Raises NoSuchGroup, ZooKeeperAway."""
    home = f"{CONSUMERS}/{group}"
    if session.stat([home])[home] is None:
        hint = no_brokers(session, dialect)
        raise NoSuchGroup(f"group {group} is not known to ZooKeeper at {session.connect}{'; ' + hint if hint else ''}")
    members = _members(session, dialect, group)
    topics = {topic for member in members for topic in member.streams}
    listed = {topic for folder in _folders(dialect, group) for topic in session.children(folder) or ()}
    # Others are folders of other clients: b'orders'.
    topics |= {topic for topic in listed if not why_no_name(topic, LONGEST_EVER)}
    partitions: dict[str, list[PartitionId]] = {}
    owned: list[TopicPartition] = []
    committed: list[TopicPartition] = []
    there = read_topic_nodes(session, dialect, topics)
    for topic in sorted(topics):
        partitions[topic] = there.get(topic, [])
        owned += _listed(session, dialect, topic, dialect.znodes.owners(group, topic))
        committed += _listed(session, dialect, topic, dialect.znodes.offsets(group, topic))
    held = session.read([dialect.znodes.owner(group, tp) for tp in owned])
    owners = {tp: held[dialect.znodes.owner(group, tp)] for tp in owned}
    texts = {tp: node.data.decode("utf-8", "replace") for tp, node in owners.items() if node is not None}
    return GroupNodes(
        group,
        members=tuple(members),
        partitions=partitions,
        owners=texts,
        committed=committed,
        sessionless=frozenset(tp for tp, node in owners.items() if node is not None and not node.owner),
        left_out=tuple(told_of(session)),
    )


def _folders(dialect: Dialect, group: str) -> list[str]:
    """Return the folders that list a group's topics."""
    znodes = dialect.znodes
    return [znodes.owners(group, "-").rpartition("/")[0], znodes.offsets(group, "-").rpartition("/")[0]]


def _listed(session: ZkSession, dialect: Dialect, topic: str, folder: str) -> list[TopicPartition]:
    """Return the partitions with a node in a folder; nodes with other names are ignored."""
    found = []
    for name in session.children(folder) or ():
        try:
            found.append(TopicPartition(topic, dialect.partition(name)))
        except LocalError:
            continue
    return found


def _members(session: ZkSession, dialect: Dialect, group: str) -> list[GroupMember]:
    znodes = dialect.znodes
    topics = sorted(session.children(TOPICS) or ())
    paths = {znodes.member(group, name): name for name in java_order(session.children(znodes.ids(group)) or ())}
    found = []
    selection = Selection(topics)  # each filter is evaluated once, however many members have it
    for path, node in session.read(paths).items():
        if node is None:
            continue  # left after the listing
        name, registration, why = paths[path], None, None
        streams: Mapping[str, int] = {}
        try:
            registration = znodes.registration(node.data)
            streams = selection.streams(registration)
        except (RegistrationError, ValueError) as e:
            why = str(e)
        found.append(
            GroupMember(
                name, host_of(group, name), session=node.owner, registration=registration, streams=streams, why=why
            )
        )
    return found


def host_of(group: str, consumer_id: str) -> str | None:
    """Return the host in an id of the JVM's form: GROUP_HOST-MS-RANDOM."""
    own, _, name = consumer_id.partition(f"{group}_")
    parts = name.rsplit("-", 2)
    return parts[0] if not own and len(parts) == 3 and decimal_int(parts[1]) is not None else None


# partitions -----------------------------------------------------------------------------------------------------------


def describe(
    session: ZkSession,
    links: Links,
    dialect: Dialect,
    groups: Sequence[GroupNodes],
    *,
    brokers: Sequence[tuple[str, int]] = (),
    tell: Tell = lambda text: None,
) -> dict[str, list[GroupRow]]:
    """Return a row for each partition that a group reads, owns or has an offset for, sorted.

    brokers: source of leaders instead of ZooKeeper.  tell(sentence): reports why a log end offset is unknown.
    Raises ZooKeeperAway, and Unreachable when none of the brokers answers.
    """
    tps = {nodes.group: _in_order(dialect, nodes) for nodes in groups}
    everything = sorted({tp for each in tps.values() for tp in each}, key=lambda tp: (tp.topic, str(tp.partition)))
    if brokers:
        client = KafkaClient.of_brokers(brokers, links, dialect)
    else:
        client = KafkaClient(ZookeeperLeaders(session.ask, dialect.znodes), links, dialect)
    ends = client.list_offsets(dict.fromkeys(everything, LATEST))
    if nobody := next((end.error for end in ends.values() if isinstance(end.error, Unreachable)), None):
        raise nobody
    for sentence in problems(ends):
        tell(sentence)
    found = {}
    for nodes in groups:
        paths = {tp: dialect.znodes.offset(nodes.group, tp) for tp in tps[nodes.group]}
        offsets = session.read(paths.values())
        found[nodes.group] = [
            GroupRow(tp.topic, tp.partition, nodes.owners.get(tp), position(path, offsets[path]), end=ends[tp].offset)
            for tp, path in paths.items()
        ]
    return found


def _in_order(dialect: Dialect, nodes: GroupNodes) -> list[TopicPartition]:
    ids = {topic: set(partitions) for topic, partitions in nodes.partitions.items()}
    for tp in (*nodes.owners, *nodes.committed):
        ids.setdefault(tp.topic, set()).add(tp.partition)
    return [TopicPartition(topic, partition) for topic in sorted(ids) for partition in dialect.in_order(ids[topic])]
