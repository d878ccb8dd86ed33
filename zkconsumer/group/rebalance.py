"""Rebalance in ZooKeeper: the rules of a member that races for its claims (zkconsumer.member.machine).  Pure.

Theory.  The group has no leader.  Every member reads the same nodes and computes the same assignment, but at another
moment, so two members may want one partition.  The owner nodes decide: the member that creates a node owns the
partition until it deletes the node or its session ends.  A member reads only what it has claimed, and releases only
what it has stopped and committed; so a partition has one reader, whatever the members believe.  One round:

    read group -> stop fetchers -> drain -> commit offsets -> release claims -> claim -> read offsets -> start fetchers

Why the group is read first: only then is it known which partitions are revoked, and only those are stopped and
released; the others are read all the time.  Reading takes milliseconds, so a JVM member, which waits about 6 s for its
partitions, gets them in time.  Why the claim comes after the release: two members that each hold what the other wants
would wait forever.  Why offsets are read after the claim: the old owner commits until it releases; an earlier read
would be stale.

    a refused claim    continue to read what we own, wait, and read the whole group again.  The wait ends early when a
                       contested node goes away
    after the alarm    a partial assignment is accepted: a claim keeps what it wins, and a member whose node cannot be
                       read is left out, so that one node that stays forever does not leave a whole assignment unread.
                       Such a member is not settled, and keeps trying for the rest
    a recreated topic  has another log: its partitions that stay are stopped, drained, and started again at the offsets
                       that are read then; nothing of the former log is committed, and nothing is released
    a lost session     our id and all claims are gone: drop everything at once, commit nothing, register again
    a lost owner       an owner node was taken or deleted: drop that partition at once, commit nothing of it, rebalance
    close              stop, drain, commit and release everything, then leave the group
    unrecoverable      the group cannot be computed here with certainty: like close, but started by the member itself

Rejected:

    revoke everything first     as the JVM consumer does: each change of the group would stop every partition
    a lock or a leader          JVM members take part in neither
    claim before the release    the shortest pause for each partition, and a deadlock of two members
    keep what is won at once    half an assignment blocks another member's whole one; both keep half, and retry
    give up after max_retries   as the JVM consumer does: a process that lives, and reads nothing

State:

    wanted       assigned to us by the group as last read          staying     owned, and wanted by the same thread
    owned        the owner nodes that are ours                     leaving     owned, and not staying
    running      owned, and read                                   missing     wanted, and not staying
    located      owned, and its offset was read in this round      to_start    staying, and not running
    maybe_owned  an attempt broke off: perhaps ours                to_release  leaving, and maybe_owned
    recreated    read, and its topic was created again             to_stop     running, and leaving or recreated
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from kafkawire.model import TopicPartition
from zkconsumer.member.machine import IN_BOTH, MemberState
from zkconsumer.member.steps import (
    NOTHING,
    Action,
    Assignment,
    Changed,
    ClaimsRefused,
    Close,
    Failed,
    Finished,
    GroupRead,
    Happening,
    NotRegistered,
    OwnerLost,
    Phase,
    Report,
    SessionLost,
    Unrecoverable,
    only,
    without,
)

P = Phase
CLOSING = (P.DRAINING, P.COMMITTING, P.RELEASING, P.CLOSED)  # phases in which a close changes nothing
SHOWN = 8  # contested partitions that an alarm names


@dataclass(frozen=True)
class ClaimingMember(MemberState):
    """State of a member in ZooKeeper.  wanted and owned map partitions to the thread id that reads them."""

    NEXT: ClassVar[dict[tuple[Phase, type[Report]], Phase]] = {
        **IN_BOTH,
        (P.REGISTERING, Finished): P.READING,
        (P.REGISTERING, Failed): P.WAITING,
        (P.READING, GroupRead): P.STOPPING,
        (P.READING, NotRegistered): P.REGISTERING,
        (P.READING, Unrecoverable): P.STOPPING,  # all partitions, as for closing
        (P.READING, Failed): P.WAITING,
        (P.COMMITTING, Finished): P.RELEASING,  # the next owner starts from the committed offsets
        (P.COMMITTING, Failed): P.RELEASING,  # it reads some messages again; otherwise no member would read them
        (P.RELEASING, Finished): P.CLAIMING,
        (P.RELEASING, Failed): P.WAITING,
        (P.CLAIMING, Finished): P.LOCATING,  # after the claim: an earlier read may be stale
        (P.CLAIMING, ClaimsRefused): P.LOCATING,  # what we own is read on; then we wait
        (P.CLAIMING, Failed): P.WAITING,
        (P.WAITING, Finished): P.READING,
    }

    phase: Phase = P.REGISTERING
    registered: bool = False
    wanted: Assignment = field(default_factory=dict)  # assignment by the group as last read
    recreated: frozenset[TopicPartition] = frozenset()  # their topic was created again: stopped, started, not released
    maybe_owned: Assignment = field(default_factory=dict)  # an attempt broke off; released before any claim
    lost: frozenset[TopicPartition] = frozenset()  # owner nodes lost while this round was claiming
    contested: Assignment = field(default_factory=dict)  # partitions we want, and their holders

    # partitions ---------------------------------------------------------------------------------------------------

    @property
    def staying(self) -> Assignment:
        """Return partitions that are owned, and that the same thread reads as before."""
        return {tp: thread for tp, thread in self.owned.items() if self.wanted.get(tp) == thread}

    @property
    def leaving(self) -> Assignment:
        return without(self.owned, self.staying.keys())

    @property
    def to_stop(self) -> Assignment:
        return only({**self.leaving, **only(self.owned, self.recreated)}, self.running)

    @property
    def to_release(self) -> Assignment:
        return {**self.leaving, **without(self.maybe_owned, self.staying.keys())}

    @property
    def missing(self) -> Assignment:
        return without(self.wanted, self.staying.keys())

    @property
    def to_start(self) -> Assignment:
        return without(self.staying, self.running)

    def work(self, phase: Phase) -> Assignment:
        match phase:
            case P.STOPPING | P.DRAINING | P.COMMITTING:
                return self.to_stop
            case P.RELEASING:
                return self.to_release
            case P.CLAIMING:
                return self.missing
            case P.LOCATING:
                return self.to_start
            case P.STARTING:
                return only(self.to_start, self.located)
            case P.WAITING:
                return self.contested
            case _:
                return NOTHING

    # happenings ---------------------------------------------------------------------------------------------------

    def happened(self, event: Happening) -> tuple[ClaimingMember, Phase | None, Assignment]:
        match event:
            case Changed():
                return replace(self, stale=True), self._again, NOTHING
            case OwnerLost(tps):
                return self._owner_lost(tps)
            case SessionLost():
                return self._session_lost()
            case Close():
                idle = self.phase in (P.SETTLED, P.WAITING)  # otherwise when the current action is reported
                return replace(self, closing=True), P.LEAVING if idle else None, NOTHING
            case _:
                raise ValueError(f"{event} does not happen to a member in ZooKeeper")

    @property
    def _again(self) -> Phase | None:
        """Return the first phase of the next round, if none is running; a running one sees that it is stale."""
        return P.READING if self.phase in (P.SETTLED, P.WAITING) and not self.closing else None

    def _owner_lost(self, tps: frozenset[TopicPartition]) -> tuple[ClaimingMember, Phase | None, Assignment]:
        gone = only(self.owned, tps)
        if not gone and self.phase is not P.CLAIMING:
            return self, None, NOTHING
        owned, running = without(self.owned, tps), self.running - tps
        return replace(self, owned=owned, running=running, lost=self.lost | tps, stale=True), self._again, gone

    def _session_lost(self) -> tuple[ClaimingMember, Phase | None, Assignment]:
        state = replace(
            self,
            registered=False,
            wanted=NOTHING,
            owned=NOTHING,
            running=frozenset(),
            # the current action may run in the new session
            maybe_owned=self.asked if self.phase is P.CLAIMING else NOTHING,
            contested=NOTHING,
            tries=0,
        )
        return state, P.CLOSED if self.closing else P.REGISTERING, self.owned

    # reports ------------------------------------------------------------------------------------------------------

    def learned(self, report: Report) -> ClaimingMember:
        asked = self.asked
        match self.phase, report:
            case P.READING, GroupRead(_, assignment, left_out, recreated):
                return replace(self, wanted=assignment, blocked=left_out, recreated=recreated)
            case P.READING, Unrecoverable(_, why):
                return replace(self, closing=True, blocked=why)
            case P.REGISTERING, Finished():
                return replace(self, registered=True)
            case P.READING, NotRegistered():
                return replace(self, registered=False)
            case P.COMMITTING, _:  # stopped, whether or not its offsets could be written
                return replace(self, running=self.running - asked.keys())
            case P.RELEASING, Finished():
                return replace(self, owned=without(self.owned, asked.keys()), maybe_owned=NOTHING)
            case P.RELEASING, Failed(_, why):
                again = NOTHING if self.closing else asked  # closing has no retry: it ends with the session
                return replace(self, owned=without(self.owned, asked.keys()), maybe_owned=again, blocked=why)
            case P.CLAIMING, Finished():
                return replace(self, owned={**self.owned, **without(asked, self.lost)})
            case P.CLAIMING, ClaimsRefused(_, contested, won):
                owned = {**self.owned, **only(asked, won - self.lost)}
                return replace(self, owned=owned, blocked=f"held by others: {holders(contested)}", contested=contested)
            case P.CLAIMING, Failed(_, why):
                return replace(self, blocked=why, maybe_owned=asked)
            case _:
                return super().learned(report)

    def lost_by(self, report: Report) -> Assignment:
        # The claim may count partitions as won that are lost already: they would be held for good, though we do not
        # own them.
        won = self.phase is P.CLAIMING and not isinstance(report, Failed)
        return only(self.asked, self.lost) if won else NOTHING

    # phases -------------------------------------------------------------------------------------------------------

    def detour(self, phase: Phase) -> tuple[ClaimingMember, Phase]:
        if self.closing:
            return self._way_out(phase)
        if phase is P.CLAIMING and self.stale:
            return self, P.READING  # draining took time; claiming by an old assignment would only disturb the others
        if phase is P.SETTLED and self.stale:
            return self, P.READING
        if phase is P.SETTLED and self.blocked:
            return self, P.WAITING
        if phase is P.READING and not self.registered:
            return self, P.REGISTERING
        return self, phase

    def _way_out(self, phase: Phase) -> tuple[ClaimingMember, Phase]:
        """Return the next phase of a closing member: first partitions that are being revoked, then all, in the same
        order; then it leaves."""
        if phase in CLOSING:
            return self, phase
        state = replace(self, wanted=NOTHING)
        return state, P.STOPPING if state.to_release else P.LEAVING

    def entered(self) -> ClaimingMember:
        match self.phase:
            case P.READING:
                return replace(
                    self,
                    stale=False,
                    blocked="",
                    contested=NOTHING,
                    recreated=frozenset(),
                    located=frozenset(),
                    lost=frozenset(),
                )
            case P.SETTLED:
                return replace(self, tries=0)
            case _:
                return self

    def action(self) -> Action:
        # After the alarm, all or nothing would leave the member with nothing.
        alarmed = self.tries >= max(1, self.max_retries)
        return replace(super().action(), accept_partial=alarmed and self.phase in (P.READING, P.CLAIMING))


def holders(contested: Assignment) -> str:
    """Return the first few contested partitions with their holders, as text."""
    shown = [f"{tp} by {who}" for tp, who in list(contested.items())[:SHOWN]]
    return ", ".join(shown) + (f" and {len(contested) - SHOWN} more" if len(contested) > SHOWN else "")
