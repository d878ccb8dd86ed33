"""A group as its coordinator has it in memory: members, states, generations.  Decides nothing that needs a clock.

    Empty                 no members; offsets, perhaps (0.10.1 and later)
    PreparingRebalance    waits for JoinGroup of all members that it knows
    Completing            every member was told the new generation; waits for the assignment of the leader
    Stable                assigned, and written down
    Dead                  removed from memory

broker-model-coordinators.md 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.simulation.coordinators.offsets import GroupOffsets
from tests.simulation.coordinators.records import MemberRecord, StoredGroup

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = "Empty", "PreparingRebalance", "Completing", "Stable", "Dead"

Answer = Callable[[dict[str, Any]], object]
Protocols = list[tuple[str, bytes]]


class Member:
    """joining, syncing: who waits for the answer to a JoinGroup, a SyncGroup.  deadline: when its session ends;
    look_at: when a timer looks at it."""

    __slots__ = (
        "assignment", "client_host", "client_id", "deadline", "id", "instance_id", "is_new", "joining", "look_at",
        "protocols", "rebalance_s", "session_s", "syncing", "unsynced",
    )  # fmt: skip

    def __init__(
        self, id: str, instance_id: str | None, client_id: str, rebalance_s: float, session_s: float,
        protocols: Protocols, client_host: str = "/127.0.0.1",
    ) -> None:  # fmt: skip
        self.id = id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_s = rebalance_s
        self.session_s = session_s
        self.protocols = protocols
        self.assignment = b""
        self.joining: Answer | None = None
        self.syncing: Answer | None = None
        self.unsynced = False
        self.is_new = False
        self.deadline = 0.0
        self.look_at: float | None = None

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")


class Group:
    """protocol_type None: no member has joined, a simple consumer commits.  since_ms: when it got into its state, as
    far as that is known.  round: counts joins, so that a timer of an earlier one does nothing."""

    __slots__ = (
        "generation", "id", "leader", "members", "newcomers", "offsets", "pending_ids", "protocol", "protocol_type",
        "round", "since_ms", "state", "static", "waiting_initially",
    )  # fmt: skip

    def __init__(self, id: str, state: str, since_ms: int) -> None:
        self.id = id
        self.state = state
        self.since_ms = since_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}  # member id by instance id
        self.pending_ids: dict[str, float] = {}  # told to join again with this id, until then
        self.offsets = GroupOffsets()
        self.round = 0
        self.newcomers = False
        self.waiting_initially = False

    def enter(self, state: str, now_ms: int) -> None:
        self.state = state
        self.since_ms = now_ms

    # members --------------------------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        if not self.members:
            self.protocol_type = self.protocol_type or "consumer"
        if self.leader is None or self.leader not in self.members:
            self.leader = member.id
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        self.pending_ids.pop(member.id, None)

    def remove(self, member: Member) -> None:
        self.members.pop(member.id, None)
        if member.instance_id is not None and self.static.get(member.instance_id) == member.id:
            del self.static[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: Member, id: str) -> Member:
        """Another process takes the place of a static member, under another id (KIP-345)."""
        replaced = {id if key == old.id else key: member for key, member in self.members.items()}
        if self.leader == old.id:
            self.leader = id
        new = Member(id, old.instance_id, old.client_id, old.rebalance_s, old.session_s, old.protocols)
        new.assignment, new.is_new = old.assignment, old.is_new
        replaced[id] = new
        self.members = replaced
        if old.instance_id is not None:
            self.static[old.instance_id] = id
        return new

    def fenced(self, member_id: str, instance_id: str | None) -> bool:
        """Whether another member id has taken this instance id."""
        return instance_id is not None and self.static.get(instance_id, member_id) != member_id

    @property
    def rebalance_s(self) -> float:
        return max((member.rebalance_s for member in self.members.values()), default=0.0)

    def all_joined(self) -> bool:
        return not self.pending_ids and all(member.joining is not None for member in self.members.values())

    # protocols ------------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Iterable[tuple[str, bytes]]) -> bool:
        names = [name for name, _ in protocols]
        if not self.members:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and any(name in names for name in self._common())

    def _common(self) -> list[str]:
        rows = iter(self.members.values())
        common = [name for name, _ in next(rows).protocols]
        for member in rows:
            names = {name for name, _ in member.protocols}
            common = [name for name in common if name in names]
        return common

    def choose_protocol(self) -> str:
        """The one that most members prefer, of those that all know."""
        common = self._common()
        votes = dict.fromkeys(common, 0)
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if name in votes)
            votes[vote] += 1
        return max(common, key=lambda name: votes[name])

    # what is written down -------------------------------------------------------------------------------------------

    def stored(self, assignments: dict[str, bytes]) -> StoredGroup:
        members = tuple(
            MemberRecord(
                member.id, member.instance_id, member.client_id, member.client_host,
                int(member.rebalance_s * 1000), int(member.session_s * 1000),
                member.metadata(self.protocol), assignments.get(member.id, b""),
            )
            for member in self.members.values()
        )  # fmt: skip
        return StoredGroup(
            self.id, self.protocol_type or "", self.generation, self.protocol, self.leader, self.since_ms, members
        )


def restored(stored: StoredGroup, empty_state: bool) -> Group:
    """A group as a coordinator that takes over knows it: Stable or Empty, as of the last completed SyncGroup (3.5)."""
    group = Group(stored.group, STABLE if stored.members or not empty_state else EMPTY, stored.since_ms)
    group.generation, group.protocol, group.leader = stored.generation, stored.protocol, stored.leader
    group.protocol_type = stored.protocol_type or None
    for row in stored.members:
        protocols = [(stored.protocol or "", row.subscription)]
        member = Member(
            row.member_id, row.instance_id, row.client_id, row.rebalance_ms / 1000, row.session_ms / 1000, protocols
        )
        member.client_host, member.assignment = row.client_host, row.assignment
        group.members[member.id] = member
        if member.instance_id is not None:
            group.static[member.instance_id] = member.id
    return group
