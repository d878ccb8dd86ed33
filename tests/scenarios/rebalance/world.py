"""A group on paper: members that run zkconsumer.group.rebalance, and what of ZooKeeper they see.  No clock, no socket.

The world is moved by single steps (one member takes one event, or does one action), in any order the caller likes, and
says what went wrong as a Violation, at the step where it went wrong:

    two members read one partition              a member reads what it does not own
    an owner node is released while it is read  something that stays is released
    offsets are read before the claim           something is committed that is not owned
    something is claimed that is not wanted     something is owned in part before the last of the first tries
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kafkawire.model import TopicPartition
from kafkawire.znodes.v08 import STATIC, WHITE_LIST, Registration, registration, registration_text, thread_ids
from zkconsumer.group.membership import (
    Group,
    GroupChange,
    StrategyNotAllowed,
    Unregistered,
    Untranslatable,
    assignment_of,
    read_group,
)
from zkconsumer.group.memberstate import MemberState
from zkconsumer.group.rebalance import begin, step
from zkconsumer.group.steps import (
    Action,
    Changed,
    ClaimsRefused,
    Close,
    Do,
    Failed,
    Finished,
    GroupRead,
    Happening,
    Located,
    NotRegistered,
    OwnerLost,
    Phase,
    Report,
    SessionLost,
    Unrecoverable,
)

MAX_RETRIES, BACKOFF_MS = 3, 2000


class Violation(AssertionError):
    """A promise of the consumer was broken."""


@dataclass
class Owner:
    session: int
    thread: str


@dataclass
class Member:
    name: str
    streams: dict[str, int]
    session: int
    state: MemberState
    actions: deque[Action] = field(default_factory=deque)
    events: deque[Report | Happening] = field(default_factory=deque)
    reading: set[TopicPartition] = field(default_factory=set)
    waiting: Action | None = None
    may_leave_behind: bool = False  # it could not release


class World:
    def __init__(self) -> None:
        self.topics: dict[str, list[int]] = {}
        self.ids: dict[str, tuple[int, str]] = {}  # session, data of the node
        self.owners: dict[TopicPartition, Owner] = {}
        self.members: dict[str, Member] = {}
        self.trace: list[tuple[str, str]] = []
        self.holds: dict[str, Do] = {}  # a member stands still before this action
        self.breaks: dict[str, Do] = {}  # its next such action goes wrong half way
        self._sessions = 0

    # What happens to the group ------------------------------------------------------------------------------------

    def topic(self, name: str, partitions: list[int]) -> None:
        self.topics[name] = partitions
        self._tell(Changed(GroupChange.TOPICS))

    def join(self, name: str, streams: dict[str, int] | None = None) -> None:
        state, actions = begin(MAX_RETRIES, BACKOFF_MS)
        wanted = dict.fromkeys(self.topics, 1) if streams is None else streams
        self.members[name] = Member(name, wanted, self._session(), state, deque(actions))

    def kill(self, name: str) -> None:
        """kill -9, and its session has run out."""
        self._end_session(self.members.pop(name).session)

    def lose(self, name: str) -> None:
        """Its session is over; its lease ended before that, so it reads nothing any more."""
        member = self.members[name]
        member.reading.clear()
        gone, member.session = member.session, self._session()
        member.events.append(SessionLost())
        self._end_session(gone)

    def close(self, name: str) -> None:
        self.members[name].events.append(Close())

    def take(self, tp: TopicPartition) -> None:
        """Somebody deletes an owner node by path, as the JVM's release does."""
        owner = self.owners.pop(tp)
        for member in self.members.values():
            if member.session == owner.session:
                member.reading.discard(tp)  # the watch on it drops the cursor at once
                member.events.append(OwnerLost(frozenset([tp])))
        self._freed(tp)

    def foreign(self, tp: TopicPartition, thread: str) -> None:
        """An owner node of a session that is nobody's here: of a dead process, say."""
        self.owners[tp] = Owner(0, thread)

    def free(self, tp: TopicPartition) -> None:
        del self.owners[tp]
        self._freed(tp)

    def spoil(self, name: str, data: str = "") -> None:
        """The id node, perhaps one of somebody we do not run, holds nothing that can be read."""
        self.ids[name] = (self.ids.get(name, (0, ""))[0], data)

    def filter(self, name: str, regex: str) -> None:
        """A member that subscribes by an expression, and that nobody here runs."""
        self.ids[name] = (0, registration_text(Registration(WHITE_LIST, {regex: 1}), 1394154511599))
        self._tell(Changed(GroupChange.IDS))

    def mend(self, name: str) -> None:
        self.ids[name] = (self.ids[name][0], self._registration(self.members[name]))
        self._tell(Changed(GroupChange.IDS))

    def unregister(self, name: str) -> None:
        """Somebody deletes the id node of a living member."""
        del self.ids[name]
        self._tell(Changed(GroupChange.IDS))

    def _session(self) -> int:
        self._sessions += 1
        return self._sessions

    def _end_session(self, session: int) -> None:
        self.ids = {name: node for name, node in self.ids.items() if node[0] != session}
        for tp in [tp for tp, owner in self.owners.items() if owner.session == session]:
            del self.owners[tp]
            self._freed(tp)
        self._tell(Changed(GroupChange.IDS))

    def _tell(self, event: Happening) -> None:
        for member in self.members.values():
            if member.state.registered:
                member.events.append(event)

    def _freed(self, tp: TopicPartition) -> None:
        for member in self.members.values():
            if member.waiting is not None and tp in member.waiting.assignment:
                self._stop_waiting(member)

    def _stop_waiting(self, member: Member) -> None:
        assert member.waiting is not None
        member.events.append(Finished(member.waiting.turn))
        member.waiting = None

    # Steps --------------------------------------------------------------------------------------------------------

    def movable(self) -> list[str]:
        """Members that have something to do that does not take time."""
        return [m.name for m in self.members.values() if m.events or self._free_to_act(m)]

    def _free_to_act(self, member: Member) -> bool:
        return bool(member.actions) and member.actions[0].do is not self.holds.get(member.name)

    def move(self, name: str) -> None:
        """One step of a member.  An action asked for is done before the next event is looked at, unless it is held."""
        member = self.members[name]
        if self._free_to_act(member):
            self._do(member, member.actions.popleft())
        else:
            member.state, actions = step(member.state, member.events.popleft())
            if any(action.turn for action in actions):  # the one that was held or waited for is out of date
                member.actions = deque(action for action in member.actions if not action.turn)
                member.waiting = None
            member.actions.extend(actions)
            if member.state.phase is Phase.CLOSED:
                self._leave(member)
        self._check()

    def pass_time(self) -> bool:
        """The waits of all are over.  False: nobody waits."""
        waiting = [m for m in self.members.values() if m.waiting is not None]
        for member in waiting:
            self._stop_waiting(member)
        return bool(waiting)

    def run(self, pick: Callable[[list[str]], str] = lambda names: names[0], limit: int = 20_000) -> None:
        """Until nobody can move without time passing."""
        for _ in range(limit):
            names = self.movable()
            if not names:
                return
            self.move(pick(names))
        raise Violation(f"no end in sight: {self.trace[-20:]}")

    # Actions ------------------------------------------------------------------------------------------------------

    def _do(self, member: Member, action: Action) -> None:
        broken = self.breaks.get(member.name) is action.do
        if broken:
            del self.breaks[member.name]
        report, said = getattr(self, f"_{action.do.name.lower()}")(member, action, broken)
        what = {Do.WAIT: f"wait {action.wait_ms} ms", Do.ALARM: f"alarm ({action.text})"}.get(action.do, str(action))
        self.trace.append((member.name, f"{what} ({said})" if said else what))
        if report is not None:
            member.events.append(report)

    def _register(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        if broken:
            return Failed(action.turn, "ZooKeeper is away"), "failed"
        self.ids[member.name] = (member.session, self._registration(member))
        self._tell(Changed(GroupChange.IDS))  # it does not watch yet itself
        return Finished(action.turn), ""

    def _read(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        if broken:
            return Failed(action.turn, "ZooKeeper is away"), "failed"
        mine = self.ids.get(member.name)
        if mine is None or mine[0] != member.session:
            return NotRegistered(action.turn), "not registered"
        nodes = {name: data for name, (_, data) in self.ids.items()}
        group = read_group(member.name, nodes, sorted(self.topics), registration, leave_out=action.accept_partial)
        if isinstance(group, Group):
            share = assignment_of(member.name, group, self.topics)
            assert not isinstance(share, StrategyNotAllowed)
            left_out = ", ".join(one.member for one in group.left_out)
            said = f"without {left_out}" if left_out else ""
            return GroupRead(action.turn, share, said), said
        assert not isinstance(group, Unregistered)
        if isinstance(group, Untranslatable):
            return Unrecoverable(action.turn, f"{group.member} reads by {group.pattern}"), f"no way: {group.member}"
        return Failed(action.turn, str(group)), "unreadable"

    def _stop(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        member.reading -= action.assignment.keys()
        return Finished(action.turn), ""

    def _drain(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        return Finished(action.turn), ""

    def _commit(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        for tp in action.assignment:
            if tp in member.reading:
                raise Violation(f"{member.name} commits {tp} for its next owner while still reading it")
        if broken:
            return Failed(action.turn, "the store refused"), "failed"
        return Finished(action.turn), ""

    def _release(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        for n, (tp, thread) in enumerate(action.assignment.items()):
            if tp in member.reading:
                raise Violation(f"{member.name} releases {tp} while reading it")
            staying = member.state.owned.get(tp) == thread == member.state.wanted.get(tp)
            if staying and not member.state.closing:
                raise Violation(f"{member.name} releases {tp}, which stays")
            if broken and n:
                member.may_leave_behind = True
                return Failed(action.turn, "ZooKeeper is away"), f"failed after {n}"
            if tp in self.owners and self.owners[tp].session == member.session:
                del self.owners[tp]
                self._freed(tp)
        return Finished(action.turn), ""

    def _claim(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        won: list[TopicPartition] = []
        contested: dict[TopicPartition, str] = {}
        for tp, thread in action.assignment.items():
            if member.state.wanted.get(tp) != thread:
                raise Violation(f"{member.name} claims {tp} for {thread}, and wants {member.state.wanted}")
            if tp in self.owners and self.owners[tp].session != member.session:
                contested[tp] = self.owners[tp].thread
                continue
            self.owners[tp] = Owner(member.session, thread)
            won.append(tp)
            if broken:
                return Failed(action.turn, "ZooKeeper is away"), f"failed after {len(won)}"
        if not contested:
            return Finished(action.turn), ""
        said = ", ".join(f"{tp} is {who}'s" for tp, who in contested.items())
        if action.accept_partial:
            if member.state.tries < MAX_RETRIES:
                raise Violation(f"{member.name} settles for less after {member.state.tries} tries")
            kept = ", ".join(map(str, won)) or "nothing"
            return ClaimsRefused(action.turn, contested, frozenset(won)), f"{kept} won, {said}"
        for tp in won:
            del self.owners[tp]
            self._freed(tp)
        return ClaimsRefused(action.turn, contested), f"refused: {said}"

    def _locate(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        for tp in action.assignment:
            if member.state.owned.get(tp) != action.assignment[tp]:
                raise Violation(f"{member.name} reads the offset of {tp} before it owns it")
        if broken:
            known = frozenset(list(action.assignment)[1:])
            return Located(action.turn, known), f"unknown: {next(iter(action.assignment))}"
        return Located(action.turn, frozenset(action.assignment)), ""

    def _start(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        for tp in action.assignment:
            if tp in self.owners and self.owners[tp].session == member.session:
                member.reading.add(tp)  # else the lease or the watch on the node has ended it already
        return Finished(action.turn), ""

    def _wait(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        member.waiting = action
        if any(tp not in self.owners for tp in action.assignment):
            self._stop_waiting(member)  # it went before we could watch it
        return None, ""

    def _leave(self, member: Member, action: Action | None = None, broken: bool = False) -> tuple[Report | None, str]:
        if action is None:  # the end: the session is closed
            del self.members[member.name]
            self._end_session(member.session)
            return None, ""
        left = [tp for tp, owner in self.owners.items() if owner.session == member.session]
        if member.reading or (left and not member.may_leave_behind):
            raise Violation(f"{member.name} leaves, reads {member.reading} and owns {left}")
        if broken:
            return Failed(action.turn, "ZooKeeper is away"), "failed"
        self.ids.pop(member.name, None)
        self._tell(Changed(GroupChange.IDS))
        return Finished(action.turn), ""

    def _drop(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        member.reading -= action.assignment.keys()
        return None, ""

    def _alarm(self, member: Member, action: Action, broken: bool) -> tuple[Report | None, str]:
        return None, ""

    def _registration(self, member: Member) -> str:
        return registration_text(Registration(STATIC, member.streams), 1394154511599)

    # Promises -----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        readers: dict[TopicPartition, str] = {}
        for member in self.members.values():
            for tp in member.reading:
                if tp in readers:
                    raise Violation(f"{tp} is read by {readers[tp]} and {member.name}")
                readers[tp] = member.name
                owner = self.owners.get(tp)
                if owner is None or owner.session != member.session:
                    raise Violation(f"{member.name} reads {tp}, which is {owner}")

    def check_whole(self) -> None:
        """Once nothing more happens: every partition that somebody wants has its one reader, by the group's formula."""
        streams = {m.name: m.streams for m in self.members.values()}
        threads = {
            topic: tuple(sorted(t for name, s in streams.items() for t in thread_ids(name, s.get(topic, 0))))
            for topic in self.topics
        }
        group = Group(tuple(sorted(streams)), threads, streams)
        for member in self.members.values():
            known = {topic: count for topic, count in member.streams.items() if topic in self.topics}
            group_of = Group(group.members, threads, {**streams, member.name: known})
            share = assignment_of(member.name, group_of, self.topics)
            assert not isinstance(share, StrategyNotAllowed)
            if member.reading != share.keys() or member.state.owned != share:
                raise Violation(f"{member.name} reads {sorted(member.reading)} and should read {share}")
            if not member.state.settled:
                raise Violation(f"{member.name} is {member.state.phase}")
        wanted = {TopicPartition(t, p) for t, ps in self.topics.items() for p in ps if threads[t]}
        if self.owners.keys() != wanted:
            raise Violation(f"owned: {sorted(self.owners)}, wanted: {sorted(wanted)}")
