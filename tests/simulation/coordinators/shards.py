"""Partitions of __consumer_offsets that a broker coordinates: taken over, loaded, given up.

What a coordinator knows comes from its own replica of the log, and is as old as that: a broker that has not heard of
the next leader answers on from its cache, a load reads what the replica has, and in old releases only what lies below
its high watermark.  broker-model-coordinators.md 1.2, 1.3, 2.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from groundwork.java import string_hash
from tests.simulation.coordinators.background import Background
from tests.simulation.coordinators.groups import EMPTY, Group, restored
from tests.simulation.coordinators.host import OFFSETS_TOPIC, Host
from tests.simulation.coordinators.offsets import Commit, Commits
from tests.simulation.coordinators.records import (
    Batch,
    CommittedRecord,
    Malformed,
    StoredGroup,
    TopicPartition,
    group_record,
)
from tests.simulation.coordinators.rules import Codes
from tests.simulation.coordinators.writes import Writes

LOAD_BYTES_S = 50e6
SECONDS_OF_A_RACE = 0.001

Stage = Literal["queued", "loading", "owned", "failed"]


def partition_of(key: str, partitions: int) -> int:
    """Where a group or a transactional id is kept; Java's abs, where that of the smallest int is 0."""
    hashed = string_hash(key)
    return 0 if hashed == -(2**31) else abs(hashed) % partitions


class Late(NamedTuple):
    """A loaded commit that is shown once the high watermark is above `at`, its own offset or that of a marker."""

    at: int
    group: str
    tp: TopicPartition
    commit: Commit


class Shard:
    """One partition.  reloads: it is owned, and loaded once more.

    The new coordinator shows what it has loaded from above the high watermark once that has moved (seen on 4.3.1):
    unreplicated; written_to: the end of the log that it has read.
    """

    __slots__ = ("epoch", "groups", "number", "reloads", "stage", "stopped", "unreplicated", "writes", "written_to")

    def __init__(self, number: int, epoch: int) -> None:
        self.number = number
        self.epoch = epoch
        self.stage: Stage = "queued"
        self.reloads = False
        self.groups: dict[str, Group] = {}
        self.unreplicated: list[Late] = []
        self.written_to = 0
        self.writes = Writes()
        self.stopped: dict[Callable[[], object], None] = {}  # what to tell who waits when it is given up


class Loaded:
    """What a load has read.  hides_from: commits from this offset on are not shown yet."""

    __slots__ = ("bytes", "failed", "groups", "hides_from", "late", "offsets", "open")

    def __init__(self) -> None:
        self.hides_from: int | None = None
        self.late: list[Late] = []
        self.offsets: dict[str, Commits] = {}
        self.groups: dict[str, StoredGroup] = {}
        self.open: dict[int, dict[str, Commits]] = {}  # by producer id, of transactions whose end is not there
        self.bytes = 0
        self.failed = False


