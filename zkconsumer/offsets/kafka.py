"""Offsets in Kafka: the topic __consumer_offsets, written by the group's coordinator (0.8.2 and later).

Every given partition is committed, moved or not: a broker drops an offset that is not committed again for
offsets.retention.minutes, a day by default, and an idle partition must not lose its offset (KAFKA-1510).

Each commit names, in its metadata, the topic that was read (offsets/former.py), which identifies a FormerOffset.  A
commit without it has a time, which only the records of __consumer_offsets hold (`commit_times`).

The response "nothing was committed" is not reliable: a coordinator of 0.8.2 to 0.10.2 that takes over may miss the
newest commits; one that could not read its log, or learned late that it was replaced, misses more.  If other evidence
exists (this store committed it, the group has other offsets, ZooKeeper has one), and before 0.11 always, the records of
__consumer_offsets decide (`in_log`).  If they cannot be read either, the skipped messages are reported.

In the hub the Coordinator waits with groundwork.tasks's sleep and now and has its lock; elsewhere it is plain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from groundwork import clocks
from groundwork.sentences import counted
from kafkawire.errors import WireError
from kafkawire.model import TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.coordinator import CommittedRow, Coordinator
from zkconsumer.offsets.former import (
    TopicCreation,
    committed_before,
    former_commit,
    former_read,
    metadata_of,
    topic_in,
)
from zkconsumer.offsets.store import NONE, Bounds, Committed, FormerOffset, Unknown
from zkconsumer.session.lease import Lease, LeaseOver

InLog = Callable[[str, Collection[TopicPartition]], Mapping[TopicPartition, CommittedRow]]
"""Newest commits of a group in the records of __consumer_offsets, without those that could not be read."""


class OffsetsAway(ConsumerError):
    """Raised when offsets in Kafka cannot be read now; the reason is __cause__."""


class KafkaOffsets:
    """Offset store for `offsets.storage=kafka`."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        commits: Coordinator | None = None,
        retention_ms: int | None = None,
        creations: Callable[[Collection[str]], Mapping[str, TopicCreation]] = lambda topics: {},
        read_from: Callable[[TopicPartition], TopicCreation | None] = lambda tp: None,
        commit_times: Callable[[str, Collection[TopicPartition]], Mapping[TopicPartition, int]] = lambda group, tps: {},
        in_log: InLog = lambda group, tps: {},
        bounds: Bounds = lambda committed: {},
        report: Callable[[TopicPartition, str], object] = lambda tp, sentence: None,
    ) -> None:
        """commits: coordinator used for commits; None: the same.  retention_ms: offset retention time; None: the
        brokers' own.

        creations      when topics were created, from ZooKeeper now; unknown ones are left out
        read_from      the topic whose log a committed offset belongs to
        commit_times   times of a group's commits, in ms since 1970, for those without a topic; unknown ones omitted
        in_log         asked if the coordinator says that nothing is committed, and that is doubtful
        bounds         log bounds of partitions that were committed, and are not any more
        report         (tp, sentence): an offset that the coordinator does not know
        """
        self._coordinator = coordinator
        self._commits = commits or coordinator
        self._retention_ms = retention_ms
        self._creations = creations
        self._read_from = read_from
        self._commit_times = commit_times
        self._in_log = in_log
        self._bounds = bounds
        self._report = report
        self._accepted: dict[tuple[str, TopicPartition], int] = {}  # last offsets committed here

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the committed offsets; Unknown if the coordinator has an error for a partition or leaves it out.

        Waits as long as the coordinator's timeouts allow.  Raises OffsetsAway if no broker could be asked, or the
        release keeps no offsets in Kafka.
        """
        wanted = list(tps)
        ours = {tp: self._accepted[group, tp] for tp in wanted if (group, tp) in self._accepted}
        rows = self._rows(group, wanted, ours)
        none = [tp for tp in wanted if rows[tp].at is NONE]
        beside = any(isinstance(row.at, int) for row in rows.values())
        everything = beside or self._coordinator.may_miss_commits
        doubted = none if everything else [tp for tp in none if tp in ours]
        proven = self._proven(group, doubted)
        gone = [tp for tp in doubted if tp in ours or (beside and tp not in proven)]
        passed = [tp for tp in gone if tp not in proven or proven[tp].at is NONE]
        self._report_passed(group, passed, {tp: f"this member committed {at}" for tp, at in ours.items()}, ours)
        return self._with_former(group, rows | proven)

    def read_beside(
        self, group: str, there: Mapping[TopicPartition, int], others: bool
    ) -> dict[TopicPartition, Committed]:
        """Read partitions again for which ZooKeeper has an offset and Kafka has none.

        others: Kafka has other offsets of the group, so it once had one of these, too, unless its log says otherwise:
        Unknown if the log cannot be read.  Raises OffsetsAway.
        """
        rows = self._rows(group, list(there), there)
        none = [tp for tp, row in rows.items() if row.at is NONE]
        proven = self._proven(group, none)
        found = self._with_former(group, rows | proven)
        for tp in none:
            if tp not in proven and (others or (group, tp) in self._accepted):
                found[tp] = Unknown(
                    f"group {group}, {tp}: the coordinator says that nothing is committed and ZooKeeper has {there[tp]}"
                    f", but Kafka has other offsets of the group; {OFFSETS_TOPIC} cannot be read to see whether it had"
                    " this one; let the member read that topic, or set the offset (zkconsumer offsets set)"
                )
        return found

    def _rows(
        self, group: str, tps: list[TopicPartition], known: Collection[TopicPartition]
    ) -> dict[TopicPartition, CommittedRow]:
        try:
            return self._coordinator.fetch_rows(group, tps, "kafka", known)
        except WireError as why:
            raise OffsetsAway(f"the offsets of group {group} cannot be read from Kafka: {why}") from why

    def _proven(self, group: str, doubted: Collection[TopicPartition]) -> dict[TopicPartition, CommittedRow]:
        """Return the records of partitions for which the coordinator has no offset; report the ones that it missed."""
        proven = dict(self._in_log(group, doubted)) if doubted else {}
        for tp, row in proven.items():
            if row.at is not NONE:
                self._report(
                    tp,
                    f"group {group}, {tp}: the coordinator says that nothing is committed, {OFFSETS_TOPIC} holds"
                    f" {row.at}: that counts, and is committed again",
                )
        return proven

    def _report_passed(
        self,
        group: str,
        tps: Collection[TopicPartition],
        evidence: Mapping[TopicPartition, str],
        committed: Mapping[TopicPartition, int],
    ) -> None:
        """Report partitions that begin by auto.offset.reset although there is evidence of an offset."""
        bounds = self._bounds({tp: committed.get(tp, 0) for tp in tps}) if tps else {}
        for tp in tps:
            passes = ""
            if tp in bounds:
                first, end = bounds[tp]
                count = max(0, end - max(first, committed.get(tp, first)))
                if not count and tp not in evidence:
                    continue  # most likely a new partition
                passes = f": largest passes {counted(count, 'message')}"
            why = evidence.get(tp, "the group has offsets of other partitions")
            self._report(
                tp,
                f"group {group}, {tp}: the coordinator says, asked twice, that nothing is committed, though {why};"
                f" auto.offset.reset decides where to begin{passes}",
            )

    def _with_former(self, group: str, rows: Mapping[TopicPartition, CommittedRow]) -> dict[TopicPartition, Committed]:
        return {tp: row.at for tp, row in rows.items()} | self._former(group, rows)

    def _former(self, group: str, rows: Mapping[TopicPartition, CommittedRow]) -> dict[TopicPartition, FormerOffset]:
        """Return the offsets that belong to earlier topics."""
        held = {tp: (row.at, topic_in(row.metadata)) for tp, row in rows.items() if isinstance(row.at, int)}
        today = self._creations({tp.topic for tp in held})
        unnamed = [tp for tp, (_, read) in held.items() if read is None and tp.topic in today]
        times = self._commit_times(group, unnamed) if unnamed else {}
        found = {}
        for tp, (at, read) in held.items():
            topic, commit_ms = today.get(tp.topic), times.get(tp)
            if topic is None:
                continue
            if read is not None and read.czxid != topic.czxid:
                found[tp] = former_read(tp.topic, at, read, topic)
            elif read is None and commit_ms is not None and committed_before(commit_ms, topic.ctime_ms):
                found[tp] = former_commit(tp.topic, at, commit_ms, topic)
        return found

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Commit all of these.  The lease is checked before each request is sent; once it is over, none is sent."""
        rows = {tp: (at, metadata_of(self._read_from(tp))) for tp, at in positions.items()}
        try:
            results = self._commits.commit(
                group, rows, "kafka", self._retention_ms, before_send=lambda: lease.check(clocks.moment())
            )
        except (LeaseOver, WireError) as why:  # earlier requests may have written: a repetition changes nothing
            return dict.fromkeys(positions, why)
        self._accepted |= {(group, tp): positions[tp] for tp, why in results.items() if why is None}
        return dict(results)
