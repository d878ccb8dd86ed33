"""Offsets in ZooKeeper: /consumers/GROUP/offsets/TOPIC/PARTITION holds the next position as decimal text, persistent.

Each write names the version of the node that this member last read or wrote, so that a foreign write in between is
noticed instead of overwritten (ForeignWrite).  A position that is already there is not written again (KAFKA-987).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType

from groundwork.crew import now
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError, ForeignWrite
from zkconsumer.offsets.store import NONE, Committed, position_of
from zkconsumer.session.lease import Lease, LeaseOver
from zkconsumer.session.zkcalls import Node, Outcome
from zkconsumer.session.zksession import ZkSession


class ZookeeperOffsets:
    """The offset store of the JVM consumer's default, `offsets.storage=zookeeper`."""

    def __init__(self, session: ZkSession, znodes: ModuleType) -> None:
        self._session = session
        self._znodes = znodes
        self._seen: dict[str, Node] = {}  # path -> the node as this member last read or wrote it

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The committed positions.  Raises ZooKeeperAway."""
        paths = {tp: self._znodes.offset(group, tp) for tp in tps}
        found = self._session.read(paths.values())
        for path, node in found.items():
            self._remember(path, node)
        return {tp: position(path, found[path]) for tp, path in paths.items()}

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Write what moved.  After a ForeignWrite, a second call by one who still owns it takes ours."""
        session_id = self._session.session_id
        paths = {tp: self._znodes.offset(group, tp) for tp in positions}
        result: dict[TopicPartition, Exception | None] = dict.fromkeys(positions)
        try:
            self._learn([path for path in paths.values() if path not in self._seen], session_id)
            lease.check(now())  # after the last wait: the time this took counts
            outcomes = self._write({paths[tp]: at for tp, at in positions.items()}, session_id)
            changed = [path for path, outcome in outcomes.items() if outcome is not Outcome.DONE]
            for path in changed:
                self._seen.pop(path, None)
            self._learn(changed, session_id)
        except (ConsumerError, LeaseOver) as e:
            for path in paths.values():  # a write may have happened: look again before the next
                self._seen.pop(path, None)
            return dict.fromkeys(positions, e)
        for tp, path in paths.items():
            if path in changed:
                theirs = position(path, self._seen.get(path))
                result[tp] = None if theirs == positions[tp] else ForeignWrite(group, tp, theirs, positions[tp])
        return result

    def _learn(self, paths: list[str], session_id: int | None) -> None:
        if paths:
            for path, node in self._session.read(paths, session_id=session_id).items():
                self._remember(path, node)

    def _write(self, wanted: Mapping[str, int], session_id: int | None) -> dict[str, Outcome]:
        """Set nodes that exist, create the others; CHANGED, MISSING or EXISTS when somebody else was quicker."""
        moved = {path: b"%d" % at for path, at in wanted.items() if not self._holds(path, at)}
        known = {path: self._seen[path].version for path in moved if path in self._seen}
        outcomes = dict.fromkeys(wanted, Outcome.DONE)
        written = self._session.write({path: (moved[path], known[path]) for path in known}, session_id) if known else {}
        for path, outcome in written.items():
            if isinstance(outcome, Outcome):
                outcomes[path] = outcome
            else:
                self._seen[path] = Node(moved[path], outcome, 0)
        fresh = {path: data for path, data in moved.items() if path not in known}
        if fresh:
            outcomes |= self._session.create(fresh, session_id=session_id)
            for path in fresh:
                if outcomes[path] is Outcome.DONE:
                    self._seen[path] = Node(fresh[path], 0, 0)
        return outcomes

    def _holds(self, path: str, at: int) -> bool:
        return path in self._seen and position(path, self._seen[path]) == at

    def _remember(self, path: str, node: Node | None) -> None:
        if node is None:
            self._seen.pop(path, None)
        else:
            self._seen[path] = node


def position(path: str, node: Node | None) -> Committed:
    """What an offset node says; NONE where there is none."""
    return NONE if node is None else position_of(path, node.data)
