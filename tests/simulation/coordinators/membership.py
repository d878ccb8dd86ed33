"""Members of groups at their coordinator: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups.

The classic protocol.  A generation is handed out in memory and written down only with the leader's assignment, so a
coordinator that takes over knows the last completed one (broker-model-coordinators.md 3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.coordinators.groups import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    Answer,
    Group,
    Member,
    Protocols,
)
from tests.simulation.coordinators.host import OFFSETS_TOPIC, Host
from tests.simulation.coordinators.records import encode, group_key, group_value
from tests.simulation.coordinators.rules import Codes
from tests.simulation.coordinators.shards import Shards

NEW_MEMBER_S = 300.0  # a new member that waits in a join longer is removed
LOOK_S = 0.005  # between looks at the high watermark
WRITE_S = 5.0  # until a request that waits for earlier writes is given up (offsets.commit.timeout.ms)

Fields = dict[str, Any]


class Membership:
    def __init__(self, host: Host, shards: Shards) -> None:
        self.host = host
        self.rules = host.rules
        self.shards = shards
        shards.loaded = self._loaded
        shards.unloaded = self._unloaded
        self.initial_delay_s = host.setting("group.initial.rebalance.delay.ms", 3000) / 1000
        self.session_min_s = host.setting("group.min.session.timeout.ms", 6000) / 1000
        self.session_max_s = host.setting("group.max.session.timeout.ms", self.rules.session_max_s * 1000) / 1000
        self.max_size = host.setting("group.max.size", 1 << 31)
        self.acks = int(host.setting("offsets.commit.required.acks", -1)) if self.rules.commits_acks else -1
        self.write_s = host.setting("offsets.commit.timeout.ms", WRITE_S * 1000) / 1000

    # groups --------------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Group | None:
        """A group with a state of its own.  In 0.9 one without members does not exist, whatever offsets it has."""
        shard = self.shards.shard(name)
        group = None if shard is None else shard.groups.get(name)
        return None if group is None or (group.state == EMPTY and not self.rules.empty_state) else group

    def held(self, name: str) -> Group:
        """The group, made if need be, of a shard that this broker owns."""
        shard = self.shards.shard(name)
        assert shard is not None
        group = shard.groups.get(name)
        if group is None:
            group = shard.groups[name] = Group(name, EMPTY, self.host.now_ms)
        return group

    def forget(self, group: Group) -> None:
        """Remove a group from memory, if no offset is left of it."""
        group.enter(DEAD, self.host.now_ms)
        shard = self.shards.shard(group.id)
        if shard is not None and shard.groups.get(group.id) is group:
            del shard.groups[group.id]

    def _loaded(self, group: Group) -> None:
        """All session timers start again when a load ends (3.5)."""
        for member in group.members.values():
            self._touch(group, member)
        if len(group.members) > self.max_size:
            self._prepare(group)

    def _unloaded(self, group: Group) -> None:
        group.enter(DEAD, self.host.now_ms)
        for member in group.members.values():
            joining, member.joining = member.joining, None
            syncing, member.syncing = member.syncing, None
            if joining is not None:
                joining(_not_joined(Codes.NOT_COORDINATOR, member.id))
            if syncing is not None:
                syncing(_assignment(Codes.NOT_COORDINATOR))

    # sessions ------------------------------------------------------------------------------------------------------

    def _touch(self, group: Group, member: Member, seconds: float | None = None) -> None:
        """Its session begins again; a timer that is due no later than that looks again then."""
        member.deadline = self.host.now + (member.session_s if seconds is None else seconds)
        if member.look_at is None or member.look_at > member.deadline:
            self._look_at(group, member)

    def _look_at(self, group: Group, member: Member) -> None:
        member.look_at = member.deadline
        self.host.after(member.deadline - self.host.now, self._look, group, member, member.deadline)

    def _look(self, group: Group, member: Member, due: float) -> None:
        if member.look_at != due or group.state == DEAD or group.members.get(member.id) is not member:
            return
        member.look_at = None
        if member.deadline > due:
            self._look_at(group, member)
            return
        waits = member.joining is not None or member.syncing is not None
        if not waits or (member.is_new and self.rules.new_members_expire):
            self._remove(group, member)
        # else it is touched with its answer

    def _remove(self, group: Group, member: Member) -> None:
        group.remove(member)
        joining, member.joining = member.joining, None
        if joining is not None:
            joining(_not_joined(Codes.UNKNOWN_MEMBER, member.id))
        if group.state in (STABLE, COMPLETING):
            self._prepare(group)
        elif group.state == PREPARING:
            self._try_complete(group)

    # JoinGroup -----------------------------------------------------------------------------------------------------

    def join(self, request: Any) -> None:
        body, version = request.body, request.version
        member_id: str = body["member_id"]
        code = 24 if not body["group"] else self.shards.refusal(body["group"])
        session_s = body["session_timeout"] / 1000
        if not code and not self.session_min_s <= session_s <= self.session_max_s:
            code = Codes.INVALID_SESSION_TIMEOUT
        group = None if code else self.find(body["group"])
        if not code and group is None and member_id:
            code = Codes.UNKNOWN_MEMBER
        if code:
            request.answer(_not_joined(code, member_id))
            return
        if group is None:
            group = self.held(body["group"])
            if not self.rules.empty_state:
                group.enter(STABLE, self.host.now_ms)  # a new group of 0.9 is Stable, without members
        instance = body.get("group_instance_id") if self.rules.static_members else None
        rebalance_s = session_s if self.rules.rebalance_timeout_is_session else body.get("rebalance_timeout", -1) / 1000
        rebalance_s = session_s if rebalance_s < 0 else rebalance_s
        protocols: Protocols = [(row["name"], bytes(row["metadata"])) for row in body["protocols"]]
        newcomer = Member(member_id, instance, request.client_id, rebalance_s, session_s, protocols)
        code = self._admit(group, newcomer, body["protocol_type"], version, request.answer)
        if code:
            request.answer(_not_joined(code, newcomer.id))
            if not group.members and not group.offsets and not group.pending_ids and group.generation == 0:
                self.forget(group)

    def _admit(self, group: Group, newcomer: Member, protocol_type: str, version: int, answer: Answer) -> int:
        """0: it is answered, or will be.  79: `newcomer` has the id to come back with."""
        rules = self.rules
        full = rules.bounds_group_size and len(group.members) >= self.max_size
        if full and newcomer.id not in group.members and newcomer.instance_id not in group.static:
            return Codes.GROUP_FULL
        if not group.supports(protocol_type, newcomer.protocols):
            return Codes.INCONSISTENT_PROTOCOL
        if not group.members:
            group.protocol_type = protocol_type
        if not newcomer.id:
            newcomer.id = self._new_id(newcomer)
            if newcomer.instance_id is not None and newcomer.instance_id in group.static:
                self._take_place(group, newcomer, answer)
            elif newcomer.instance_id is None and version >= rules.member_id_required_version:
                group.pending_ids[newcomer.id] = self.host.now + newcomer.session_s
                self.host.after(newcomer.session_s, self._id_unused, group, newcomer.id)
                return Codes.MEMBER_ID_REQUIRED
            else:
                self._add(group, newcomer, answer)
            return 0
        if newcomer.id in group.pending_ids:
            self._add(group, newcomer, answer)
            return 0
        if group.fenced(newcomer.id, newcomer.instance_id):
            return Codes.FENCED_INSTANCE
        member = group.members.get(newcomer.id)
        if member is None:
            return Codes.UNKNOWN_MEMBER
        same = member.protocols == newcomer.protocols
        leads = group.leader == member.id
        if same and (group.state == COMPLETING or (group.state == STABLE and not leads)):
            self._touch(group, member)
            answer(self._joined(group, member, lists=leads and group.state == COMPLETING))
            return 0
        member.protocols = newcomer.protocols
        member.session_s, member.rebalance_s = newcomer.session_s, newcomer.rebalance_s
        member.joining = answer
        self._rebalance(group)
        return 0

    def _new_id(self, member: Member) -> str:
        front = member.client_id if member.instance_id is None else member.instance_id
        digits = f"{self.host.rng.getrandbits(128):032x}"
        return f"{front}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def _id_unused(self, group: Group, member_id: str) -> None:
        if group.state != DEAD and group.pending_ids.pop(member_id, None) is not None:
            self._try_complete(group)

    def _add(self, group: Group, member: Member, answer: Answer) -> None:
        member.is_new = True
        member.joining = answer
        if group.state == PREPARING and group.generation == 0:
            group.newcomers = True
        group.add(member)
        if self.rules.new_members_expire:
            self._touch(group, member, NEW_MEMBER_S)
        self._rebalance(group)

    def _take_place(self, group: Group, newcomer: Member, answer: Answer) -> None:
        """A static member has come back under a new id: the old one is fenced (KIP-345)."""
        old = group.members[group.static[newcomer.instance_id or ""]]
        leader = group.leader
        member = group.replace(old, newcomer.id)
        if old.joining is not None:
            old.joining(_not_joined(Codes.FENCED_INSTANCE, old.id))
        if old.syncing is not None:
            old.syncing(_assignment(Codes.FENCED_INSTANCE))
        member.protocols = newcomer.protocols
        member.session_s, member.rebalance_s = newcomer.session_s, newcomer.rebalance_s
        if group.state == STABLE and group.choose_protocol() == group.protocol:
            self._touch(group, member)
            fields = self._joined(group, member, lists=False)
            fields["leader_id"] = leader  # the old id, so that it does not assign
            if self.rules.writes_replaced_static:
                assignments = {one.id: one.assignment for one in group.members.values()}
                self._store(group, assignments, lambda code: answer(fields))
            else:
                answer(fields)
        else:
            member.joining = answer
            self._rebalance(group)

    def _joined(self, group: Group, member: Member, *, lists: bool) -> Fields:
        rows = [
            {"member_id": one.id, "group_instance_id": one.instance_id, "metadata": one.metadata(group.protocol)}
            for one in (group.members.values() if lists else ())
        ]
        return {
            "throttle_time_ms": 0,
            "error": 0,
            "generation": group.generation,
            "protocol": group.protocol or "",
            "leader_id": group.leader or "",
            "member_id": member.id,
            "members": rows,
        }

    # rebalances ----------------------------------------------------------------------------------------------------

    def _rebalance(self, group: Group) -> None:
        if group.state == PREPARING:
            self._try_complete(group)
        else:
            self._prepare(group)

    def _prepare(self, group: Group) -> None:
        if group.state == COMPLETING:
            for member in group.members.values():
                member.assignment = b""
                syncing, member.syncing = member.syncing, None
                if syncing is not None:
                    syncing(_assignment(Codes.REBALANCING))
        first = self.rules.initial_delay and group.state == EMPTY
        group.enter(PREPARING, self.host.now_ms)
        group.round += 1
        if first and self.initial_delay_s > 0:
            group.waiting_initially = True
            left = max(group.rebalance_s - self.initial_delay_s, 0.0)
            self.host.after(self.initial_delay_s, self._initially, group, group.round, left)
        else:
            self.host.after(group.rebalance_s, self._join_over, group, group.round)
            self._try_complete(group)

    def _initially(self, group: Group, round: int, left: float) -> None:
        """The first members have come; more may, as long as new ones do (3.2)."""
        if group.state != PREPARING or group.round != round:
            return
        if group.newcomers and left > 0:
            group.newcomers = False
            seconds = min(self.initial_delay_s, left)
            self.host.after(seconds, self._initially, group, round, left - seconds)
        else:
            group.waiting_initially = False
            self._complete(group)

    def _join_over(self, group: Group, round: int) -> None:
        if group.state == PREPARING and group.round == round:
            self._complete(group)

    def _try_complete(self, group: Group) -> None:
        if group.state == PREPARING and not group.waiting_initially and group.all_joined():
            self._complete(group)

    def _complete(self, group: Group) -> None:
        """The join phase is over: who has not joined is removed, the others are told the next generation."""
        for member in list(group.members.values()):
            if member.joining is None and not (self.rules.static_members and member.instance_id is not None):
                group.remove(member)
        joined = [member for member in group.members.values() if member.joining is not None]
        if group.members and not joined:
            self.host.after(group.rebalance_s, self._join_over, group, group.round)
            return
        group.round += 1
        group.newcomers = False
        if not joined:
            self._emptied(group)
            return
        if group.leader is None or group.members[group.leader].joining is None:
            group.leader = joined[0].id
        group.generation += 1
        group.protocol = group.choose_protocol()
        group.enter(COMPLETING, self.host.now_ms)
        answers: list[tuple[Answer, Fields]] = []
        for member in group.members.values():
            joining, member.joining = member.joining, None
            member.is_new, member.unsynced = False, True
            self._touch(group, member)
            if joining is not None:
                answers.append((joining, self._joined(group, member, lists=member.id == group.leader)))
        if self.rules.expires_unsynced:
            self.host.after(group.rebalance_s, self._sync_over, group, group.generation)
        for answer, fields in answers:
            answer(fields)

    def _emptied(self, group: Group) -> None:
        """The last member has gone: Empty in the next generation; in 0.9 the group is removed and begins again at 1."""
        group.protocol = group.leader = None
        if self.rules.empty_state:
            group.generation += 1
            group.enter(EMPTY, self.host.now_ms)
            self._store(group, {}, lambda code: None)
            return
        group.generation = 0
        self._tombstone(group)
        if group.offsets:
            group.enter(EMPTY, self.host.now_ms)
        else:
            self.forget(group)

    # SyncGroup -----------------------------------------------------------------------------------------------------

    def sync(self, request: Any) -> None:
        body = request.body
        code = self.shards.refusal(body["group"])
        if code == Codes.LOADING and self.rules.sync_while_loading_27:
            code = Codes.REBALANCING
        group = None if code else self.find(body["group"])
        if group is None:
            request.answer(_assignment(code or Codes.UNKNOWN_MEMBER))
            return
        code = self._stranger(group, body)
        if not code and group.state in (EMPTY, PREPARING):
            code = Codes.REBALANCING if group.state == PREPARING else Codes.UNKNOWN_MEMBER
        if code:
            request.answer(_assignment(code))
            return
        member = group.members[body["member_id"]]
        member.unsynced = False
        if group.state == STABLE:
            self._touch(group, member)
            request.answer(_assignment(0, member.assignment))  # a lost answer is repeated
            return
        member.syncing = request.answer
        if member.id == group.leader:
            assignments = dict.fromkeys(group.members, b"")
            assignments |= {row["member_id"]: bytes(row["assignment"]) for row in body["assignments"]}
            generation = group.generation
            self._store(group, assignments, lambda code: self._assigned(group, generation, assignments, code))

    def _stranger(self, group: Group, body: Fields) -> int:
        """82, 25 or 22 for a request whose member id or generation is not of the group."""
        instance = body.get("group_instance_id") if self.rules.static_members else None
        if group.fenced(body["member_id"], instance):
            return Codes.FENCED_INSTANCE
        if body["member_id"] not in group.members:
            return Codes.UNKNOWN_MEMBER
        return 0 if body["generation"] == group.generation else Codes.ILLEGAL_GENERATION

    def _assigned(self, group: Group, generation: int, assignments: dict[str, bytes], code: int) -> None:
        """The leader's assignment is written down, or that failed."""
        if group.state != COMPLETING or group.generation != generation:
            return
        answers: list[tuple[Answer, Fields]] = []
        for member in group.members.values():
            member.assignment = b"" if code else assignments[member.id]
            syncing, member.syncing = member.syncing, None
            if syncing is not None:
                self._touch(group, member)
                answers.append((syncing, _assignment(code, member.assignment)))
        if code:
            self._prepare(group)
        else:
            group.enter(STABLE, self.host.now_ms)
        for answer, fields in answers:
            answer(fields)

    def _sync_over(self, group: Group, generation: int) -> None:
        """Members that did not sync in time are removed (2.8 and later)."""
        if group.state not in (COMPLETING, STABLE) or group.generation != generation:
            return
        late = [member for member in group.members.values() if member.unsynced]
        for member in late:
            group.remove(member)
        if late:
            self._prepare(group)

    # Heartbeat, LeaveGroup -----------------------------------------------------------------------------------------

    def heartbeat(self, request: Any) -> None:
        body = request.body
        code = self.shards.refusal(body["group"])
        if code == Codes.LOADING:
            code = 0  # blindly (1.2)
        elif not code:
            code = self._beat(self.find(body["group"]), body)
        if self.rules.reads_committed_snapshot and not code:
            self.behind_writes(body["group"], lambda late: request.answer(_code(late)), Codes.NOT_AVAILABLE)
        else:
            request.answer(_code(code))

    def _beat(self, group: Group | None, body: Fields) -> int:
        """broker-model-coordinators.md 3.4."""
        rules = self.rules
        if group is None:
            return Codes.UNKNOWN_MEMBER
        state = group.state
        member = group.members.get(body["member_id"])
        if rules.heartbeat_rebalance_first and state != STABLE:
            return Codes.REBALANCING
        if state == COMPLETING and not rules.heartbeat_generation_while_syncing:
            return Codes.REBALANCING if member is not None else Codes.UNKNOWN_MEMBER
        code = self._stranger(group, body)
        if code or member is None:
            return code
        if state == COMPLETING and not rules.heartbeat_ok_while_syncing:
            return Codes.REBALANCING
        self._touch(group, member)
        return Codes.REBALANCING if state == PREPARING else 0

    def leave(self, request: Any) -> None:
        body = request.body
        code = self.shards.refusal(body["group"])
        group = None if code else self.find(body["group"])
        if group is None:
            request.answer(_code(code or Codes.UNKNOWN_MEMBER))
            return
        member = group.members.get(body["member_id"])
        known = member is not None or group.pending_ids.pop(body["member_id"], None) is not None
        request.answer(_code(0 if known else Codes.UNKNOWN_MEMBER))
        if member is not None:
            self._remove(group, member)
        elif known:
            self._try_complete(group)

    # commits -------------------------------------------------------------------------------------------------------

    def commit_refusal(self, group: Group | None, member_id: str, generation: int, instance_id: str | None) -> int:
        """0, or the code for a commit v1 and later; a member that may commit is alive (2.2, steps 5 to 9)."""
        rules = self.rules
        if not rules.checks_members:
            return 0
        if group is None:
            return 0 if generation < 0 else Codes.ILLEGAL_GENERATION
        if rules.static_members and group.fenced(member_id, instance_id):
            return Codes.FENCED_INSTANCE
        if generation < 0 and group.state == EMPTY:
            return 0
        if rules.state_before_member and group.state == COMPLETING:
            return Codes.REBALANCING
        member = group.members.get(member_id)
        if member is None:
            return Codes.UNKNOWN_MEMBER
        if generation != group.generation:
            return Codes.ILLEGAL_GENERATION
        if group.state == COMPLETING:
            return Codes.REBALANCING
        if rules.commit_touches_member:
            self._touch(group, member)
        return 0

    def transactional_refusal(
        self, group: Group | None, member_id: str, generation: int, instance_id: str | None
    ) -> int:
        """0, or the code for a TxnOffsetCommit; whatever the state of the group (2.6)."""
        if not self.rules.txn_checks_members or group is None:
            return 0
        if group.fenced(member_id, instance_id):
            return Codes.FENCED_INSTANCE
        if member_id and member_id not in group.members:
            return Codes.UNKNOWN_MEMBER
        return Codes.ILLEGAL_GENERATION if 0 <= generation != group.generation else 0

    def behind_writes(self, name: str, answer: Callable[[int], object], late: int) -> None:
        """Call answer(0) once all that was written before is replicated, answer(late) when that takes too long."""
        shard = self.shards.shard(name)
        if shard is None:
            answer(0)
            return
        open = [answer]

        def once(code: int) -> None:
            if open:
                shard.stopped.pop(stop, None)
                open.pop()(code)

        def stop() -> None:
            once(Codes.NOT_COORDINATOR)

        def go_on() -> None:
            if open and not self.shards.settled(shard):
                self.host.after(LOOK_S, go_on)
            else:
                once(0)

        waits = shard.writes.wait(go_on)
        if not waits and self.shards.settled(shard):
            once(0)
            return
        shard.stopped[stop] = None
        self.host.after(self.write_s, once, late)
        if not waits:
            go_on()

    # DescribeGroups, ListGroups ------------------------------------------------------------------------------------

    def describe(self, request: Any) -> None:
        rows = [self._described(name) for name in request.body["groups"]]
        request.answer({"throttle_time_ms": 0, "groups": rows})

    def _described(self, name: str) -> Fields:
        code = self.shards.refusal(name)
        group = None if code else self.find(name)
        row: Fields = {"error": code, "group": name, "state": "" if code else DEAD, "protocol_type": ""}
        row |= {"protocol": "", "members": []}
        if group is None:
            return row
        stable = group.state == STABLE and bool(group.members)
        row["state"] = self.rules.syncing_name if group.state == COMPLETING else group.state
        row["protocol_type"] = group.protocol_type or ""
        row["protocol"] = (group.protocol or "") if stable else ""
        row["members"] = [
            {
                "member_id": member.id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "metadata": member.metadata(group.protocol) if stable else b"",
                "assignment": member.assignment if stable else b"",
            }
            for member in group.members.values()
        ]
        return row

    def list_groups(self, request: Any) -> None:
        """While a partition loads: error 14, together with those that are there already."""
        code = Codes.LOADING if self.shards.loading() and not self.rules.new_coordinator else 0
        groups = [group for group in self.shards.groups() if group.state != EMPTY or self.rules.empty_state]
        rows = [{"group": group.id, "protocol_type": group.protocol_type or ""} for group in groups]
        request.answer({"throttle_time_ms": 0, "error": code, "groups": rows})

    # the log -------------------------------------------------------------------------------------------------------

    def _store(self, group: Group, assignments: dict[str, bytes], done: Callable[[int], object]) -> None:
        value = group_value(self.rules, group.stored(assignments))
        self._append(group.id, [(group_key(group.id), value)], done)

    def _tombstone(self, group: Group) -> None:
        self._append(group.id, [(group_key(group.id), None)], lambda code: None)

    def _append(self, name: str, pairs: list[tuple[bytes, bytes | None]], done: Callable[[int], object]) -> None:
        shard = self.shards.shard(name)
        data = encode(self.rules.magic, pairs, self.host.now_ms)
        number = None if shard is None else shard.writes.begin()

        def appended(code: int, base: int) -> None:
            if shard is not None and number is not None:
                shard.writes.settled(number)
            done(self._code_of_write(code))

        self.host.append((OFFSETS_TOPIC, self.shards.number(name)), data, self.acks, self.write_s, appended)

    def _code_of_write(self, code: int) -> int:
        """What members are told when the group could not be written down (3.3)."""
        if code == Codes.TIMED_OUT:
            return self.rules.sync_timeout_code
        if code == Codes.UNKNOWN_TOPIC:
            return Codes.NOT_AVAILABLE
        if code in (Codes.NOT_ENOUGH_REPLICAS, Codes.TOO_FEW_AFTER_APPEND):
            return Codes.NOT_AVAILABLE if self.rules.sync_replica_codes_mapped else code
        if code in (Codes.NOT_LEADER, Codes.OFFLINE_DISK):
            return Codes.NOT_COORDINATOR
        return -1 if code in (10, 18) else code


def _not_joined(code: int, member_id: str) -> Fields:
    row: Fields = {"throttle_time_ms": 0, "error": code, "generation": -1, "protocol": "", "leader_id": ""}
    return row | {"member_id": member_id, "members": []}


def _assignment(code: int, assignment: bytes = b"") -> Fields:
    return {"throttle_time_ms": 0, "error": code, "assignment": assignment}


def _code(code: int) -> Fields:
    return {"throttle_time_ms": 0, "error": code}
