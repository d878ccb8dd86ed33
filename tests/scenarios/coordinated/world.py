"""A group and its coordinator on paper (members.py): a coordinator that keeps Kafka's rules.

    JoinGroup     waits until every member that the coordinator knows has joined, or `time` passes: who has not is out
    SyncGroup     waits for the leader, the first that joined
    a session     ends after session_s, and after rebalance_s where another one joins meanwhile
    a heartbeat   of each member that is connected, after every step: 25 unknown, 22 another generation, 27 joining
    OffsetCommit  of the current generation, stable or joining; else 22, 25, 27

What is promised, too: no commit is taken of a member for a partition that another one reads.  A frozen process reads
nothing; its lease is over before it runs again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from kafkawire.model import TopicPartition
from tests.scenarios.members import Done, GroupWorld, PaperMember, Violation
from zkconsumer.kafkagroup.assignors import GroupMember, assign_range
from zkconsumer.kafkagroup.heartbeats import silent_member_s
from zkconsumer.kafkagroup.lifecycle import JoiningMember
from zkconsumer.member.steps import (
    Action,
    Changed,
    Claim,
    Do,
    Failed,
    Fenced,
    Finished,
    IdGiven,
    IdUnknown,
    JoinAgain,
    Joined,
    Located,
    Phase,
    Rebalancing,
    Refused,
    Report,
    Synced,
)

MAX_RETRIES, BACKOFF_MS = 4, 500


@dataclass
class Member(PaperMember[JoiningMember]):
    topics: frozenset[str] = field(default_factory=frozenset)
    frozen: bool = False
    cut: bool = False  # the coordinator is out of its reach
    told: Claim | None = None  # of this claim it knows by a heartbeat that it is to join

    @property
    def asks(self) -> bool:
        """Whether it waits for the coordinator."""
        return self.waiting is not None and self.waiting.do in (Do.JOIN, Do.SYNC)


class World(GroupWorld[Member]):
    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, int] = {}
        self.refuses: set[str] = set()
        self.session_s, self.rebalance_s = 10.0, 60.0
        # the coordinator
        self.known: dict[str, Member] = {}  # by member id
        self.pending: set[str] = set()  # ids that were given out, and that nobody has joined with yet
        self.generation = 0
        self.phase = "stable"  # or joining, syncing
        self.joined: list[str] = []  # member ids, the leader first
        self.assigned: dict[str, list[TopicPartition]] = {}
        self._ids = 0

    # what happens -------------------------------------------------------------------------------------------------

    def timeouts(self, session_s: float, rebalance_s: float) -> None:
        self.session_s, self.rebalance_s = session_s, rebalance_s

    def topic(self, name: str, partitions: int) -> None:
        self.topics[name] = partitions
        for member in self.members.values():
            if member.state.claim is not None and name in member.topics:
                member.events.append(Changed())

    def join(self, name: str, topics: str = "t") -> None:
        self.add(Member(name, JoiningMember(MAX_RETRIES, BACKOFF_MS), topics=frozenset(topics.split())))

    def kill(self, name: str) -> None:
        del self.members[name]

    def freeze(self, name: str) -> None:
        self.members[name].frozen = True

    def thaw(self, name: str) -> None:
        """It runs again, long after: its lease is over, and nothing is delivered before that is seen."""
        member = self.members[name]
        member.frozen = False
        self.lease_over(name)

    def lease_over(self, name: str) -> None:
        member = self.members[name]
        member.reading.clear()  # at once, before the event is taken off the queue
        if member.state.claim is not None:
            member.events.append(Fenced(member.state.claim))

    def cut(self, name: str) -> None:
        """Its requests get no answer; those that wait fail."""
        member = self.members[name]
        member.cut = True
        if member.asks:
            self.report(member, _link_lost)

    def mend(self, name: str) -> None:
        self.members[name].cut = False

    def expire(self, name: str) -> None:
        """The session of a member, killed or not, ends at the coordinator: by then its lease is over."""
        member = self.members.get(name)
        if member is not None and not member.frozen:
            self.lease_over(name)
        for member_id in [one for one, whose in self.known.items() if whose.name == name]:
            self._out(member_id)

    def move(self) -> None:
        """The coordinator moves to another broker, and has the members as they were; a rebalance begins anew."""
        for member in self.members.values():
            if member.asks:
                self.report(member, _link_lost)
        self.joined = []
        if self.phase == "syncing":
            self.phase = "joining"

    def forget(self) -> None:
        """The coordinator has lost the group."""
        self.move()
        self.known, self.assigned, self.joined, self.phase = {}, {}, [], "stable"
        self.pending = set()

    def refuse(self, name: str) -> None:
        self.refuses.add(name)

    def accept(self, name: str) -> None:
        self.refuses.discard(name)

    # steps --------------------------------------------------------------------------------------------------------

    def movable(self) -> list[str]:
        self._beat()
        return super().movable()

    def runs(self, member: Member) -> bool:
        return not member.frozen

    def fails(self, member: Member, action: Action) -> bool:
        return member.cut and action.do in (Do.JOIN, Do.SYNC, Do.COMMIT, Do.LEAVE, Do.LOCATE)

    def step(self, name: str) -> None:
        super().step(name)
        self._coordinate()

    def pass_time(self) -> bool:
        """The waits of all are over; the coordinator waits no longer for members that have not joined."""
        waited = super().pass_time()
        if self.phase == "joining" and self.joined:
            for member_id in [one for one in self.known if one not in self.joined]:
                late = self.known[member_id]
                if late.name in self.members and not late.frozen and self._lease_is_over(late):
                    self.lease_over(late.name)
                self._out(member_id)
        self._coordinate()
        return waited

    def _lease_is_over(self, late: Member) -> bool:
        """Whether a member's lease is over once the coordinator has waited for it: who was told to join limits it, and
        for who was not it counts from a heartbeat before the rebalance."""
        told = late.told is not None and late.told is late.state.claim
        return told or silent_member_s(self.session_s, self.rebalance_s) <= self.rebalance_s

    # the coordinator ----------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        for member in self.members.values():
            claim = member.state.claim
            if claim is None or member.frozen or member.cut or member.state.phase in (Phase.SYNCING, Phase.JOINING):
                continue
            if any(isinstance(event, Fenced) for event in member.events):
                continue
            if self.known.get(claim.member_id) is not member:
                member.reading.clear()
                member.events.append(Fenced(claim, forget=True))
            elif claim.generation != self.generation:
                member.reading.clear()
                member.events.append(Fenced(claim))
            elif self.phase == "joining" and member.told is not claim:
                member.told = claim
                member.events.append(Rebalancing(claim))

    def _out(self, member_id: str) -> None:
        member = self.known.pop(member_id, None)
        if member is not None:
            if member.waiting is not None and member.asks:
                self.report(member, IdUnknown if member.waiting.do is Do.JOIN else partial(JoinAgain, forget=True))
            self.joined = [one for one in self.joined if one != member_id]
            self._rebalance()

    def _rebalance(self) -> None:
        if self.phase == "syncing":
            for member in self.known.values():
                if member.waiting is not None and member.waiting.do is Do.SYNC:
                    self.report(member, JoinAgain)
            self.joined = []
        self.phase = "joining"

    def _coordinate(self) -> None:
        if self.phase == "joining" and not self.known:
            self.phase, self.assigned = "stable", {}
        if self.phase == "joining" and set(self.joined) == set(self.known):
            self.generation += 1
            self.phase, self.assigned = "syncing", {}
            for member_id in self.joined:
                member = self.known[member_id]
                if member.waiting is not None and member.waiting.do is Do.JOIN:
                    self.report(member, partial(Joined, claim=Claim(self.generation, member_id)))
        if self.phase == "stable":
            for member_id, member in self.known.items():
                if member.waiting is not None and member.waiting.do is Do.SYNC:
                    tps = dict.fromkeys(self.assigned.get(member_id, ()), f"{member.name}-0")
                    self.report(member, partial(Synced, assignment=tps))

    # actions ------------------------------------------------------------------------------------------------------

    def _join(self, member: Member, action: Action, broken: bool) -> Done:
        if member.reading:
            raise Violation(f"{member.name} joins and reads {member.reading}")
        if broken:
            return Failed(action.turn, "no coordinator"), "failed"
        if member.name in self.refuses:
            return Refused(action.turn, "no protocol in common"), "refused"
        if not action.member_id:
            self._ids += 1
            self.pending.add(f"{member.name}#{self._ids}")
            return IdGiven(action.turn, f"{member.name}#{self._ids}"), "told an id"
        if action.member_id not in {*self.known, *self.pending}:
            return IdUnknown(action.turn), "unknown"
        self.pending.discard(action.member_id)
        self.known[action.member_id] = member
        self._rebalance()
        if action.member_id not in self.joined:
            self.joined.append(action.member_id)
        member.waiting = action
        return None, ""

    def _sync(self, member: Member, action: Action, broken: bool) -> Done:
        if broken:
            return Failed(action.turn, "no coordinator"), "failed"
        claim = action.claim
        assert claim is not None
        if self.known.get(claim.member_id) is not member:
            return JoinAgain(action.turn, forget=True), "unknown"
        if claim.generation != self.generation or self.phase == "joining":
            return JoinAgain(action.turn), "too late"
        member.waiting = action
        if self.phase == "syncing" and self.joined and self.joined[0] == claim.member_id:
            group = [GroupMember(one, self.known[one].topics) for one in self.known]
            self.assigned = assign_range(self.topics, group)
            self.phase, self.joined = "stable", []
            return None, "leads"
        return None, ""

    def _locate(self, member: Member, action: Action, broken: bool) -> Done:
        if broken:
            return Failed(action.turn, "no coordinator"), "failed"
        return Located(action.turn, frozenset(action.assignment)), ""

    def _start(self, member: Member, action: Action, broken: bool) -> Done:
        if not any(isinstance(event, Fenced) for event in member.events):
            member.reading |= action.assignment.keys()  # else there is no claim any more
        return Finished(action.turn), ""

    def _commit(self, member: Member, action: Action, broken: bool) -> Done:
        claim = member.state.claim
        if broken or claim is None:
            return Failed(action.turn, "no coordinator"), "failed"
        if self.known.get(claim.member_id) is not member or claim.generation != self.generation:
            return Failed(action.turn, "fenced"), "fenced"
        if self.phase == "syncing":
            return Failed(action.turn, "the group rebalances"), "too late"
        for other in self.members.values():
            if other is not member and not other.frozen and other.reading & action.assignment.keys():
                raise Violation(f"{member.name} commits what {other.name} reads")
        return Finished(action.turn), ""

    def _leave(self, member: Member, action: Action, broken: bool) -> Done:
        if broken:
            return Failed(action.turn, "no coordinator"), "failed"
        self._out(action.member_id)
        return Finished(action.turn), ""

    # promises -----------------------------------------------------------------------------------------------------

    def check_whole(self) -> None:
        """Once nothing more happens: everything that somebody wants is read."""
        for member in self.members.values():
            if not member.state.settled:
                raise Violation(f"{member.name} is {member.state.phase}, {member.state.blocked}")
        wanted = {
            TopicPartition(topic, p)
            for topic, n in self.topics.items()
            if any(topic in member.topics for member in self.members.values())
            for p in range(n)
        }
        read = {tp for member in self.members.values() for tp in member.reading}
        if read != wanted:
            raise Violation(f"read: {sorted(read)}, wanted: {sorted(wanted)}")


def _link_lost(turn: int) -> Report:
    return Failed(turn, "the link was lost")
