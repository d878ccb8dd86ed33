"""Follower of the groups of one source: one round reads what changed, translates it, and writes it at the target.

Order of a round, so that no message counts as read, or as copied, that was not:

1  the offset map
2  where the target's logs begin and end
3  the groups' offsets at the source, of which only what changed is read
4  where the source's logs begin and end
5  a safe offset for each target partition that this daemon writes: those whose first source partition it owns
6  whether the group has members at the target, and whose the offsets there are
7  the lease, once more; then the writes

An error ends the round, and the next one begins again with the same groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from groupadmin.follow.decisions import Followed, followed, record_of, refusal, stale
from groupadmin.follow.mapreader import MapReader
from groupadmin.follow.sourceoffsets import GroupOffsets, SourceOffsets
from groupadmin.follow.targetoffsets import Key, TargetOffsets
from groupadmin.plan.resets import Problem
from groupadmin.snapshot.cluster import AdminClient, Cluster, read_cluster
from groupadmin.snapshot.logends import log_bounds
from groupadmin.translation import Facts, Safe, feeding, translated
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsetmap.mirrored import Mirrored
from zkconsumer.offsetmap.records import OffsetMap

CLUSTER_S = 300.0  # topics and leaders are read again after that, and after an error
KEEP_S = 3600.0  # Kafka deletes the offsets of a group without members, after a day at the earliest


@dataclass(slots=True)
class _Clusters:
    """Both clusters, as read at a moment."""

    source: Cluster
    target: Cluster
    at: float


@dataclass(slots=True)
class _Group:
    """A group: its row, and when all of it was last written to Kafka."""

    row: Followed
    kept_at: float


class Follower:
    """Follower of the groups of one source.

    source: its name.  origin, target: clients of both clusters.  maps: the offset map.  selects(group): whether a
    group of the source follows; target_group(group): its name at the target.  stores: those that are written.
    owned(): source partitions that this daemon owns now, under a lease.
    """

    def __init__(
        self,
        source: str,
        origin: AdminClient,
        target: AdminClient,
        *,
        maps: MapReader,
        selects: Callable[[str], bool],
        target_group: Callable[[str], str],
        stores: Collection[StoreName],
        owned: Callable[[], Collection[TopicPartition]],
    ) -> None:
        self._source = source
        self._origin = origin
        self._target = target
        self._maps = maps
        self._target_group = target_group
        self._owned = owned
        self._kafka = "kafka" in stores
        self._offsets = SourceOffsets(origin, selects)
        self._there = TargetOffsets(target, stores)
        self._clusters: _Clusters | None = None
        self._again: set[str] = set()  # groups that are tried again although nothing changed
        self._groups: dict[str, _Group] = {}
        self._owned_then: frozenset[TopicPartition] = frozenset()

    def rows(self) -> list[Followed]:
        """Return how each group follows, sorted, as of the last round."""
        return [each.row for _, each in sorted(self._groups.items())]

    def round(self) -> None:
        """Follow once.  Raises ZooKeeperAway, ConsumerError and WireError; then the groups are tried again."""
        again, self._again = self._again, set()
        try:
            self._again = self._round(again)
        except Exception:
            self._clusters = None
            self._again = {*again, *self._offsets.groups}
            raise

    def _round(self, again: Collection[str]) -> set[str]:
        """Follow once; return the groups to try again."""
        offsets = self._maps.read()
        clusters = self._read_clusters(offsets)
        owned = frozenset(self._owned())
        if owned != self._owned_then:
            again = {*again, *self._groups, *self._offsets.groups}
            self._owned_then = owned
        topics = {tp.topic for tp in offsets.periods}
        there = {topic: [TopicPartition(topic, p) for p in ps] for topic, ps in clusters.target.partitions.items()}
        names = {name for topic in topics for name in (topic, *offsets.names(topic))}
        ends = log_bounds(self._target, clusters.target, [tp for name in names for tp in there.get(name, ())])
        again = {*again, *self._due()}
        changed = self._offsets.changed(clusters.source, topics, again)
        self._groups = {group: each for group, each in self._groups.items() if group in self._offsets.groups}
        if not changed:
            return set()
        read = {tp: at for group in changed for tp, at in group.read.items()}
        logs = log_bounds(
            self._origin,
            clusters.source,
            [tp for tp in offsets.periods if clusters.source.has(tp)],
            read,
            replicated=False,
        )
        mine = self._mine(offsets, topics, there, owned)
        rows = {
            group.group: translated(offsets, Facts(ends, logs, group.read), there) if not group.problems else {}
            for group in changed
        }
        return self._write(clusters.target, changed, rows, mine, offsets=offsets, logs=logs, ends=ends)

    def _read_clusters(self, offsets: OffsetMap) -> _Clusters:
        """Return both clusters, read again if that is long ago, or if they do not have a partition of the map."""
        now, known = self._target.now(), self._clusters
        if (
            known is None
            or now - known.at >= CLUSTER_S
            or not all(known.source.has(tp) for tp in offsets.periods)
            or not all(known.target.has(tp) for _, tp in offsets.pairs())
            or (self._kafka and not known.target.keeps_offsets)  # the first commit has created the topic meanwhile
        ):
            known = self._clusters = _Clusters(read_cluster(self._origin), read_cluster(self._target), now)
        return known

    def _due(self) -> set[str]:
        """Return the groups whose offsets in Kafka have to be written again, before they expire."""
        if not self._kafka:
            return set()
        now = self._target.now()
        return {group for group, each in self._groups.items() if now - each.kept_at >= KEEP_S}

    def _mine(
        self,
        offsets: OffsetMap,
        topics: Collection[str],
        there: Mapping[str, Collection[TopicPartition]],
        owned: Collection[TopicPartition],
    ) -> dict[TopicPartition, list[TopicPartition]]:
        """Return the target partitions that this daemon writes, with the source partitions that feed them."""
        return {tp: fed for tp, fed in feeding(offsets, topics, there).items() if fed[0] in owned}

    # writing ----------------------------------------------------------------------------------------------------------

    def _write(
        self,
        cluster: Cluster,
        changed: Sequence[GroupOffsets],
        rows: Mapping[str, Mapping[TopicPartition, Safe | Problem]],
        mine: Mapping[TopicPartition, Sequence[TopicPartition]],
        *,
        offsets: OffsetMap,
        logs: Mapping[TopicPartition, tuple[int, int]],
        ends: Mapping[TopicPartition, tuple[int, int]],
    ) -> set[str]:
        """Write what may be written; return the groups to try again."""
        names = {each.group: self._target_group(each.group) for each in changed}
        of_target: dict[str, str] = {}
        for group, name in names.items():
            of_target.setdefault(name, group)
        at_ms, due = self._target.clock_ms(), self._due()
        wanted: dict[str, dict[TopicPartition, Mirrored]] = {}
        waits: dict[str, str] = {}
        for each in changed:
            wanted[each.group] = {}
            problems = list(each.problems)
            for tp, row in rows[each.group].items():
                if tp not in mine:
                    continue
                if isinstance(row, Problem):
                    problems.append(row.text)
                else:
                    facts = Facts(ends, logs, each.read)
                    wanted[each.group][tp] = record_of(
                        self._source, each.group, at_ms, row, mine[tp], offsets=offsets, facts=facts
                    )
            first = of_target[names[each.group]]
            if first != each.group:
                wanted[each.group].clear()
                problems.insert(0, f"group {first} has the same name in the target: see groups.rename")
            waits[each.group] = problems[0] if problems else ""
        busy = self._there.active(cluster, [names[group] for group, some in wanted.items() if some])
        keys = {(names[group], tp): record for group, some in wanted.items() for tp, record in some.items()}
        held = self._there.held(cluster, [key for key in keys if key[0] not in busy])
        alone = {group: busy.get(name, "") for group, name in names.items()}
        whys: dict[Key, str] = {}
        writes: dict[Key, Mirrored] = {}
        stores: dict[Key, list[StoreName]] = {}
        for key, there in held.items():
            group, record = of_target[key[0]], keys[key]
            if why := refusal(record, there):
                alone[group] = alone[group] or f"{key[1]}: {why}"
                whys[key] = why
                continue
            stores[key] = stale(record, there)
            if "kafka" in there and "kafka" not in stores[key] and (group in due or group not in self._groups):
                stores[key].append("kafka")
            if stores[key]:
                writes[key] = record
        owned = frozenset(self._owned())  # what a lease no longer covers is another daemon's to write
        lost = {key for key in writes if mine[key[1]][0] not in owned}
        done = self._there.write(cluster, {key: record for key, record in writes.items() if key not in lost}, stores)
        whys |= {key: why for key, why in done.items() if why} | dict.fromkeys(lost, "its partition was revoked")
        return self._note(changed, names, keys, held, waits=waits, alone=alone, whys=whys)

    def _note(
        self,
        changed: Iterable[GroupOffsets],
        names: Mapping[str, str],
        keys: Mapping[Key, Mirrored],
        held: Mapping[Key, object],
        *,
        waits: Mapping[str, str],
        alone: Mapping[str, str],
        whys: Mapping[Key, str],
    ) -> set[str]:
        """Keep what became of each group; return the groups to try again."""
        again: set[str] = set()
        now = self._target.now()
        failed = [key for key, why in whys.items() if why]
        self._there.forget(failed)
        by_name: dict[str, list[Mirrored]] = {}
        for key, record in keys.items():
            if key in held and not whys.get(key):
                by_name.setdefault(key[0], []).append(record)
        late_of: dict[str, str] = {}
        for name, tp in failed:
            late_of.setdefault(name, f"{tp}: {whys[name, tp]}")
        for each in changed:
            group, name = each.group, names[each.group]
            written = by_name.get(name, [])
            late = late_of.get(name, "")
            reason = waits[group] or (late if not alone[group] else "")
            row = followed(group, name, written, reason, alone[group])
            if reason or alone[group]:
                again.add(group)
            elif not written:  # other daemons of the mirror write all of it
                self._groups.pop(group, None)
                continue
            before = self._groups.get(group)
            kept = before is not None and now - before.kept_at < KEEP_S
            kept_at = -inf if late else before.kept_at if before is not None and kept else now
            self._groups[group] = _Group(row, kept_at)
        return again
