"""A group in ZooKeeper on paper (members.py): what of ZooKeeper its members see.  What is promised:

two members read one partition              a member reads what it does not own
an owner node is released while it is read  something that stays is released
offsets are read before the claim           something is committed that is not owned
something is claimed that is not wanted     something is owned in part before the last of the first tries
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkawire.model import TopicPartition
from kafkawire.znodes.v08 import STATIC, WHITE_LIST, Registration, registration, registration_text, thread_ids
from tests.scenarios.members import Done, GroupWorld, PaperMember, Violation
from zkconsumer.group.membership import (
    Group,
    StrategyNotAllowed,
    Unregistered,
    Untranslatable,
    assignment_of,
    read_group,
)
from zkconsumer.group.rebalance import ClaimingMember
from zkconsumer.member.steps import (
    Action,
    Changed,
    ClaimsRefused,
    Failed,
    Finished,
    GroupRead,
    Happening,
    Located,
    NotRegistered,
    OwnerLost,
    SessionLost,
    Unrecoverable,
)

MAX_RETRIES, BACKOFF_MS = 3, 2000


@dataclass
class Owner:
    session: int
    thread: str


@dataclass
class Member(PaperMember[ClaimingMember]):
    streams: dict[str, int] = field(default_factory=dict)
    session: int = 0
    may_leave_behind: bool = False  # it could not release


class World(GroupWorld[Member]):
    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, list[int]] = {}
        self.ids: dict[str, tuple[int, str]] = {}  # session, data of the node
        self.owners: dict[TopicPartition, Owner] = {}
        self._sessions = 0

    # What happens to the group ------------------------------------------------------------------------------------

    def topic(self, name: str, partitions: list[int]) -> None:
        self.topics[name] = partitions
        self._tell(Changed())

    def join(self, name: str, streams: dict[str, int] | None = None) -> None:
        wanted = dict.fromkeys(self.topics, 1) if streams is None else streams
        state = ClaimingMember(MAX_RETRIES, BACKOFF_MS)
        self.add(Member(name, state, streams=wanted, session=self._session()))

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
        self._tell(Changed())

    def mend(self, name: str) -> None:
        self.ids[name] = (self.ids[name][0], self._registration(self.members[name]))
        self._tell(Changed())

    def unregister(self, name: str) -> None:
        """Somebody deletes the id node of a living member."""
        del self.ids[name]
        self._tell(Changed())

    def _session(self) -> int:
        self._sessions += 1
        return self._sessions

    def _end_session(self, session: int) -> None:
        self.ids = {name: node for name, node in self.ids.items() if node[0] != session}
        for tp in [tp for tp, owner in self.owners.items() if owner.session == session]:
            del self.owners[tp]
            self._freed(tp)
        self._tell(Changed())

    def _tell(self, event: Happening) -> None:
        for member in self.members.values():
            if member.state.registered:
                member.events.append(event)

    def _freed(self, tp: TopicPartition) -> None:
        for member in self.members.values():
            if member.waiting is not None and tp in member.waiting.assignment:
                self.report(member, Finished)

    def left(self, member: Member) -> None:
        self._end_session(member.session)

    # Actions ------------------------------------------------------------------------------------------------------

    def _register(self, member: Member, action: Action, broken: bool) -> Done:
        if broken:
            return Failed(action.turn, "ZooKeeper is away"), "failed"
        self.ids[member.name] = (member.session, self._registration(member))
        self._tell(Changed())  # it does not watch yet itself
        return Finished(action.turn), ""

    def _read(self, member: Member, action: Action, broken: bool) -> Done:
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

    def _commit(self, member: Member, action: Action, broken: bool) -> Done:
        for tp in action.assignment:
            if tp in member.reading:
                raise Violation(f"{member.name} commits {tp} for its next owner while still reading it")
        if broken:
            return Failed(action.turn, "the store refused"), "failed"
        return Finished(action.turn), ""

    def _release(self, member: Member, action: Action, broken: bool) -> Done:
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

    def _claim(self, member: Member, action: Action, broken: bool) -> Done:
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

    def _locate(self, member: Member, action: Action, broken: bool) -> Done:
        for tp in action.assignment:
            if member.state.owned.get(tp) != action.assignment[tp]:
                raise Violation(f"{member.name} reads the offset of {tp} before it owns it")
        if broken:
            known = frozenset(list(action.assignment)[1:])
            return Located(action.turn, known), f"unknown: {next(iter(action.assignment))}"
        return Located(action.turn, frozenset(action.assignment)), ""

    def _start(self, member: Member, action: Action, broken: bool) -> Done:
        for tp in action.assignment:
            if tp in self.owners and self.owners[tp].session == member.session:
                member.reading.add(tp)  # else the lease or the watch on the node has ended it already
        return Finished(action.turn), ""

    def _wait(self, member: Member, action: Action, broken: bool) -> Done:
        member.waiting = action
        if any(tp not in self.owners for tp in action.assignment):
            self.report(member, Finished)  # it went before we could watch it
        return None, ""

    def _leave(self, member: Member, action: Action, broken: bool) -> Done:
        left = [tp for tp, owner in self.owners.items() if owner.session == member.session]
        if member.reading or (left and not member.may_leave_behind):
            raise Violation(f"{member.name} leaves, reads {member.reading} and owns {left}")
        if broken:
            return Failed(action.turn, "ZooKeeper is away"), "failed"
        self.ids.pop(member.name, None)
        self._tell(Changed())
        return Finished(action.turn), ""

    def _registration(self, member: Member) -> str:
        return registration_text(Registration(STATIC, member.streams), 1394154511599)

    # Promises -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        super().check()
        for member in self.members.values():
            for tp in member.reading:
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
