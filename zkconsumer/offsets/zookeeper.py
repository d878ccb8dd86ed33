"""Offsets in ZooKeeper: /consumers/GROUP/offsets/TOPIC/PARTITION holds the next offset as decimal text, persistent.

Each write names the version of the node that this member last read or wrote, so that another writer's change in between
is a ForeignWrite, and not overwritten.  An offset that is already there is not written again (KAFKA-987), unless it is
a FormerOffset: the same number written now is an offset of today's topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from groundwork import clocks
from kafkawire.interfaces import Znodes
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError, ForeignWrite, TopicGone
from zkconsumer.offsets.former import TopicCreation, former_node, written_before
from zkconsumer.offsets.store import NONE, Committed, FormerOffset, Unknown, position_of
from zkconsumer.session.lease import Lease, LeaseOver
from zkconsumer.session.zkcalls import Before, Closed, Node, WriteOutcome
from zkconsumer.session.zksession import ZkSession


class ZookeeperOffsets:
    """Offset store for the JVM consumer's default, `offsets.storage=zookeeper`."""

    def __init__(
        self,
        session: ZkSession,
        znodes: Znodes,
        *,
        creations: Callable[[Collection[str]], Mapping[str, TopicCreation]] = lambda topics: {},
        read_from: Callable[[TopicPartition], TopicCreation | None] = lambda tp: None,
        may_be_recreated: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        """creations: when topics were created, from ZooKeeper now; missing topics are left out.  read_from: the topic
        whose log a committed offset belongs to; None: unknown.  may_be_recreated: True if a topic may have been deleted
        since that was read."""
        self._session = session
        self._znodes = znodes
        self._creations = creations
        self._read_from = read_from
        self._may_be_recreated = may_be_recreated
        self._seen: dict[str, Node] = {}  # path -> the node as this member last read or wrote it
        self._former: set[str] = set()  # paths of nodes that hold a FormerOffset

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the committed offsets; that of a node that is closed to us is Unknown.  Raises ZooKeeperAway."""
        paths = {tp: self._znodes.offset(group, tp) for tp in tps}
        closed: Closed = {}
        found = self._session.read(paths.values(), closed=closed)
        unknown: dict[TopicPartition, Committed] = {
            tp: Unknown(closed[path]) for tp, path in paths.items() if path in closed
        }
        paths = {tp: path for tp, path in paths.items() if path not in closed}
        for path, node in found.items():
            self._remember(path, node)
        topics = self._creations({tp.topic for tp, path in paths.items() if found[path] is not None})
        positions = {tp: self._position(tp, path, found[path], topics.get(tp.topic)) for tp, path in paths.items()}
        self._former.difference_update(paths.values())
        self._former |= {paths[tp] for tp, at in positions.items() if isinstance(at, FormerOffset)}
        return positions | unknown

    def deleted(self, group: str, tps: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return partitions whose node this member read or wrote, and that does not exist any more: the next commit
        writes it again, even if nothing has moved.  Raises ZooKeeperAway."""
        paths = {path: tp for tp in tps if (path := self._znodes.offset(group, tp)) in self._seen}
        gone = [path for path, node in self._session.stat(paths).items() if node is None]
        for path in gone:
            self._seen.pop(path, None)
        return [paths[path] for path in gone]

    def _position(self, tp: TopicPartition, path: str, node: Node | None, topic: TopicCreation | None) -> Committed:
        at = position(path, node)
        if not isinstance(at, int) or node is None or topic is None or not written_before(node.mzxid, topic.czxid):
            return at
        return former_node(tp.topic, at, node.mtime_ms, topic)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Write offsets that moved.  After a ForeignWrite, a second call by a caller that still owns the partition
        overwrites it.

        An offset of a deleted log is not written (TopicGone): a write now would make it one of today's log.
        """
        session_id = self._session.session_id
        paths = {tp: self._znodes.offset(group, tp) for tp in positions}
        result: dict[TopicPartition, Exception | None] = dict.fromkeys(positions)
        try:
            result |= (gone := self._gone(positions))
            positions = {tp: at for tp, at in positions.items() if tp not in gone}
            paths = {tp: paths[tp] for tp in positions}
            self._learn([path for path in paths.values() if path not in self._seen], session_id)
            lease.check(clocks.moment())  # even if nothing moved
            wanted = {paths[tp]: at for tp, at in positions.items()}
            outcomes = self._write(wanted, session_id, before=lambda: lease.check(clocks.moment()))
            changed = [path for path, outcome in outcomes.items() if outcome is not WriteOutcome.DONE]
            for path in changed:
                self._seen.pop(path, None)
            self._learn(changed, session_id)
        except (ConsumerError, LeaseOver) as e:
            for path in paths.values():  # a write may have happened: read again before the next
                self._seen.pop(path, None)
            return result | dict.fromkeys(positions, e)
        for tp, path in paths.items():
            if path in changed:
                theirs = position(path, self._seen.get(path))
                result[tp] = None if theirs == positions[tp] else ForeignWrite(group, tp, theirs, positions[tp])
        return result

    def _gone(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, TopicGone]:
        """Return partitions whose topic was deleted since their reading began, even if a new one of that name
        exists."""
        suspects = {topic for topic in {tp.topic for tp in positions} if self._may_be_recreated(topic)}
        if not suspects:
            return {}
        today, gone = self._creations(suspects), {}
        for tp, at in positions.items():
            read = self._read_from(tp) if tp.topic in suspects else None
            if read is not None and today.get(tp.topic) != read:
                gone[tp] = TopicGone(tp, at)
        return gone

    def _learn(self, paths: list[str], session_id: int | None) -> None:
        if paths:
            for path, node in self._session.read(paths, session_id=session_id).items():
                self._remember(path, node)

    def _write(self, wanted: Mapping[str, int], session_id: int | None, before: Before) -> dict[str, WriteOutcome]:
        """Set nodes that exist, create the others; CHANGED, MISSING or EXISTS after another writer's change.

        before: called before each window of writes, since waiting for the previous window may take long.
        """
        moved = {path: b"%d" % at for path, at in wanted.items() if not self._holds(path, at)}
        known = {path: self._seen[path].version for path in moved if path in self._seen}
        outcomes = dict.fromkeys(wanted, WriteOutcome.DONE)
        nodes = {path: (moved[path], known[path]) for path in known}
        written = self._session.write(nodes, session_id, before) if nodes else {}
        for path, outcome in written.items():
            if isinstance(outcome, WriteOutcome):
                outcomes[path] = outcome
            else:
                self._seen[path] = Node(moved[path], outcome, 0)
                self._former.discard(path)
        fresh = {path: data for path, data in moved.items() if path not in known}
        if fresh:
            outcomes |= self._session.create(fresh, session_id=session_id, before=before)
            for path in fresh:
                if outcomes[path] is WriteOutcome.DONE:
                    self._seen[path] = Node(fresh[path], 0, 0)
        return outcomes

    def _holds(self, path: str, at: int) -> bool:
        return path in self._seen and path not in self._former and position(path, self._seen[path]) == at

    def _remember(self, path: str, node: Node | None) -> None:
        if node is None:
            self._seen.pop(path, None)
        else:
            self._seen[path] = node


def position(path: str, node: Node | None) -> Committed:
    """Return the content of an offset node; NONE if it does not exist."""
    return NONE if node is None else position_of(path, node.data)
