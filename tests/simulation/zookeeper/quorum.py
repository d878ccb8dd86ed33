"""Servers of an ensemble among each other: who leads, what is proposed, logged and committed, and who is cut off.

    Quorum       the servers: cuts between them, elections
    Leadership   one term of one leader: sessions, proposals, followers (Leader, LearnerHandler, SessionTrackerImpl)
    Following    the connection of a follower to its leader, both ways in order

A leader alone (one server) commits at once.  Sessions are ended by the leader only, and their time-outs are its own:
a new leader begins with the full time-out for all (Z7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import KazooException, SessionExpiredError, SessionMovedError
from kazoo.protocol.serialization import Close, Sync

from tests.simulation.zookeeper.link import Connection
from tests.simulation.zookeeper.server import Asked, Proposal, Server
from tests.simulation.zookeeper.tree import Draft, Session

if TYPE_CHECKING:
    from tests.simulation.zookeeper.ensemble import SimZookeeper

EPOCH = 1 << 32  # of a zxid
FINALIZE_S, LOOK_S = 0.2, 0.1  # FastLeaderElection.finalizeWait; how often those who look for a leader are polled
SYNCED_S = 0.05  # a follower takes its leader's nodes
MIN_TICKS, MAX_TICKS = 2, 20  # of a session (Z5)


class Following:
    """heard_at: by the leader; told_at: by the follower.  Each end gives up after syncLimit ticks of silence."""

    __slots__ = ("_down_at", "_held", "_up_at", "heard_at", "leadership", "open", "server", "synced", "told_at")

    def __init__(self, leadership: Leadership, server: Server, now: float) -> None:
        self.leadership = leadership
        self.server = server
        self.open = True
        self.synced = False
        self.heard_at = self.told_at = now
        self._up_at = self._down_at = 0.0
        self._held: list[tuple[bool, Callable[..., object], tuple[Any, ...]]] = []

    def down(self, fn: Callable[..., object], *args: Any) -> None:
        quorum = self.leadership.quorum
        self._down_at = max(self._down_at, quorum.timeline.now + quorum.delay(self.server))
        quorum.timeline.at(self._down_at, self._arrive, True, fn, args)

    def up(self, fn: Callable[..., object], *args: Any) -> None:
        quorum = self.leadership.quorum
        self._up_at = max(self._up_at, quorum.timeline.now + quorum.delay(self.server))
        quorum.timeline.at(self._up_at, self._arrive, False, fn, args)

    def _arrive(self, down: bool, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        leader = self.leadership.server
        if not self.open:
            return
        if self.leadership.quorum.parted(leader, self.server):
            self._held.append((down, fn, args))
        else:
            (self.server if down else leader).run(self._take, down, fn, args)

    def _take(self, down: bool, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        if not self.open:
            return
        if down:
            self.told_at = self.leadership.quorum.timeline.now
        else:
            self.heard_at = self.leadership.quorum.timeline.now
        fn(*args)

    def release(self) -> None:
        """The cut is over: what was held arrives."""
        held, self._held = self._held, []
        for down, fn, args in held:
            self._arrive(down, fn, args)


class Leadership:
    """heard: when each session was last heard of; closing: those whose end is proposed; owners: their connections."""

    def __init__(self, quorum: Quorum, server: Server, epoch: int) -> None:
        self.quorum = quorum
        self.server = server
        self.open = True
        self.last_zxid = max(server.tree.zxid, epoch * EPOCH)
        self.heard: dict[int, float] = {}
        self.closing: dict[int, None] = {}
        self.owners: dict[int, Connection] = {}
        self.outstanding: deque[Proposal] = deque()
        self.followers: dict[int, Following] = {}
        self._syncs: dict[int, list[tuple[Asked, Following | None]]] = {}  # by the proposal that they wait for
        self._ticks = 0

    @property
    def _now(self) -> float:
        return self.quorum.timeline.now

    def next_zxid(self) -> int:
        self.last_zxid += 1
        return self.last_zxid

    # sessions -----------------------------------------------------------------------------------------------------

    def open_session(
        self,
        server: Server,
        following: Following | None,
        connection: Connection,
        session_id: int | None,
        asked_s: float,
    ) -> None:
        zookeeper = self.quorum.zookeeper
        if session_id is None:
            tick_s = zookeeper.tick_s
            timeout_s = min(max(asked_s, MIN_TICKS * tick_s), MAX_TICKS * tick_s)
            session = zookeeper.new_session(timeout_s)
            self.heard[session.id] = self._now
            self.owners[session.id] = connection
            proposal = Proposal(self.next_zxid(), None)
            proposal.opens = (session, connection)
            if self.quorum.alone:
                self._watch_over(session)
            self.propose(proposal)
            return
        session = zookeeper.sessions[session_id]
        alive = session_id in self.heard and session_id not in self.closing
        if alive:
            self.heard[session_id] = self._now
            self.owners[session_id] = connection
        if following is None:
            server.opened(connection, session, alive)
        else:
            following.down(server.opened, connection, session, alive)

    def touched(self, sessions: dict[int, float]) -> None:
        """A follower's list, with its answer to a ping (Z6)."""
        for session_id in sessions:
            if session_id in self.heard:
                self.heard[session_id] = self._now

    def refusal(self, asked: Asked) -> KazooException | None:
        """What a request is refused with (SessionTrackerImpl.checkSession)."""
        session_id = asked.session.id
        if session_id not in self.heard or session_id in self.closing:
            return SessionExpiredError()
        return SessionMovedError() if self.owners.get(session_id) is not asked.connection else None

    def expire(self, session: Session) -> None:
        """The session is over: its ephemeral nodes go, with one transaction (Z9)."""
        if session.id not in self.heard or session.id in self.closing:
            return
        proposal = Proposal(self.next_zxid(), None)
        self._end(session, proposal)
        self.propose(proposal)

    def _end(self, session: Session, proposal: Proposal) -> None:
        self.closing[session.id] = None
        draft = self.draft(session.id, proposal.zxid)
        draft.end_session()
        proposal.changes, proposal.ends = draft.changes, session

    def _watch_over(self, session: Session) -> None:
        """Of one server alone: a session ends within a tick after its time-out."""
        if session.id not in self.heard:
            return
        silent_s = self._now - self.heard[session.id]
        if silent_s >= session.timeout_s:
            self.expire(session)
        else:
            wait_s = session.timeout_s - silent_s + 0.001 + self.quorum.zookeeper.tick_s * self.quorum.rng.random()
            self.quorum.timeline.after(wait_s, self._watch_over, session)

    def look_at_sessions(self) -> None:
        """Each tick: those that were silent for their time-out end (Z5)."""
        sessions, now = self.quorum.zookeeper.sessions, self._now
        for session_id, heard_at in list(self.heard.items()):
            if now - heard_at >= sessions[session_id].timeout_s:
                self.expire(sessions[session_id])

    # requests -----------------------------------------------------------------------------------------------------

    def take(self, asked: Asked, following: Following | None) -> None:
        """A write, a sync or the end of a session, from a client of this server or of a follower."""
        error, kind = self.refusal(asked), type(asked.request)
        if kind is Sync:
            self._sync(asked, following, error)
            return
        proposal = Proposal(self.next_zxid(), asked)
        try:
            if error is not None:
                raise error
            if kind is Close:
                self._end(asked.session, proposal)
                proposal.answer = True
            else:
                draft = self.draft(asked.session.id, proposal.zxid)
                proposal.answer = draft.prepare(asked.request)
                proposal.changes = draft.changes
        except KazooException as refused:
            proposal.error = refused  # a transaction, too: it is answered once most servers have it
        self.propose(proposal)

    def draft(self, session_id: int, zxid: int) -> Draft:
        outstanding = [change for proposal in self.outstanding for change in proposal.changes]
        return Draft(self.server.tree, outstanding, session_id, zxid, int(self._now * 1000))

    def _sync(self, asked: Asked, following: Following | None, error: Exception | None) -> None:
        """Answered behind what is proposed; at once where that is nothing, whoever still follows (Z4)."""
        if error is None and following is not None and self.outstanding:
            self._syncs.setdefault(self.outstanding[-1].zxid, []).append((asked, following))
        else:
            self._synced(asked, following, error)

    def _synced(self, asked: Asked, following: Following | None, error: Exception | None) -> None:
        if following is None:
            self.server.finish(asked, asked.request.path, error, self.server.tree.zxid)
        else:
            following.down(self._synced_there, following.server, asked, error)

    def _synced_there(self, server: Server, asked: Asked, error: Exception | None) -> None:
        server.finish(asked, asked.request.path, error, server.tree.zxid)

    # proposals ----------------------------------------------------------------------------------------------------

    def propose(self, proposal: Proposal) -> None:
        self.outstanding.append(proposal)
        if not self.quorum.alone:
            self.server.logged.append(proposal)
            for following in self.followers.values():
                if following.synced:
                    following.down(self._log_there, following, proposal)
        self._logged(proposal)

    def _log_there(self, following: Following, proposal: Proposal) -> None:
        following.server.logged.append(proposal)
        following.up(self._logged, proposal)

    def _logged(self, proposal: Proposal) -> None:
        """One more server has it on its disk."""
        proposal.acks += 1
        while self.open and self.outstanding and self.outstanding[0].acks >= self.quorum.majority:
            self._commit(self.outstanding.popleft())

    def _commit(self, proposal: Proposal) -> None:
        if not self.quorum.alone:
            self.server.logged.popleft()
        self.quorum.zookeeper.committed(proposal)
        self.server.apply(proposal)
        if proposal.ends is not None:
            self.heard.pop(proposal.ends.id, None)
            self.closing.pop(proposal.ends.id, None)
        for following in self.followers.values():
            if following.synced:
                following.down(following.server.commit, proposal)
        for asked, waiting in self._syncs.pop(proposal.zxid, ()):
            self._synced(asked, waiting, None)

    # followers ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The term begins: all sessions have their full time-out (Z7)."""
        self.server.leadership, self.server.serving = self, True
        self.heard = {session.id: self._now for session in self.quorum.zookeeper.sessions.values() if session.alive}
        timeline, tick_s = self.quorum.timeline, self.quorum.zookeeper.tick_s
        timeline.after(tick_s / 2, self.server.run, self._half_tick)
        timeline.after(tick_s * self.quorum.rng.random(), self.server.run, self._tick_of_sessions)

    def join(self, server: Server) -> None:
        """A server follows: it takes the leader's nodes, and what is proposed from now on."""
        self.following(server).down(self._taken, self.followers[server.number])

    def following(self, server: Server) -> Following:
        following = server.following = self.followers[server.number] = Following(self, server, self._now)
        return following

    def _taken(self, following: Following) -> None:
        if self.open:
            server = following.server
            server.tree = self.server.tree.copy()
            server.logged.clear()
            server.serving = following.synced = True
            for proposal in self.outstanding:
                following.down(self._log_there, following, proposal)

    def _tick_of_sessions(self) -> None:
        if self.open:
            self.look_at_sessions()
            self.quorum.timeline.after(self.quorum.zookeeper.tick_s, self.server.run, self._tick_of_sessions)

    def _half_tick(self) -> None:
        """Ping the followers; at each second look whether most of them are there (Leader.lead, Z17)."""
        if not self.open:
            return
        self._ticks += 1
        silent_from = self._now - self.quorum.limit_s
        for following in list(self.followers.values()):
            if following.heard_at < silent_from:
                self.drop(following)
            else:
                following.down(self._pinged, following)
        if self._ticks % 2 == 0 and 1 + len(self.followers) < self.quorum.majority:
            self.quorum.look_for_leader(self.server)
        else:
            self.quorum.timeline.after(self.quorum.zookeeper.tick_s / 2, self.server.run, self._half_tick)

    def _pinged(self, following: Following) -> None:
        server = following.server
        touched, server.touched = server.touched, {}
        following.up(self.touched, touched)

    def drop(self, following: Following) -> None:
        """Close the connection of a follower, which hears of it where it is reached."""
        following.open = False
        if self.followers.get(following.server.number) is following:
            del self.followers[following.server.number]
        if not self.quorum.parted(self.server, following.server):
            self.quorum.timeline.after(0.001, following.server.run, self.quorum.lost, following)

    def end(self) -> None:
        self.open = False
        self.server.leadership = None
        for following in list(self.followers.values()):
            self.drop(following)


