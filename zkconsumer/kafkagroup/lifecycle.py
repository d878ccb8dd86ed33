"""Lifecycle on Kafka's coordinator: the rules of a member that is given its assignment (zkconsumer.member.machine).
Pure.

Theory.  The coordinator decides which members the group has; one member, the leader, assigns the partitions.  Both hold
for a generation, which begins when every member has joined and ends when the next one begins.  The generation is the
claim.  The coordinator checks the claim at each commit, so a member that missed a rebalance cannot change an offset.
The coordinator cannot stop such a member from reading: the lease does, which answered heartbeats prove (heartbeats).
One rebalance:

    stop fetchers -> drain -> commit offsets -> join -> sync -> read offsets -> start fetchers

The rebalance is eager, like the Java consumer's with range, roundrobin and sticky: everything is revoked before the
member joins, since the next owner of a partition starts at once, and the coordinator then refuses commits of the
previous generation.  Heartbeats continue until the member joins again.

    the group rebalances   (27) revoke in order, then join
    fenced                 (22, 25) others may own everything: drop it at once, commit nothing, join again; as a new
                           member if the coordinator does not know us (25)
    the lease is over      like fenced, but the coordinator may still know us
    something changed      topics, partitions or our subscription: revoke in order and join, which makes all others
                           join, too; a change during a rebalance costs one more
    refused                the group never accepts such a member (23, 24, 26, 30): alarm, and retry at long intervals
    close                  revoke in order, then leave the group

A partition whose offset cannot be read stays ours, unread, until it can be.

Rejected:

    incremental (cooperative)   partitions that stay are read all the time.  But every member has to offer it, which
                                Java consumers before 2.4 do not; and each change costs two rebalances
    reading while joining       no pause for partitions that stay.  But once all members have joined, the coordinator
                                refuses commits of the previous generation
    reading after a fence       as in ZooKeeper after a refused claim.  But owner nodes show who owns a partition; here
                                only the coordinator knows, and it has given our partitions away
    leaving at a failed join    each retry would be one more rebalance of all other members
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from zkconsumer.member.machine import IN_BOTH, REVOKING, MemberState
from zkconsumer.member.steps import (
    NOTHING,
    Action,
    Assignment,
    Changed,
    Claim,
    Close,
    Failed,
    Fenced,
    Finished,
    Happening,
    IdGiven,
    IdUnknown,
    JoinAgain,
    Joined,
    Phase,
    Rebalancing,
    Refused,
    Report,
    Synced,
    only,
    without,
)

P = Phase


@dataclass(frozen=True)
class JoiningMember(MemberState):
    """State of a member of a coordinated group.  owned: assigned by the leader, in the generation of `claim`."""

    NEXT: ClassVar[dict[tuple[Phase, type[Report]], Phase]] = {
        **IN_BOTH,
        (P.JOINING, Joined): P.SYNCING,
        (P.JOINING, IdGiven): P.JOINING,
        (P.JOINING, IdUnknown): P.JOINING,
        (P.JOINING, Refused): P.WAITING,
        (P.JOINING, Failed): P.WAITING,
        (P.SYNCING, Synced): P.LOCATING,
        (P.SYNCING, JoinAgain): P.JOINING,
        (P.SYNCING, Failed): P.WAITING,
        (P.COMMITTING, Finished): P.JOINING,
        (P.COMMITTING, Failed): P.JOINING,  # the next owner reads some messages again; otherwise no member would
        (P.WAITING, Finished): P.JOINING,
    }

    phase: Phase = P.JOINING
    member_id: str = ""  # kept from generation to generation; "": the coordinator does not know us (any more)
    claim: Claim | None = None

    @property
    def tried(self) -> bool:
        # A coordinator that has just started refuses joins for some seconds: wait on.
        return self.phase in (P.SETTLED, P.CLOSED) or self.refused

    @property
    def missing(self) -> Assignment:
        return without(self.owned, self.running)

    def work(self, phase: Phase) -> Assignment:
        if phase in REVOKING:
            return only(self.owned, self.running)
        if phase is P.LOCATING:
            return self.missing
        if phase is P.STARTING:
            return only(self.missing, self.located)
        return NOTHING

    # happenings ---------------------------------------------------------------------------------------------------

    def happened(self, event: Happening) -> tuple[JoiningMember, Phase | None, Assignment]:
        match event:
            case Rebalancing(claim) | Fenced(claim) if claim != self.claim:
                return self, None, NOTHING  # of a generation that we left
            case Changed() | Rebalancing():
                idle = self.claim is not None and self.phase in (P.SETTLED, P.LOCATING, P.WAITING)
                # otherwise it is on its way there, or the current action comes first
                return replace(self, stale=True), P.STOPPING if idle and not self.closing else None, NOTHING
            case Fenced(_, forget):
                return self._not_in_it(forget), P.LEAVING if self.closing else P.JOINING, self.owned
            case Close():
                return replace(self, closing=True), self._closes, NOTHING
            case _:
                raise ValueError(f"{event} does not happen to a member of a coordinated group")

    @property
    def _closes(self) -> Phase | None:
        """Return the phase that a close begins with; None: the current action comes first.  A new member needs the
        result of its join to leave the group."""
        if self.phase in (P.SETTLED, P.LOCATING, P.SYNCING, P.WAITING):
            return P.STOPPING
        return P.LEAVING if self.phase is P.JOINING and self.member_id else None

    # reports ------------------------------------------------------------------------------------------------------

    def learned(self, report: Report) -> JoiningMember:
        match self.phase, report:
            case P.JOINING, Joined(_, claim):
                return replace(self, claim=claim, member_id=claim.member_id, refused=False)
            case P.JOINING, IdGiven(_, member_id):
                return replace(self, member_id=member_id)
            case P.JOINING, IdUnknown():
                return replace(self, member_id="")
            case P.JOINING, Refused(_, why):
                return replace(self, blocked=why, refused=True)
            case P.SYNCING, Synced(_, assignment):
                return replace(self, owned=assignment)
            case P.SYNCING, JoinAgain(_, forget):
                return self._not_in_it(forget)
            case P.SYNCING, Failed(_, why):
                return replace(self._not_in_it(), blocked=why)
            case P.COMMITTING, _:
                return replace(self, owned=NOTHING, running=frozenset())
            case _:
                return super().learned(report)

    def _not_in_it(self, forget: bool = False) -> JoiningMember:
        """Return the state after leaving the group.  With `forget`, the member id is dropped too."""
        member_id = "" if forget else self.member_id
        return replace(self, claim=None, owned=NOTHING, running=frozenset(), member_id=member_id)

    # phases -------------------------------------------------------------------------------------------------------

    def detour(self, phase: Phase) -> tuple[JoiningMember, Phase]:
        return self, self._way_out(phase) if self.closing else self._way_on(phase)

    def _way_out(self, phase: Phase) -> Phase:
        if phase in (*REVOKING, P.CLOSED):
            return phase
        if self.running and phase is not P.LEAVING:
            return P.STOPPING
        return P.LEAVING if self.member_id else P.CLOSED

    def _way_on(self, phase: Phase) -> Phase:
        if self.stale and self.claim is not None and phase in (P.LOCATING, P.STARTING, P.SETTLED, P.WAITING):
            return P.STOPPING  # leads on to joining again if nothing is read yet
        if phase is P.SETTLED and self.missing:
            return P.WAITING
        if phase is P.JOINING and self.phase is P.WAITING and self.claim is not None:
            return P.LOCATING  # it waited for offsets, and is still a member
        return phase

    def entered(self) -> JoiningMember:
        match self.phase:
            case P.JOINING | P.LEAVING:
                return replace(self._not_in_it(), stale=False)
            case P.SETTLED:
                return replace(self, tries=0, blocked="", refused=False)
            case _:
                return self

    def action(self) -> Action:
        return replace(super().action(), member_id=self.member_id, claim=self.claim)
