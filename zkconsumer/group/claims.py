"""Owner nodes: /consumers/GROUP/owners/TOPIC/PARTITION, ephemeral, with the thread id that reads the partition as data.

A node is ours if its ephemeralOwner is our session, never because of its text: the same text may belong to our dead
session, and such a node vanishes while another member takes the partition.  All or nothing per attempt: claims won
before an attempt met a foreign node are rolled back, unless the caller keeps them.  Only nodes of our session are ever
deleted, and by version.

Own nodes are watched: one that vanishes or changes while held is reported at once (`on_lost`); one that goes while it
is claimed counts as contested.  Foreign nodes that we wait for are watched, too (`on_free`), so that no member waits
longer than the old owner holds them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from groundwork.failpoints import failpoint
from groundwork.tasks import Lock
from kafkawire.interfaces import Znodes
from kafkawire.model import TopicPartition
from zkconsumer.errors import ZooKeeperAway
from zkconsumer.group.verify import SESSIONLESS
from zkconsumer.session.zkcalls import Closed, Node, WriteOutcome
from zkconsumer.session.zksession import ZkSession

log = logging.getLogger(__name__)

AUDIT_NODES, AUDIT_SHARE = 100, 10  # a timed audit checks at least 100 owner nodes, and at least a tenth of all
CREATE_TRIES = 3  # for a node that is released while its owner is read
VERIFY_TRIES = 3  # for nodes that are touched while their owners are checked


class Claims:
    """Owner nodes of this session.  held: partition -> thread id."""

    def __init__(
        self,
        session: ZkSession,
        znodes: Znodes,
        group: str,
        *,
        on_lost: Callable[[TopicPartition], None],
        on_free: Callable[[], None],
    ) -> None:
        self.held: dict[TopicPartition, str] = {}
        self._session = session
        self._znodes = znodes
        self._group = group
        self._on_lost = on_lost
        self._on_free = on_free
        self._by_path: dict[str, TopicPartition] = {}  # of held partitions
        self._touched: set[str] = set()  # nodes whose watch fired while they were not held
        self._audited = 0  # position of the last timed audit in what is held
        self._lock = Lock()
        self._watch_own = self._own_touched
        self._watch_foreign = self._foreign_touched

    # claim --------------------------------------------------------------------------------------------------------

    def claim(self, wanted: Mapping[TopicPartition, str], keep: bool = False) -> dict[TopicPartition, str]:
        """Win all wanted claims (partition -> thread id), or none; return the owners of the contested ones (empty: all
        won).

        keep: keep claims that were won, even if others were not.

        Raises ZooKeeperAway; then it is unknown which claims were won: `sweep` finds out on the next CONNECTED.
        """
        with self._lock:
            return self._claim(wanted, keep)

    def _claim(self, wanted: Mapping[TopicPartition, str], keep: bool) -> dict[TopicPartition, str]:
        session_id = self._session.session_id
        paths = {self._path(tp): tp for tp in wanted}
        data = {path: wanted[tp].encode() for path, tp in paths.items()}
        won, contested = self._create(data, session_id)
        if keep or not contested:
            gone = self._gone(won, session_id)
            contested |= dict.fromkeys(gone, "no member: it vanished while we claimed")
            won -= gone
        if contested and not keep:
            self._roll_back(won - self._by_path.keys(), session_id)
            won = set()
        for path in won:
            self.held[paths[path]] = wanted[paths[path]]
            self._by_path[path] = paths[path]
        return {paths[path]: owner for path, owner in contested.items()}

    def _create(self, data: Mapping[str, bytes], session_id: int | None) -> tuple[set[str], dict[str, str]]:
        """Create the nodes; existing ones are ours, taken over, or contested."""
        won: set[str] = set()
        contested: dict[str, str] = {}
        open_ = list(data)
        for _ in range(CREATE_TRIES):
            outcomes = self._create_each({path: data[path] for path in open_}, session_id)
            won |= {path for path, outcome in outcomes.items() if outcome is WriteOutcome.DONE}
            there = [path for path, outcome in outcomes.items() if outcome is not WriteOutcome.DONE]
            open_, contested = [], {}
            closed: Closed = {}
            nodes = self._session.read(there, self._watch_foreign, session_id, closed)
            contested |= {path: f"another member ({why})" for path, why in closed.items()}
            for path, node in nodes.items():
                if node is None:  # released between our create and our read
                    open_.append(path)
                elif node.owner != session_id:
                    holder = node.data.decode("utf-8", "replace")
                    contested[path] = holder if node.owner else f"{holder} (node {path}: {SESSIONLESS})"
                else:
                    self._take_over(path, node, data[path], session_id)
                    won.add(path)
            if contested or not open_:
                break
        return won, contested | dict.fromkeys(open_, "a node that comes and goes")

    def _create_each(self, data: Mapping[str, bytes], session_id: int | None) -> dict[str, WriteOutcome]:
        """Create the first node separately, so that the fail point is between claims; the others are pipelined."""
        first = dict(list(data.items())[:1])
        outcomes = self._session.create(first, True, session_id)
        if len(data) > 1:
            failpoint("inside claim")
            others = {path: thread for path, thread in data.items() if path not in first}
            outcomes |= self._session.create(others, True, session_id)
        return outcomes

    def _take_over(self, path: str, node: Node, data: bytes, session_id: int | None) -> None:
        """Take over a node of our session, which another thread of ours may have had."""
        if node.data != data:
            self._session.write({path: (data, node.version)}, session_id)

    def _gone(self, won: set[str], session_id: int | None) -> set[str]:
        """Watch claims that were won, and return those that are not ours any more, including nodes that went
        meanwhile."""
        gone, asked = set[str](), won
        for _ in range(VERIFY_TRIES):
            self._touched.clear()
            gone |= self._verify_and_watch(asked, session_id)
            asked = self._touched & won - gone
            if not asked:
                break
        return gone | asked

    def _verify_and_watch(self, won: Iterable[str], session_id: int | None) -> set[str]:
        """Watch claims that were won, and return those that are not ours any more."""
        found = self._session.stat(won, self._watch_own, session_id)
        return {path for path, node in found.items() if node is None or node.owner != session_id}

    # release ------------------------------------------------------------------------------------------------------

    def release(self, tps: Iterable[TopicPartition]) -> None:
        """Delete the owner nodes of tps that are ours.  Raises ZooKeeperAway; `sweep` then finds the rest."""
        session_id = self._session.session_id
        paths = [self._path(tp) for tp in tps]
        for path in paths:  # before the deletion, which fires our own watches
            tp = self._by_path.pop(path, None)
            if tp is not None:
                del self.held[tp]
        self._roll_back(set(paths), session_id)

    def forget(self, tps: Iterable[TopicPartition] | None = None) -> None:
        """Forget claims that were lost (None: all, because the session is over); nothing is deleted."""
        for tp in list(self.held) if tps is None else tps:
            if self.held.pop(tp, None) is not None:
                self._by_path.pop(self._path(tp), None)

    def _roll_back(self, paths: set[str], session_id: int | None) -> None:
        if not paths:
            return
        if session_id is None:
            raise ZooKeeperAway("owner nodes cannot be released now: ZooKeeper is away")
        found = self._session.stat(paths, session_id=session_id)
        ours = {path: node.version for path, node in found.items() if node is not None and node.owner == session_id}
        self._session.delete(ours, session_id)

    # audit --------------------------------------------------------------------------------------------------------

    def lost(self, tps: Iterable[TopicPartition] | None = None) -> set[TopicPartition]:
        """Return held partitions (of tps) whose node in ZooKeeper is not ours any more; the others are watched
        again."""
        asked = {self._path(tp): tp for tp in (self.held if tps is None else tps) if tp in self.held}
        gone = self._verify_and_watch(asked, self._session.session_id)
        return {asked[path] for path in gone if asked[path] in self.held}

    def some_in_turn(self) -> list[TopicPartition]:
        """Return the partitions for a timed audit: all if they are few, else another part each time.  Their watches
        report changes, and sweep() notices missing ones."""
        held = list(self.held)
        count = max(AUDIT_NODES, -(-len(held) // AUDIT_SHARE))
        begin = self._audited if self._audited < len(held) else 0
        self._audited = begin + count
        return held[begin : begin + count]

    def sweep(self) -> list[str]:
        """Delete nodes of our session that we do not hold (left by an attempt or a lapsed lease), and return their
        paths.  Held nodes that are missing are reported as lost."""
        with self._lock:  # an unfinished claim has nodes that it does not hold yet
            return self._sweep()

    def _sweep(self) -> list[str]:
        session_id = self._session.session_id
        folder = self._znodes.owners(self._group, "-").rpartition("/")[0]
        topics = self._session.children(folder, session_id=session_id) or ()
        there = self._session.lists([self._znodes.owners(self._group, topic) for topic in topics], None, session_id)
        paths = {f"{above}/{name}" for above, names in there.items() for name in names or ()}
        for tp in [tp for path, tp in self._by_path.items() if path not in paths]:
            log.warning("owner node %s is gone", self._path(tp))
            self._on_lost(tp)
        found = self._session.stat((path for path in paths if path not in self._by_path), session_id=session_id)
        orphans = [p for p, node in found.items() if node and node.owner == session_id and p not in self._by_path]
        self._roll_back(set(orphans), session_id)
        return orphans

    # watches ------------------------------------------------------------------------------------------------------

    def _own_touched(self, path: str, changed: bool) -> None:
        """Report that our node vanished or was overwritten: no further message may be delivered."""
        tp = self._by_path.get(path) if changed else None  # a lost connection says nothing about the node
        if changed and tp is None:
            self._touched.add(path)
        if tp is not None:
            log.warning("owner node %s was deleted or changed by another client", path)
            self._on_lost(tp)

    def _foreign_touched(self, path: str, changed: bool) -> None:
        if changed:
            self._on_free()

    def _path(self, tp: TopicPartition) -> str:
        path: str = self._znodes.owner(self._group, tp)
        return path