class Shards:
    """loaded, unloaded: called for each group that comes into memory or goes."""

    def __init__(self, host: Host, background: Background) -> None:
        self.host = host
        self.rules = host.rules
        self.background = background
        self.shards: dict[int, Shard] = {}
        self.loaded: Callable[[Group], object] = lambda group: None
        self.unloaded: Callable[[Group], object] = lambda group: None
        self.count = host.registered_partitions(OFFSETS_TOPIC)  # read once (1.1)

    # who coordinates -----------------------------------------------------------------------------------------------

    def number(self, group: str) -> int:
        if self.count is None:
            self.count = int(self.host.setting("offsets.topic.num.partitions", 50))
        return partition_of(group, self.count)

    def shard(self, group: str) -> Shard | None:
        return self.shards.get(self.number(group))

    def refusal(self, group: str) -> int:
        """0, or the code that this broker answers instead: 14 or 16."""
        shard = self.shard(group)
        rules = self.rules
        if shard is None:
            return Codes.NOT_COORDINATOR
        if shard.stage == "owned":
            return Codes.LOADING if shard.reloads else 0
        if shard.stage == "failed":
            return Codes.NOT_COORDINATOR
        if rules.owned_when_loaded:
            return Codes.NOT_COORDINATOR
        return rules.queued_code if shard.stage == "queued" else Codes.LOADING

    def show_replicated(self, shard: Shard) -> None:
        """Show loaded commits that the high watermark has passed meanwhile."""
        limit = self.host.high_watermark((OFFSETS_TOPIC, shard.number))
        held, shard.unreplicated = shard.unreplicated, []
        for late in held:
            group = shard.groups.get(late.group)
            if late.at >= limit:
                shard.unreplicated.append(late)
            elif group is not None:
                kept = group.offsets.committed.get(late.tp)
                if kept is None or kept.at < late.commit.at:
                    group.offsets.committed[late.tp] = late.commit

    def settled(self, shard: Shard) -> bool:
        """Whether all that was loaded is replicated."""
        return shard.written_to <= self.host.high_watermark((OFFSETS_TOPIC, shard.number))

    def loading(self) -> bool:
        return any(shard.stage == "loading" or shard.reloads for shard in self.shards.values())

    def groups(self) -> list[Group]:
        return [group for shard in self.shards.values() if shard.stage == "owned" for group in shard.groups.values()]

    # leadership ----------------------------------------------------------------------------------------------------

    def elected(self, number: int, epoch: int) -> None:
        """This broker has heard that it leads the partition."""
        held = self.shards.get(number)
        if held is not None and held.stage == "owned":
            held.epoch = max(held.epoch, epoch)
            if not self.rules.epoch_guards_load:  # it reads the log once more, and finds all groups in its cache
                self.background.run(lambda: self._begin(held, None), lambda: self._reloaded(held))
            return
        shard, found = Shard(number, epoch), Loaded()
        self.shards[number] = shard
        self.background.run(lambda: self._begin(shard, found), lambda: self._finish(shard, found))

    def resigned(self, number: int, epoch: int) -> None:
        """This broker has heard that it follows: old answers go on until the background thread gets to it."""
        shard = self.shards.get(number)
        if shard is None:
            return
        if not self.rules.unload_in_background:
            self._unload(shard, epoch)
        else:

            def begin() -> float:
                self._unload(shard, epoch)
                return 0.0

            self.background.run(begin)

    def _unload(self, shard: Shard, epoch: int) -> None:
        current = self.shards.get(shard.number)
        if current is None or (self.rules.epoch_guards_load and current.epoch > epoch):
            return
        shard = current  # before 2.8 a late unload clears what a quick re-election has just loaded
        groups, shard.groups = list(shard.groups.values()), {}
        if self.rules.unload_race and groups and self.host.rng.random() < self.host.hand.race_chance:
            # A fetch that passed the check just before finds no group, and answers -1 with error 0 (1.3).
            self.host.after(SECONDS_OF_A_RACE, self._forget, shard)
        else:
            self._forget(shard)
        for group in groups:
            self.unloaded(group)
        stopped, shard.stopped = list(shard.stopped), {}
        for tell in stopped:
            tell()

    def _forget(self, shard: Shard) -> None:
        if self.shards.get(shard.number) is shard:
            del self.shards[shard.number]

    # loading -------------------------------------------------------------------------------------------------------

    def _begin(self, shard: Shard, found: Loaded | None) -> float:
        if self.shards.get(shard.number) is not shard:
            return 0.0
        if found is None:
            shard.reloads = True
            return self.host.hand.load_s + 0.002 + 0.01 * self.host.rng.random()
        shard.stage = "loading"
        self._read(shard.number, found)
        return self.host.hand.load_s + 0.002 + 0.01 * self.host.rng.random() + found.bytes / LOAD_BYTES_S

    def _reloaded(self, shard: Shard) -> None:
        shard.reloads = False  # groups that are cached stay as they are

    def _finish(self, shard: Shard, found: Loaded) -> None:
        if self.shards.get(shard.number) is not shard:
            return
        if found.failed and not self.rules.failed_load_owns:
            shard.stage = "failed"
            return
        now_ms = self.host.now_ms
        shard.stage = "owned"
        for name, stored in found.groups.items():
            if stored.protocol_type is not None:
                shard.groups.setdefault(name, restored(stored, self.rules.empty_state))
        shard.unreplicated = found.late
        if self.rules.reads_committed_snapshot:
            shard.written_to = self.host.end((OFFSETS_TOPIC, shard.number))
        for late in found.late:
            found.offsets.setdefault(late.group, {})
        for name, commits in found.offsets.items():
            group = shard.groups.get(name)
            if group is None:
                if not commits and not found.late:
                    continue
                group = shard.groups[name] = Group(name, EMPTY, -1)
            group.offsets.committed = commits | group.offsets.committed  # 0.8.2 takes commits while it loads
        for producer_id, by_group in found.open.items():
            for name, commits in by_group.items():
                if commits:
                    group = shard.groups.setdefault(name, Group(name, EMPTY, now_ms))
                    group.offsets.transactional[producer_id] = commits
        for group in list(shard.groups.values()):
            self.loaded(group)

    def _read(self, number: int, found: Loaded) -> None:
        """Read this broker's replica.  Old releases read chunks that begin below the high watermark (2.8)."""
        tp = (OFFSETS_TOPIC, number)
        limit = self.host.high_watermark(tp) if self.rules.load_to_high_watermark else None
        if self.rules.reads_committed_snapshot:
            found.hides_from = self.host.high_watermark(tp)
        chunk = self.host.setting("offsets.load.buffer.size", 5 << 20)
        left: float = 0  # bytes of the chunk
        batches = self.host.hand.cut_loads.pop((self.host.id, number), None)
        try:
            for size, batch in self.host.read(tp):
                if batches is not None:
                    if batches == 0:
                        found.failed = True
                        return
                    batches -= 1
                if limit is not None:
                    if left < size:
                        if batch.base >= limit:
                            return
                        left = chunk
                    left -= size
                found.bytes += size
                self._take(batch, found)
        except Malformed:
            found.failed = True

    def _take(self, batch: Batch, found: Loaded) -> None:
        if batch.committed is not None:
            for name, commits in found.open.pop(batch.producer_id, {}).items():
                if batch.committed:
                    for tp, commit in commits.items():
                        self._keep(found, batch.base, name, tp, commit)
            return
        for _, key, value in batch.records:
            record = group_record(self.rules, key, value)
            if isinstance(record, StoredGroup):
                found.groups[record.group] = record
            elif record is not None:
                self._take_offset(record, batch, found)

    def _take_offset(self, record: CommittedRecord, batch: Batch, found: Loaded) -> None:
        tp: TopicPartition = (record.topic, record.partition)
        if record.offset is None:
            found.offsets.get(record.group, {}).pop(tp, None)
            for by_group in found.open.values():
                by_group.get(record.group, {}).pop(tp, None)
            return
        commit = Commit(
            record.offset, record.metadata, record.leader_epoch, record.commit_ms, record.expire_ms, batch.base
        )
        if batch.transactional:
            found.open.setdefault(batch.producer_id, {}).setdefault(record.group, {})[tp] = commit
        else:
            self._keep(found, batch.base, record.group, tp, commit)

    @staticmethod
    def _keep(found: Loaded, at: int, group: str, tp: TopicPartition, commit: Commit) -> None:
        if found.hides_from is not None and at >= found.hides_from:
            found.late.append(Late(at, group, tp, commit))
            return
        held = found.offsets.setdefault(group, {})
        if tp not in held or held[tp].at < commit.at:
            held[tp] = commit