class Quorum:
    """limit_s: syncLimit ticks."""

    def __init__(self, zookeeper: SimZookeeper, sync_limit: int) -> None:
        self.zookeeper = zookeeper
        self.timeline = zookeeper.timeline
        self.rng = zookeeper.rng
        self.servers = zookeeper.servers
        self.alone = len(self.servers) == 1
        self.majority = len(self.servers) // 2 + 1
        self.limit_s = sync_limit * zookeeper.tick_s
        self.slow_s: dict[int, float] = {}  # of what passes between a server and its leader
        self._epoch = 0
        self._cuts: dict[int, int] = {}
        self._electing = False
        leader = self.servers[-1]
        leadership = leader.leadership = Leadership(self, leader, 0)
        if not self.alone:
            self._epoch = 1
            leadership.begin()
            for server in self.servers[:-1]:
                following = leadership.following(server)
                following.synced = True
                self._check_later(server, following)

    # network ------------------------------------------------------------------------------------------------------

    def delay(self, follower: Server) -> float:
        return 0.0003 + 0.001 * self.rng.random() + self.slow_s.get(follower.number, 0.0)

    def parted(self, one: Server, other: Server) -> bool:
        return self._cuts.get(one.number, 0) > 0 or self._cuts.get(other.number, 0) > 0

    def isolate(self, server: Server) -> None:
        """Cut it off from the other servers; clients still reach it."""
        self._cuts[server.number] = self._cuts.get(server.number, 0) + 1

    def mend(self, server: Server) -> None:
        """No cut lasts any longer."""
        self._cuts[server.number] = 1
        self.heal(server)

    def heal(self, server: Server) -> None:
        self._cuts[server.number] = max(0, self._cuts.get(server.number, 0) - 1)
        for each in self.servers:
            following = each.following
            if following is not None and not self.parted(following.leadership.server, each):
                following.release()

    # who leads ----------------------------------------------------------------------------------------------------

    def leading(self) -> Leadership | None:
        """The term that most servers follow, as far as anybody can know."""
        terms = [server.leadership for server in self.servers if server.up and server.leadership is not None]
        terms = [term for term in terms if term.open]
        return max(terms, key=lambda term: term.last_zxid) if terms else None

    def look_for_leader(self, server: Server) -> None:
        """It leads, or follows, no longer: it closes all connections and serves nobody until there is a leader."""
        server.serving = False
        leadership, following = server.leadership, server.following
        server.following = None
        if leadership is not None:
            leadership.end()
        if following is not None and following.open:
            following.open = False
            if not self.parted(server, following.leadership.server):
                self.timeline.after(0.001, following.leadership.server.run, following.leadership.drop, following)
        server.hang_up_all()
        if not self._electing:
            self._electing = True
            self.timeline.after(FINALIZE_S + LOOK_S * self.rng.random(), self._elect)

    def lost(self, following: Following) -> None:
        """The leader has closed the connection."""
        if following.server.following is following:
            self.look_for_leader(following.server)

    def _check_later(self, server: Server, following: Following) -> None:
        self.timeline.after(self.zookeeper.tick_s / 4, server.run, self._check, server, following)

    def _check(self, server: Server, following: Following) -> None:
        """A follower gives up after syncLimit ticks without a packet (Z15)."""
        if server.following is not following:
            return
        if self.timeline.now - following.told_at >= self.limit_s:
            self.look_for_leader(server)
        else:
            self._check_later(server, following)

    def _elect(self) -> None:
        """Those who look for a leader and reach each other: follow the one that there is, or elect one of them."""
        looking = [s for s in self.servers if s.up and not s.frozen and s.leadership is None and s.following is None]
        for server in looking:
            for term in [each.leadership for each in self.servers if each.leadership is not None]:
                established = term.open and 1 + len(term.followers) >= self.majority
                if established and not term.server.frozen and not self.parted(server, term.server):
                    self._follow(server, term)
        looking = [s for s in looking if s.following is None and not self._cuts.get(s.number)]
        if len(looking) >= self.majority:
            self._begin(looking)
        if any(s.leadership is None and s.following is None for s in self.servers):
            self.timeline.after(LOOK_S, self._elect)
        else:
            self._electing = False

    def _begin(self, looking: list[Server]) -> None:
        """The one with the newest transaction leads; all that it has logged is committed."""
        leader = max(looking, key=lambda server: (server.last_logged, server.number))
        self._epoch += 1
        while leader.logged:
            proposal = leader.logged.popleft()
            if not proposal.committed:
                self.zookeeper.committed(proposal)
            leader.apply(proposal)
        term = Leadership(self, leader, self._epoch)
        term.begin()
        for server in looking:
            if server is not leader:
                self._follow(server, term)

    def _follow(self, server: Server, term: Leadership) -> None:
        term.join(server)
        assert server.following is not None
        self._check_later(server, server.following)

    # what happens to servers --------------------------------------------------------------------------------------

    def kill(self, server: Server) -> None:
        if server.up:
            server.thaw()
            self.look_for_leader(server)
            server.up = False

    def start(self, server: Server) -> None:
        """With what it had on its disk."""
        if not server.up:
            server.up = True
            if not self._electing:
                self._electing = True
                self.timeline.after(FINALIZE_S + LOOK_S * self.rng.random(), self._elect)

    def thaw(self, server: Server) -> None:
        if server.frozen and server.leadership is not None:
            server.leadership.look_at_sessions()  # its clock has gone on
        server.thaw()

    # what servers ask ---------------------------------------------------------------------------------------------

    def to_leader(self, server: Server, asked: Asked) -> None:
        if server.leadership is not None:
            server.leadership.take(asked, None)
        elif server.following is not None:
            following = server.following
            following.up(following.leadership.take, asked, following)

    def open_session(self, server: Server, connection: Connection, session_id: int | None, asked_s: float) -> None:
        if server.leadership is not None:
            server.leadership.open_session(server, None, connection, session_id, asked_s)
        elif server.following is not None:
            following = server.following
            following.up(following.leadership.open_session, server, following, connection, session_id, asked_s)
