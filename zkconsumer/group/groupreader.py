"""Group reader: our id node, and the group in ZooKeeper, read and watched, for `membership`.

    /consumers/G/ids             children watched: members that join or leave
    /consumers/G/ids/C           data watched: other clients create theirs empty and fill it a moment later
    /brokers/topics              children watched if we subscribe by a filter: topics created and deleted
    /brokers/topics/T            watched, for each topic we read, even before it exists: its partitions (topicnodes.py).
                                 With roundrobin, for each topic that any member reads: all are assigned together

A watch only says that something changed; the next read shows what.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from groundwork.tasks import Event as Flag
from groundwork.tasks import Turns
from kafkawire.cluster.zookeeper import TOPICS
from kafkawire.dialects import Dialect
from kafkawire.model import PartitionId, TopicPartition
from kafkawire.znodes.group import STATIC, Registration
from zkconsumer.filters import LeftOut, streams_by_topic
from zkconsumer.group.assignor import RANGE
from zkconsumer.group.membership import (
    Group,
    StrategyNotAllowed,
    Surplus,
    Unreadable,
    Unregistered,
    Untranslatable,
    assignment_of,
    read_group,
    surplus,
)
from zkconsumer.group.topicnodes import Creations, Partitions, read_topics
from zkconsumer.group.verify import SESSIONLESS, GroupFacts
from zkconsumer.offsets.former import TopicCreation
from zkconsumer.session.zkcalls import Closed, WriteOutcome
from zkconsumer.session.zksession import ZkSession

log = logging.getLogger(__name__)

FILTERS_S = 30.0  # processor time to evaluate the filters of a group; thousands of members and topics take less


class GroupReader:
    """One member's view of its group.  changed() is called by watches and must not block."""

    def __init__(
        self,
        *,
        session: ZkSession,
        dialect: Dialect,
        group: str,
        consumer_id: str,
        registration: Registration,
        exclude_internal: bool,
        changed: Callable[[], object],
    ) -> None:
        self.consumer_id = consumer_id
        self.partitions: dict[str, list[PartitionId]] = {}  # of the topics we read, as last read
        self.creations: dict[str, TopicCreation] = {}  # of the topics we read, if their nodes have it
        self.members = 0
        self.left_out: tuple[Unreadable, ...] = ()  # as last read
        self.surplus: list[Surplus] = []
        self._session = session
        self._dialect = dialect
        self._group = group
        self._registration = registration
        self._written: dict[bytes, Registration] = {}  # texts that our id node may hold
        self._exclude_internal = exclude_internal
        self._changed = changed
        self._path = dialect.znodes.member(group, consumer_id)
        self._leave_out = LeftOut(log.warning)
        self._sessionless: frozenset[str] = frozenset()  # members whose id nodes have no session, as last read
        self._touches: dict[str, int] = {}  # number of fired watches by topic since the last read
        self._away = 0  # how often the connection, and with it the watches, was lost
        self._away_read = 0
        self._freed = Flag()
        self._watch_ids = self._ids_touched
        self._watch_topics = self._topics_touched
        self._watch_id = self._id_touched

    # our id node --------------------------------------------------------------------------------------------------

    def subscribe(self, registration: Registration) -> None:
        """Set another subscription for this member; register() writes it, and until then read() returns
        Unregistered."""
        self._registration = registration

    def subscribes(self, topic: str) -> bool:
        """True if this member subscribes to a topic, if it exists."""
        return topic in streams_by_topic(self._registration, [topic], self._exclude_internal, self._leave_own)

    @property
    def subscribed(self) -> bool:
        """True if our id node holds our subscription, as last written or read."""
        return self._registration in self._written.values() and len(self._written) == 1

    def register(self, timestamp_ms: int) -> str | None:
        """Create our id node with its data in one call, or replace it if it holds another subscription of ours.  Return
        None if it is ours; else its holder, or that no session holds it, and it is watched.

        An id node of the same name and another session was left by our last session: that session must end first.
        """
        session_id = self._session.session_id
        wanted = self._registration
        data = self._dialect.znodes.registration_text(wanted, timestamp_ms).encode()
        self._written[data] = wanted
        self._freed.clear()
        for _ in range(3):
            if self._session.create({self._path: data}, True, session_id)[self._path] is WriteOutcome.DONE:
                self._written = {data: wanted}
                return None
            node = self._session.read([self._path], self._watch_id, session_id)[self._path]
            if node is not None and node.owner == session_id:
                if self._written.get(node.data, wanted) == wanted:
                    self._written = {node.data: wanted}
                    return None  # created before a short loss of the connection
                if self._session.replace(self._path, node.version, data, session_id) is WriteOutcome.DONE:
                    self._written = {data: wanted}
                    return None
            elif node is not None:
                return f"session {node.owner:#x}" if node.owner else SESSIONLESS
        return "a node that comes and goes"

    def wait_for_id(self, timeout_s: float) -> None:
        """Wait until the node of the other session is gone, or the time is over."""
        self._freed.wait(timeout=timeout_s)

    def leave(self) -> None:
        """Delete our id node, if it is ours.  Raises ZooKeeperAway; the end of the session deletes it too."""
        session_id = self._session.session_id
        node = self._session.stat([self._path], session_id=session_id)[self._path]
        if node is not None and node.owner == session_id:
            self._session.delete({self._path: node.version}, session_id)

    # the group ----------------------------------------------------------------------------------------------------

    def read(
        self, strategy: str = RANGE, leave_out: bool = False
    ) -> Mapping[TopicPartition, str] | Unreadable | Untranslatable | Unregistered | StrategyNotAllowed:
        """Return our assignment by the current state of the group; everything that could change it is watched.

        leave_out: members that cannot be read are not counted.
        """
        session_id = self._session.session_id
        touches, away = dict(self._touches), self._away
        group = self._read_group(session_id, leave_out)
        if not isinstance(group, Group):
            return group
        topics = group.topics_of(self.consumer_id) if strategy == RANGE else group.topics
        partitions, creations = self._read_partitions(topics, session_id)
        ours = {topic: partitions[topic] for topic in group.topics_of(self.consumer_id) if topic in partitions}
        self.members, self.left_out, self.partitions = len(group.members), group.left_out, ours
        # A topic whose node is invalid has no partitions; it still exists, and was not deleted.
        self.creations = {topic: creations[topic] for topic in group.topics_of(self.consumer_id) if topic in creations}
        self._touches = {topic: n for topic, n in self._touches.items() if touches.get(topic) != n}
        self._away_read = away
        self.surplus = surplus(group.threads, ours)
        return assignment_of(self.consumer_id, group, partitions, strategy, self.relaxed)

    def facts(self, strategy: str = RANGE) -> tuple[GroupFacts, Mapping[TopicPartition, str]] | None:
        """Return the group in ZooKeeper for the topics we read (roundrobin: that any member reads), and our assignment
        by it.

        Return None if the group cannot be read now; `read` says why.
        """
        session_id = self._session.session_id
        group = self._read_group(session_id, leave_out=True)
        if not isinstance(group, Group):
            return None
        topics = group.topics_of(self.consumer_id) if strategy == RANGE else group.topics
        partitions, _ = self._read_partitions(topics, session_id)
        assigned = assignment_of(self.consumer_id, group, partitions, strategy, self.relaxed)
        if isinstance(assigned, StrategyNotAllowed):
            return None
        tps = [TopicPartition(topic, p) for topic, ids in partitions.items() for p in ids]
        paths = {self._dialect.znodes.owner(self._group, tp): tp for tp in tps}
        closed: Closed = {}
        nodes = self._session.read(paths, session_id=session_id, closed=closed)
        owners = {paths[path]: node.data.decode("utf-8", "replace") for path, node in nodes.items() if node is not None}
        owners |= {paths[path]: "a member whose node is closed to us" for path in closed}
        streams = {m: {t: n for t, n in by.items() if t in topics} for m, by in group.streams.items()}
        unreadable = {one.member: one.why for one in group.left_out}
        orphaned = {paths[path] for path, node in nodes.items() if node is not None and not node.owner}
        return GroupFacts(streams, owners, partitions, unreadable, self._sessionless, orphaned), assigned

    @property
    def relaxed(self) -> bool:
        """True for roundrobin's rule since 0.10.2."""
        return self._dialect.relaxed_roundrobin

    def _read_group(
        self, session_id: int | None, leave_out: bool
    ) -> Group | Unreadable | Untranslatable | Unregistered:
        nodes = self._read_ids(session_id)
        mine = nodes.get(self.consumer_id)
        if (
            mine is None
            or mine[1] != session_id
            or self._written.get(mine[0], self._registration) != self._registration
        ):
            return Unregistered(deleted=mine is None)
        topics = self._read_topics(session_id)
        texts = {member: node[0] if node is not None else None for member, node in nodes.items()}
        parse = self._dialect.znodes.registration
        turns = Turns(limit_s=FILTERS_S)
        own = self._leave_own
        return read_group(self.consumer_id, texts, topics, parse, self._exclude_internal, leave_out, turns.go_on, own)

    @property
    def _leave_own(self) -> LeftOut:
        """Return what leaves topics out of our filter, whichever members have it."""
        self._leave_out.own = next(iter(self._registration.subscription), None)
        return self._leave_out

    @property
    def absent(self) -> list[str]:
        """Return topics that we subscribe to by name, and that did not exist when last read."""
        if self._registration.pattern != STATIC:
            return []
        return sorted(self._registration.subscription.keys() - self.partitions.keys() - self.creations.keys())

    def _read_ids(self, session_id: int | None) -> dict[str, tuple[bytes, int] | None]:
        folder = self._dialect.znodes.ids(self._group)
        members = self._session.children(folder, self._watch_ids, session_id) or []
        paths = {f"{folder}/{member}": member for member in members}
        # A closed id node fails the round.  If it were left out, a member that cannot read the offsets would claim its
        # partitions.
        found = self._session.read(paths, self._watch_ids, session_id)
        self._sessionless = frozenset(
            paths[path] for path, node in found.items() if node is not None and not node.owner
        )
        return {paths[path]: (node.data, node.owner) if node else None for path, node in found.items()}

    def _read_topics(self, session_id: int | None) -> list[str]:
        watch = self._watch_topics if self._registration.pattern != STATIC else None
        topics = self._session.children(TOPICS, watch, session_id)
        if topics is None and watch is not None:
            self._session.stat([TOPICS], watch, session_id)  # no broker has ever started here
        return sorted(topics or [])

    def _read_partitions(self, topics: Sequence[str], session_id: int | None) -> tuple[Partitions, Creations]:
        return read_topics(self._session, self._dialect, topics, self._watch_topics, session_id)

    def may_be_recreated(self, topic: str) -> bool:
        """True if its node changed, or was not watched, since it was last read: an offset of its log may belong to a
        deleted topic."""
        return topic in self._touches or self._away != self._away_read

    def still_registered(self) -> bool:
        """True if our id node exists in ZooKeeper now and is ours."""
        session_id = self._session.session_id
        node = self._session.stat([self._path], session_id=session_id)[self._path]
        return node is not None and node.owner == session_id

    # watches ------------------------------------------------------------------------------------------------------

    def _ids_touched(self, path: str, changed: bool) -> None:
        if changed:  # otherwise the connection was lost: the reconnect is an event, too
            self._changed()

    def _topics_touched(self, path: str, changed: bool) -> None:
        topic = path.removeprefix(f"{TOPICS}/").partition("/")[0]
        if not changed:
            self._away += 1
        elif path != TOPICS:
            self._touches[topic] = self._touches.get(topic, 0) + 1
        if changed:
            self._changed()

    def _id_touched(self, path: str, changed: bool) -> None:
        self._freed.set()
