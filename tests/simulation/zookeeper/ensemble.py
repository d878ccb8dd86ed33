"""ZooKeeper in virtual time: sessions, ephemeral nodes and watches on one server, or on an ensemble of three.

    SimZookeeper(timeline, rng)                 one server: a write is done at once
    SimZookeeper(timeline, rng, servers=3)      a leader that proposes, followers that log, acknowledge and apply later

nodes, below, sessions: what is committed, whoever knows it yet; for promises, and for brokers that put() and remove().
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from kazoo.protocol.states import EventType

from tests.simulation.process import Timeline
from tests.simulation.zookeeper.quorum import Leadership, Quorum
from tests.simulation.zookeeper.server import Proposal, Server
from tests.simulation.zookeeper.tree import Change, Draft, Node, Session, Tree

TICK_S = 0.5  # of one server: sessions end with a tick, never early

Touched = Callable[[str, bytes | None, int, bool], None]  # path, data, session, whether it was deleted


class SimZookeeper:
    """touched: called for each change of a node, once it is committed.

    release: 3.3 knows no multi (Z23); to 3.4 one lane for all requests of a server (Z19).
    """

    def __init__(
        self,
        timeline: Timeline,
        rng: Random,
        touched: Touched = lambda path, data, session, gone: None,
        servers: int = 1,
        *,
        tick_s: float = TICK_S,
        sync_limit: int = 5,
        release: tuple[int, int] = (3, 4),
    ) -> None:
        self.timeline = timeline
        self.rng = rng
        self.sessions: dict[int, Session] = {}
        self.tick_s = tick_s
        self.knows_multi = release >= (3, 4)
        self.one_lane = release < (3, 5)
        self.version = ".".join(map(str, release)) + ".6"
        self.servers = [Server(number, self) for number in range(servers)]
        self._tree = self.servers[0].tree if servers == 1 else Tree()
        self._touched = touched
        self._ids = 100
        self._hands: deque[Callable[[Draft], None]] = deque()
        self.quorum = Quorum(self, sync_limit)

    @property
    def connect(self) -> str:
        """The connect string of all servers."""
        return ",".join(server.name for server in self.servers)

    # what is committed ---------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> dict[str, Node]:
        return self._tree.nodes

    def below(self, path: str) -> list[str]:
        return self._tree.below(path)

    def set(self, path: str, data: bytes | None) -> None:
        """Write a node on all servers, before anybody looks; its parents, too."""
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            self.set(parent, None)
        trees = {id(tree): tree for tree in (self._tree, *(server.tree for server in self.servers))}
        zxid, old, at_ms = self._tree.zxid + 1, self.nodes.get(path), int(self.timeline.now * 1000)
        if old is None:
            change = Change(path, Node(data, zxid, zxid, at_ms, at_ms), EventType.CREATED)
        else:
            node = Node(data, old.czxid, zxid, old.ctime, at_ms, old.version + 1, old.ephemeralOwner)
            change = Change(path, node, EventType.CHANGED)
        for tree in trees.values():
            tree.zxid = zxid
            tree.apply(change)
        for server in self.servers:
            if server.leadership is not None:
                server.leadership.last_zxid = max(server.leadership.last_zxid, zxid)

    def put(self, path: str, data: bytes) -> None:
        """A broker's or the controller's hand: a node and its parents, written through the leader."""
        self._by_hand(lambda draft: _put(draft, path, data))

    def remove(self, path: str) -> None:
        """A broker's or the controller's hand: the node and all below it go, if they are there."""
        self._by_hand(lambda draft: draft.remove(path))

    def _by_hand(self, edit: Callable[[Draft], None]) -> None:
        self._hands.append(edit)
        if len(self._hands) == 1:
            self._next_by_hand()

    def _next_by_hand(self) -> None:
        """One after the other; once more where a leader lost it, or there is none."""
        while self._hands:
            term = self.quorum.leading()
            if term is None:
                self.timeline.after(self.tick_s / 2, self._next_by_hand)
                return
            proposal = Proposal(term.next_zxid(), None)
            draft = term.draft(0, proposal.zxid)
            self._hands[0](draft)
            proposal.changes = draft.changes
            term.propose(proposal)
            if not proposal.committed:
                self._wait_by_hand(term, proposal)
                return
            self._hands.popleft()

    def _wait_by_hand(self, term: Leadership, proposal: Proposal) -> None:
        if proposal.committed:
            self._hands.popleft()
            self._next_by_hand()
        elif term.open:
            self.timeline.after(self.tick_s / 10, self._wait_by_hand, term, proposal)
        else:
            self._next_by_hand()

    def committed(self, proposal: Proposal) -> None:
        """From now on it is true, and whoever leads later knows it."""
        proposal.committed = True
        if proposal.opens is not None:
            proposal.opens[0].alive = True
        who = proposal.ends or (proposal.asked.session if proposal.asked is not None else None)
        if proposal.ends is not None:
            proposal.ends.alive = False
        if not self.quorum.alone:
            self._tree.zxid = proposal.zxid
        for change in proposal.changes:
            if not self.quorum.alone:
                self._tree.apply(change)
            node = change.node
            self._touched(change.path, node and node.data, who.id if who is not None else 0, node is None)

    # sessions -----------------------------------------------------------------------------------------------------

    def new_session(self, timeout_s: float) -> Session:
        self._ids += 1
        session = self.sessions[self._ids] = Session(self._ids, timeout_s)
        return session

    def expire(self, session: Session) -> None:
        """ZooKeeper ends it, as an operator can have it done."""
        term = self.quorum.leading()
        if term is not None:
            term.expire(session)


def _put(draft: Draft, path: str, data: bytes) -> None:
    parent = path.rpartition("/")[0]
    if parent and draft.node(parent) is None:
        _put(draft, parent, b"")
    draft.write(path, data)
