"""Offsets of groups at their coordinator: OffsetCommit, OffsetFetch, TxnOffsetCommit, retention.

A commit is a record in __consumer_offsets; it is visible once its append is acknowledged.  What is pending, hidden or
lost after a failover follows from that (broker-model-coordinators.md 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkawire.errors import WireError
from kafkawire.protocol.subscriptions import PROTOCOL_TYPE, read_subscription
from tests.simulation.coordinators.groups import EMPTY, STABLE, Group
from tests.simulation.coordinators.host import OFFSETS_TOPIC, Host
from tests.simulation.coordinators.membership import WRITE_S, Membership
from tests.simulation.coordinators.offsets import Commit
from tests.simulation.coordinators.records import Pair, TopicPartition, encode, group_key, offset_key, offset_value
from tests.simulation.coordinators.rules import Codes
from tests.simulation.coordinators.shards import Shard, Shards

FOREVER_S = 1e6
CHECK_S = 600.0  # offsets.retention.check.interval.ms

Fields = dict[str, Any]
Verify = Callable[[str, int, int, TopicPartition, Callable[[int], object]], object]


class Commits:
    """verify: asks the coordinator of a transactional id whether a partition is in its open transaction.

    stored, fetched: offsets in ZooKeeper.
    """

    def __init__(self, host: Host, shards: Shards, membership: Membership, verify: Verify) -> None:
        self.host = host
        self.rules = host.rules
        self.shards = shards
        self.membership = membership
        self.verify = verify
        self.acks = membership.acks
        self.commit_s = host.setting("offsets.commit.timeout.ms", WRITE_S * 1000) / 1000
        self.max_metadata = int(host.setting("offset.metadata.max.bytes", 4096))
        minutes = host.setting("offsets.retention.minutes", self.rules.retention_s / 60)
        self.retention_ms = int(minutes * 60_000)
        if self.rules.keeps_offsets:
            self.check_s = host.setting("offsets.retention.check.interval.ms", CHECK_S * 1000) / 1000
            host.after(self.check_s, self._check)

    # OffsetCommit --------------------------------------------------------------------------------------------------

    def commit(self, request: Any) -> None:
        body = request.body
        if request.version == 0:
            request.answer(_codes(body, self._to_zookeeper(body)))
            return
        codes, rows = self._known(body)
        if not rows and codes:
            request.answer(_codes(body, codes))  # the coordinator is never asked
            return
        name, generation, member_id = body["group"], body["generation"], body["member_id"]
        code = self._refusal(name, commits=True)
        instance = body.get("group_instance_id")
        if not code:
            code = self.membership.commit_refusal(self.membership.find(name), member_id, generation, instance)
        if code:
            request.answer(_codes(body, codes | dict.fromkeys(rows, code)))
            return
        commits = {tp: self._commit_of(row, body, request.version) for tp, row in rows.items()}
        self._store(name, commits, lambda found: request.answer(_codes(body, codes | found)))

    def _refusal(self, name: str, *, commits: bool = False) -> int:
        """Whether this broker coordinates the group.  In 0.8.2 whoever leads the partition does; a load stops fetches
        only (1.2)."""
        code = self.shards.refusal(name)
        if self.rules.owner_by_leadership:
            if self.host.leads((OFFSETS_TOPIC, self.shards.number(name))) is None:
                return Codes.NOT_COORDINATOR
            return 0 if commits or code == Codes.NOT_COORDINATOR else code
        return code

    def _known(self, body: Fields) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Fields]]:
        """Partitions that this broker's cache does not know, with their code, and the rows of the others."""
        codes: dict[TopicPartition, int] = {}
        rows: dict[TopicPartition, Fields] = {}
        for topic in body["topics"]:
            name = topic["topic"]
            count = self.host.partitions(name) if self.rules.checks_topic else None
            for row in topic["partitions"]:
                tp = (name, row["partition"])
                known = count is not None and (not self.rules.checks_partition or row["partition"] < count)
                if self.rules.checks_topic and not known:
                    codes[tp] = Codes.UNKNOWN_TOPIC
                else:
                    rows[tp] = row
        return codes, rows

    def _commit_of(self, row: Fields, body: Fields, version: int) -> Commit:
        """Time and expiry of a commit, by version and release (2.7)."""
        rules, now_ms = self.rules, self.host.now_ms
        stamped: int = row.get("timestamp", -1)
        asked: int = body.get("retention_ms", -1)
        commit_ms, expire_ms = now_ms, None
        if rules.commit_time_only:
            commit_ms = now_ms if stamped == -1 else stamped
        elif rules.expires_by_age:
            retention_ms = self.retention_ms if asked == -1 else asked
            expire_ms = (now_ms if stamped == -1 else stamped) + retention_ms
        else:
            commit_ms = now_ms if stamped == -1 else stamped
            expire_ms = None if asked == -1 else now_ms + asked
        return Commit(row["offset"], row["metadata"] or "", row.get("leader_epoch", -1), commit_ms, expire_ms)

    def _store(
        self,
        name: str,
        commits: dict[TopicPartition, Commit],
        answer: Callable[[dict[TopicPartition, int]], object],
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Append commits, all of them or none; those with too much metadata are left out, with 12."""
        rules = self.rules
        large = {tp: c for tp, c in commits.items() if len(c.metadata) > self.max_metadata}
        good = {tp: c for tp, c in commits.items() if tp not in large}
        codes = dict.fromkeys(large, Codes.METADATA_TOO_LARGE)
        if not good:
            answer(codes)
            return
        shard = self.shards.shard(name)
        if shard is None:  # 0.8.2 takes commits before its load has begun
            shard = Shard(self.shards.number(name), -1)
        group = shard.groups.get(name)
        if group is None:
            group = shard.groups[name] = Group(name, EMPTY, self.host.now_ms)
        held = group
        noted = commits if rules.keeps_refused_pending else good  # 2.2 at its end
        if rules.caches_refused:
            group.offsets.committed |= large
        for tp, commit in noted.items():
            if producer is None:
                held.offsets.begin(tp, commit)
            else:
                held.offsets.begin_transactional(producer[0], tp, commit)
        pairs = [(offset_key(rules, name, *tp), self._value(commit)) for tp, commit in good.items()]
        waits = [True]
        number = shard.writes.begin()

        def appended(code: int, base: int) -> None:
            self._appended(held, good, producer, code, base)
            shard.writes.settled(number)
            settle(self._code_of_commit(code))

        def settle(code: int) -> None:
            if waits:
                waits.clear()
                shard.stopped.pop(stop, None)
                answer(codes | dict.fromkeys(good, code))

        def stop() -> None:
            settle(Codes.NOT_COORDINATOR)

        timeout_s = self.commit_s
        if rules.reads_committed_snapshot:  # it becomes visible whenever it is replicated, after the answer too (2.4)
            shard.stopped[stop] = None
            self.host.after(timeout_s, settle, rules.timeout_code)
            timeout_s = FOREVER_S
        data = encode(rules.magic, pairs, self.host.now_ms, producer)
        tp = (OFFSETS_TOPIC, self.shards.number(name))
        self.host.append(tp, data, -1 if producer else self.acks, timeout_s, appended)

    def _value(self, commit: Commit) -> bytes:
        return offset_value(
            self.rules, commit.offset, commit.metadata, commit.leader_epoch, commit.commit_ms, commit.expire_ms
        )

    def _appended(
        self,
        group: Group,
        commits: dict[TopicPartition, Commit],
        producer: tuple[int, int] | None,
        code: int,
        base: int,
    ) -> None:
        offsets = group.offsets
        for tp, commit in commits.items():
            commit.at = base
            if producer is not None:
                if code:
                    offsets.failed_transactional(producer[0], tp, commit)
            elif code:
                offsets.failed(tp, commit)
            else:
                offsets.acknowledged(self.rules, tp, commit)

    def _code_of_commit(self, code: int) -> int:
        """broker-model-coordinators.md 2.4."""
        rules = self.rules
        if code == Codes.TIMED_OUT:
            return rules.timeout_code
        if code == Codes.UNKNOWN_TOPIC:
            return Codes.NOT_AVAILABLE
        if code in (Codes.NOT_ENOUGH_REPLICAS, Codes.TOO_FEW_AFTER_APPEND):
            return code if rules.raw_replica_codes else Codes.NOT_AVAILABLE
        if code in (Codes.NOT_LEADER, Codes.OFFLINE_DISK):
            return Codes.NOT_COORDINATOR
        return rules.too_large_code if code in (10, 18) else code

    # OffsetFetch ---------------------------------------------------------------------------------------------------

    def fetch(self, request: Any) -> None:
        body, version = request.body, request.version
        asked: list[TopicPartition] | None = None
        if body["topics"] is not None:
            asked = [(topic["topic"], number) for topic in body["topics"] for number in topic["partitions"]]
        if version == 0:
            request.answer(self._fetched({tp: self._from_zookeeper(body["group"], tp) for tp in asked or ()}))
            return
        name = body["group"]
        code = self._refusal(name)
        if code:
            rows = {} if version >= 2 else dict.fromkeys(asked or (), _row(None, code))
            request.answer(self._fetched(rows, code))
            return
        stable = bool(body.get("require_stable")) and self.rules.require_stable

        def answer(late: int) -> None:
            request.answer(self._fetched({} if late else self._rows(name, asked, stable), late))

        if stable and self.rules.stable_waits:
            self.membership.behind_writes(name, answer, Codes.NOT_COORDINATOR)
        else:
            answer(0)

    def _rows(self, name: str, asked: list[TopicPartition] | None, stable: bool) -> dict[TopicPartition, Fields]:
        shard = self.shards.shard(name)
        if shard is not None and shard.unreplicated:
            self.shards.show_replicated(shard)
        group = None if shard is None else shard.groups.get(name)
        if group is None:
            return {tp: self._unknown(tp) for tp in asked or ()}
        offsets = group.offsets
        rows: dict[TopicPartition, Fields] = {}
        for tp in offsets.committed if asked is None else asked:
            if stable and offsets.unstable(tp, plain=not self.rules.stable_waits):
                rows[tp] = _row(None, Codes.UNSTABLE)
            else:
                commit = offsets.committed.get(tp)
                rows[tp] = self._unknown(tp) if commit is None else _row(commit)
        return rows

    def _unknown(self, tp: TopicPartition) -> Fields:
        """0.8.2 says 3 for a partition that it does not know, later ones do not look (2.5)."""
        if self.rules.fetch_unknown_topic_3:
            count = self.host.partitions(tp[0])
            if count is None or tp[1] >= count:
                return _row(None, Codes.UNKNOWN_TOPIC)
        return _row(None)

    def _fetched(self, rows: dict[TopicPartition, Fields], code: int = 0) -> Fields:
        topics: dict[str, list[Fields]] = {}
        for (topic, partition), row in rows.items():
            topics.setdefault(topic, []).append({"partition": partition, **row})
        listed = [{"topic": topic, "partitions": found} for topic, found in topics.items()]
        return {"throttle_time_ms": 0, "topics": listed, "error": code}

    # TxnOffsetCommit -----------------------------------------------------------------------------------------------

    def commit_transactional(self, request: Any) -> None:
        body, version = request.body, request.version
        codes, rows = self._known(body)
        if not rows and codes:
            request.answer(_codes(body, codes))
            return
        name = body["group"]
        code = self._refusal(name)
        if not code:
            member_id, generation = body.get("member_id", ""), body.get("generation", -1)
            group, instance = self.membership.find(name), body.get("group_instance_id")
            code = self.membership.transactional_refusal(group, member_id, generation, instance)

        def refuse(code: int) -> None:
            if code == Codes.LOADING and version < 2:
                code = Codes.NOT_AVAILABLE
            request.answer(_codes(body, codes | dict.fromkeys(rows, code)))

        def store() -> None:
            commits = {tp: self._commit_of(row, body, 2) for tp, row in rows.items()}
            producer = (body["producer_id"], body["producer_epoch"])
            self._store(name, commits, lambda found: request.answer(_codes(body, codes | found)), producer)

        if code:
            refuse(code)
        elif self.rules.txn_commit_verified:
            tp = (OFFSETS_TOPIC, self.shards.number(name))
            producer = (body["producer_id"], body["producer_epoch"])
            self.verify(
                body["transactional_id"],
                *producer,
                tp,
                lambda code: refuse(self._unverified(code)) if code else store(),
            )
        else:
            store()

    @staticmethod
    def _unverified(code: int) -> int:
        """A failure of the network is told as 14 (2.6)."""
        return Codes.LOADING if code < 0 else code

    def transaction_ended(self, number: int, producer_id: int, committed: bool) -> None:
        """The marker of a transaction is in the log of a partition: on the background thread its offsets move (2.6)."""

        def begin() -> float:
            shard = self.shards.shards.get(number)
            if shard is not None and shard.stage == "owned":
                for group in shard.groups.values():
                    group.offsets.end(producer_id, committed)
            return 0.0

        if self.rules.new_coordinator:
            begin()
        else:
            self.shards.background.run(begin)

    # retention -----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        self.host.after(self.check_s, self._check)

        def begin() -> float:
            for shard in list(self.shards.shards.values()):
                if shard.stage == "owned":
                    for group in list(shard.groups.values()):
                        self.expire(shard, group, self.expired(group))
            return 0.0

        self.shards.background.run(begin)

    def expired(self, group: Group) -> list[TopicPartition]:
        """Offsets that the next check removes (2.7)."""
        rules, now_ms, retention_ms = self.rules, self.host.now_ms, self.retention_ms
        offsets = group.offsets
        committed = {
            tp: commit
            for tp, commit in offsets.committed.items()
            if not offsets.unstable(tp, plain=True) or (tp not in offsets.pending and not rules.txn_pending_protects)
        }
        if rules.commit_time_only:
            return [tp for tp, commit in committed.items() if now_ms - commit.commit_ms > retention_ms]
        if rules.expires_by_age:
            return [tp for tp, commit in committed.items() if (commit.expire_ms or 0) < now_ms]
        simple = group.protocol_type is None
        if not simple and group.state != EMPTY:
            if not (rules.expires_unsubscribed and group.protocol_type == PROTOCOL_TYPE and group.state == STABLE):
                return []
            topics = self._subscribed(group)
            if topics is None:
                return []
            committed = {tp: commit for tp, commit in committed.items() if tp[0] not in topics}
        found = []
        for tp, commit in committed.items():
            if commit.expire_ms is not None:
                due = now_ms >= commit.expire_ms
            else:
                emptied = not simple and group.state == EMPTY and group.since_ms >= 0
                due = now_ms - (group.since_ms if emptied else commit.commit_ms) >= retention_ms
            if due:
                found.append(tp)
        return found

    @staticmethod
    def _subscribed(group: Group) -> set[str] | None:
        topics: set[str] = set()
        for member in group.members.values():
            try:
                topics |= set(read_subscription(member.metadata(group.protocol)).topics)
            except WireError:
                return None
        return topics

    def expire(self, shard: Shard, group: Group, tps: list[TopicPartition]) -> None:
        """Remove offsets, and the group with its last one.  Tombstones are appended without waiting for replicas."""
        pairs: list[Pair] = []
        for tp in tps:
            group.offsets.remove(tp)
            pairs.append((offset_key(self.rules, group.id, *tp), None))
        if group.state == EMPTY and not group.offsets and not group.members and not group.pending_ids:
            if group.generation > 0 and self.rules.empty_state:
                pairs.append((group_key(group.id), None))
            self.membership.forget(group)
        if pairs:
            data = encode(self.rules.magic, pairs, self.host.now_ms)
            self.host.append((OFFSETS_TOPIC, shard.number), data, 0, self.commit_s, lambda code, base: None)

    def topic_deleted(self, topic: str) -> None:
        """The offsets of a deleted topic go at once (0.10.2 and later)."""
        if self.rules.deletes_with_topic:
            for shard in list(self.shards.shards.values()):
                if shard.stage == "owned":
                    for group in list(shard.groups.values()):
                        self.expire(shard, group, [tp for tp in group.offsets.committed if tp[0] == topic])

    # offsets in ZooKeeper ------------------------------------------------------------------------------------------

    def _to_zookeeper(self, body: Fields) -> dict[TopicPartition, int]:
        codes: dict[TopicPartition, int] = {}
        for topic in body["topics"]:
            count = self.host.partitions(topic["topic"])
            for row in topic["partitions"]:
                tp = (topic["topic"], row["partition"])
                if not self._has_zookeeper:
                    codes[tp] = Codes.UNSUPPORTED_VERSION
                elif count is None:
                    codes[tp] = Codes.UNKNOWN_TOPIC
                elif len(row["metadata"] or "") > self.max_metadata:
                    codes[tp] = Codes.METADATA_TOO_LARGE
                else:
                    self.host.put(_path(body["group"], tp), b"%d" % row["offset"])
                    codes[tp] = 0
        return codes

    @property
    def _has_zookeeper(self) -> bool:
        return self.rules.zookeeper_offsets and not self.host.cluster.rules.kraft

    def _from_zookeeper(self, group: str, tp: TopicPartition) -> Fields:
        if not self._has_zookeeper:
            return _row(None, Codes.UNSUPPORTED_VERSION)
        count = self.host.partitions(tp[0])
        data = None if count is None or tp[1] >= count else self.host.get(_path(group, tp))
        if data is None:
            return _row(None, Codes.UNKNOWN_TOPIC)
        return _row(Commit(int(data), "", -1, -1, None))


def _path(group: str, tp: TopicPartition) -> str:
    return f"/consumers/{group}/offsets/{tp[0]}/{tp[1]}"


def _row(commit: Commit | None, code: int = 0) -> Fields:
    if commit is None:
        return {"offset": -1, "leader_epoch": -1, "metadata": "", "error": code}
    return {"offset": commit.offset, "leader_epoch": commit.leader_epoch, "metadata": commit.metadata, "error": code}


def _codes(body: Fields, codes: dict[TopicPartition, int]) -> Fields:
    topics = [
        {
            "topic": topic["topic"],
            "partitions": [
                {"partition": row["partition"], "error": codes[topic["topic"], row["partition"]]}
                for row in topic["partitions"]
            ],
        }
        for topic in body["topics"]
    ]
    return {"throttle_time_ms": 0, "topics": topics}
