"""Health of a group: finds problems in what ZooKeeper holds.  Pure.

no session       an owner or id node that no session holds, as in a copied tree: it never goes away by itself, and its
                 partitions are not read
no owner         a partition that a member should read has no owner node: it is not read
not registered   an owner node's thread belongs to no member: its process is gone, or registers elsewhere
not assigned     the owner is not the thread that the assignment strategy gives
reads nothing    a member should own partitions but owns none: it is registered, but does not work
unreadable       a member's id node cannot be parsed: no JVM member can read the group as long as it stays
idle             more threads than partitions: allowed, so not a fault
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from groundwork.decimals import decimal_int
from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.group.assignor import RANGE, ROUNDROBIN, StrategyRefused, Threads, assign, java_order
from zkconsumer.group.membership import surplus, threads_of

NO_OWNER = "no owner"
NO_SESSION = "no session"
SESSIONLESS = "no session holds it, so it never goes away; `zkconsumer groups unblock` deletes such nodes"


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group as ZooKeeper holds it.

    streams: for each member that can be read, by topic.  unreadable: why the others cannot be read.  owners: the text
    of each owner node.  partitions: in the dialect's order, of the topics that any member reads; a missing topic has no
    partitions.  sessionless_members, sessionless_owners: those whose nodes no session holds.
    """

    streams: Mapping[str, Mapping[str, int]]
    owners: Mapping[TopicPartition, str]
    partitions: Mapping[str, Sequence[PartitionId]]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    sessionless_members: Set[str] = frozenset()
    sessionless_owners: Set[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a group.  kind: one of the list above; fault: True if it must be fixed."""

    kind: str
    text: str
    tp: TopicPartition | None = None
    member: str | None = None
    fault: bool = True

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def verify(facts: GroupFacts, strategy: str | None = None, relaxed: bool = False) -> list[Finding]:
    """Return the findings on a group; without a .fault, the group is healthy or has no members.

    strategy: range or roundrobin.  None: unknown (ZooKeeper does not hold it); the one that explains the owners better
    is used.  relaxed: roundrobin's rule since 0.10.2.
    """
    if strategy is not None:
        return _verify(facts, strategy, relaxed)
    found = [_verify(facts, which, relaxed) for which in (RANGE, ROUNDROBIN)]
    return min(found, key=lambda findings: sum(finding.fault for finding in findings))


def _verify(facts: GroupFacts, strategy: str, relaxed: bool) -> list[Finding]:
    threads = threads_of(facts.streams)
    findings = [Finding("unreadable", f"member {m}: {why}", member=m) for m, why in sorted(facts.unreadable.items())]
    findings += [
        Finding(NO_SESSION, f"the id node of member {m}: {SESSIONLESS}", member=m)
        for m in sorted(facts.sessionless_members)
    ]
    try:
        given = assign(strategy, facts.partitions, threads, relaxed)
    except StrategyRefused as e:
        given = {}
        findings.append(Finding("refused", str(e)))
    wanted = {tp: thread for thread, tps in given.items() for tp in tps}
    findings += _owners(facts, threads, wanted)
    findings += _idle_members(facts, wanted)
    return findings + [Finding("idle", str(one), fault=False) for one in surplus(threads, facts.partitions)]


def _owners(facts: GroupFacts, threads: Mapping[str, Threads], wanted: Mapping[TopicPartition, str]) -> list[Finding]:
    """Return at most one finding for each partition."""
    found: list[Finding] = []
    for topic in threads:
        for tp in (TopicPartition(topic, p) for p in facts.partitions.get(topic, ())):
            if tp not in facts.owners:
                text = f"{tp} has no owner, so it is not read" + (f"; it is {wanted[tp]}'s" if tp in wanted else "")
                found.append(Finding(NO_OWNER, text, tp))
    for tp, owner in sorted(facts.owners.items(), key=lambda one: (one[0].topic, str(one[0].partition).zfill(10))):
        member = _member_of(owner, facts)
        if tp in facts.sessionless_owners:
            found.append(
                Finding(NO_SESSION, f"the owner node of {tp}, which holds {owner!r}: {SESSIONLESS}", tp, member)
            )
        elif member is None:
            text = f"{tp} is owned by {owner!r}, which is not a thread of a registered member"
            found.append(Finding("not registered", text, tp))
        elif tp in wanted and owner not in (wanted[tp], wanted[tp].rpartition("-")[0]):
            text = f"{tp} is owned by {owner}, and should be by {wanted[tp]}"
            found.append(Finding("not assigned", text, tp, member))
    return found


def _member_of(owner: str, facts: GroupFacts) -> str | None:
    """Return the member that the thread belongs to (or the member itself, for clients that leave the number out)."""
    members = facts.streams.keys() | facts.unreadable.keys()
    before, _, number = owner.rpartition("-")
    index = decimal_int(number)
    if before in members and index is not None:
        streams = max(facts.streams.get(before, {"": 1 << 31}).values(), default=0)
        if index < streams:
            return before
    return owner if owner in members else None


def _idle_members(facts: GroupFacts, wanted: Mapping[TopicPartition, str]) -> list[Finding]:
    """Return findings about members that should own partitions but own none."""
    due: dict[str, list[TopicPartition]] = {}
    for tp, thread in wanted.items():
        due.setdefault(thread.rpartition("-")[0], []).append(tp)
    busy = {_member_of(owner, facts) for owner in facts.owners.values()}
    return [
        Finding("reads nothing", f"member {m} owns nothing, and should own {_some(due[m])}", member=m)
        for m in java_order(due)
        if m not in busy and m not in facts.sessionless_members
    ]


def _some(tps: Sequence[TopicPartition]) -> str:
    return f"{tps[0]}" if len(tps) == 1 else f"{len(tps)} partitions, the first {tps[0]}"
