"""Owner nodes: /consumers/GROUP/owners/TOPIC/PARTITION, ephemeral, its data the thread id that reads the partition.

A node is ours when its ephemeralOwner is our session, never because its text is: the same text may belong to our dead
session, and such a node vanishes while another member takes the partition.  All or nothing per attempt: what an attempt
won before it met a foreign node is rolled back, unless the caller wants to keep it.  Only nodes of our session are ever
deleted, and by version.

Own nodes are watched: one that vanishes or changes while held is reported at once (`on_lost`); one that goes while it
is claimed counts as contested.  Foreign ones that we wait for are watched, too (`on_free`), so that no member waits
longer than the old owner holds on.
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

AUDIT_NODES, AUDIT_SHARE = 100, 10  # a timed audit asks for so many owner nodes at least, and for that part of all
CREATE_TRIES = 3  # for a node that is released just while its owner is read
VERIFY_TRIES = 3  # for nodes that are touched just while it is looked whose they are


class Claims:
    """The owner nodes of this session.  held: partition -> thread id."""

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
        self._by_path: dict[str, TopicPartition] = {}  # of what is held
        self._touched: set[str] = set()  # nodes whose watch fired while they were not held
        self._audited = 0  # of what is held, by the last timed audit
        self._lock = Lock()
        self._watch_own = self._own_touched
        self._watch_foreign = self._foreign_touched

    # claim --------------------------------------------------------------------------------------------------------

    def claim(self, wanted: Mapping[TopicPartition, str], keep: bool = False) -> dict[TopicPartition, str]:
        """Win all of wanted (partition -> thread id), or none; returns the owners of the contested ones (empty: all
        won).

        keep: those that were won are held also when others were not.

        Raises ZooKeeperAway; then it is not known what was won: `sweep` finds out on the next CONNECTED.
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
        """Create the nodes; those that are there already are ours, made ours, or contested."""
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
        """The first alone, so that the fail point lies between claims; the others pipelined."""
        first = dict(list(data.items())[:1])
        outcomes = self._session.create(first, True, session_id)
        if len(data) > 1:
            failpoint("inside claim")
            others = {path: thread for path, thread in data.items() if path not in first}
            outcomes |= self._session.create(others, True, session_id)
        return outcomes

    def _take_over(self, path: str, node: Node, data: bytes, session_id: int | None) -> None:
        """The node is our session's; another thread of ours may have had it."""
        if node.data != data:
            self._session.write({path: (data, node.version)}, session_id)

    def _gone(self, won: set[str], session_id: int | None) -> set[str]:
        """Watch what was won; those that are not ours (any more), also those that went while others were asked for."""
        gone, asked = set[str](), won
        for _ in range(VERIFY_TRIES):
            self._touched.clear()
            gone |= self._verify_and_watch(asked, session_id)
            asked = self._touched & won - gone
            if not asked:
                break
        return gone | asked

    def _verify_and_watch(self, won: Iterable[str], session_id: int | None) -> set[str]:
        """Watch what was won; those that are not ours (any more)."""
        found = self._session.stat(won, self._watch_own, session_id)
        return {path for path, node in found.items() if node is None or node.owner != session_id}

    # release ------------------------------------------------------------------------------------------------------

    def release(self, tps: Iterable[TopicPartition]) -> None:
        """Delete the owner nodes of tps as far as they are ours.  Raises ZooKeeperAway; `sweep` then finds the rest."""
        session_id = self._session.session_id
        paths = [self._path(tp) for tp in tps]
        for path in paths:  # first: deleting them fires our own watches
            tp = self._by_path.pop(path, None)
            if tp is not None:
                del self.held[tp]
        self._roll_back(set(paths), session_id)

    def forget(self, tps: Iterable[TopicPartition] | None = None) -> None:
        """These (None: all, the session is over) were lost; nothing is deleted."""
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
        """Those held (of tps) whose node is not ours any more, as ZooKeeper says now; the rest is watched again."""
        asked = {self._path(tp): tp for tp in (self.held if tps is None else tps) if tp in self.held}
        gone = self._verify_and_watch(asked, self._session.session_id)
        return {asked[path] for path in gone if asked[path] in self.held}

    def some_in_turn(self) -> list[TopicPartition]:
        """Those that a timed audit asks for: all where they are few, else another part each time.  Their watches say
        when one is touched, and sweep() sees that one is gone."""
        held = list(self.held)
        count = max(AUDIT_NODES, -(-len(held) // AUDIT_SHARE))
        begin = self._audited if self._audited < len(held) else 0
        self._audited = begin + count
        return held[begin : begin + count]

    def sweep(self) -> list[str]:
        """Delete nodes of our session that we do not hold (left by an attempt or a lapsed lease); their paths.  What we
        hold and is not there is reported as lost."""
        with self._lock:  # a claim under way has nodes that it does not hold yet
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
        """Our node vanished or was overwritten: not one more message may be delivered."""
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
