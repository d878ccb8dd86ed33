"""Stream over topics on the driver: its begin, the end of each micro-batch, and missing messages.

    start()               the first offsets, the same whenever they are asked for
    ends(begin, ..)       the offsets a batch that begins there goes to
    ranges(begin, end)    what its tasks read
    freeze()              AvailableNow: later messages are ignored

The rules are those of Spark's kafka source, also for maxOffsetsPerTrigger and minOffsetsPerTrigger; that for bytes is
ours.  Data loss (a partition is gone, its log ends before the offset, a new one does not begin at 0) is a DataLoss
error, unless failOnDataLoss=false: then it is logged, a partition that is gone keeps its offset for the case that it
comes back, and where a log ends earlier the stream goes on from that end.  What may be so for a moment only (a broker
that has just started, a new leader that is behind) is asked again first.

Spark asks for the end every 10 ms while there is nothing new: the brokers are asked at most each ENDS_EVERY_S, and for
their topics each VIEW_EVERY_S, which is how soon a new partition is seen.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kafkawire.cluster.view import ClusterView
from kafkawire.model import TopicPartition
from sparkpipeline.cluster.boundaries import EntryBoundaries, ends_at_boundaries, offsets_are_bytes
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import DataLoss, UnknownPartition
from sparkpipeline.ranges import OffsetRange, limited_by_lag
from sparkpipeline.source.offsetbounds import Bound, Fixed, Offsets, Time, in_order, offsets_text
from sparkpipeline.source.querycluster import GroupOffsets
from sparkpipeline.source.readtasks import sample_sizes
from sparkpipeline.source.resolver import resolve_start
from sparkpipeline.source.sourceoptions import SourceOptions
from sparkpipeline.source.statedir import first_start
from sparkpipeline.source.subscription import Subscription

log = logging.getLogger(__name__)

At = Mapping[TopicPartition, int]
ENDS_EVERY_S = 0.1
VIEW_EVERY_S = 5.0
SIZES_S = 60.0  # how long a sample of messages' sizes is good for


class MicroBatches:
    """brokers are its own: close() ends them.  now, sleep: monotonic seconds."""

    def __init__(
        self,
        options: SourceOptions,
        brokers: Brokers,
        positions: GroupOffsets,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.options = options
        self.brokers = brokers
        self.latest: dict[TopicPartition, int] | None = None  # as last seen: for the query's progress
        self._positions = positions
        self._now = now
        self._sleep = sleep
        self._looked_s = self._viewed_s = -math.inf
        self._start: dict[TopicPartition, int] | None = None
        self._frozen: dict[TopicPartition, int] | None = None
        self._gone: set[TopicPartition] = set()  # reported already
        self._patience = MinOffsets(options.min_offsets_per_trigger, options.max_trigger_delay_ms / 1000)
        self._border = EntryBoundaries.of(brokers, options.fetch_bytes)
        self._sizes: dict[TopicPartition, float] = {}
        self._sized_s = -math.inf

    # ---- where it begins -------------------------------------------------------------------------------------------

    def start(self) -> dict[TopicPartition, int]:
        """Return the first offsets, resolved once and kept in stateDir if that is set.  Raises the exceptions of
        resolve_start and first_start."""
        if self._start is None:
            self._start = self._resolved()
            self._thaw(self._start)
        return dict(self._start)

    def _resolved(self) -> dict[TopicPartition, int]:
        options = self.options

        def resolve() -> dict[TopicPartition, int]:
            return resolve_start(options, self.brokers, self._positions, Fixed.LATEST)

        if options.state_dir is None:
            return resolve()
        bound = options.bound_of_start(Fixed.LATEST)
        return first_start(options.state_dir, str(options.subscription), in_words(bound), resolve)

    def _thaw(self, start: At) -> None:
        """Update frozen ends: logs grew between freeze() and the first answer, so no end is before its begin, and none
        is missing."""
        frozen = self._frozen
        if frozen is None:
            return
        frozen |= {tp: at for tp, at in start.items() if tp not in frozen}
        moved = [tp for tp, at in start.items() if frozen[tp] < at]
        for tp, end in self.brokers.latest(moved).items():
            if start[tp] <= end:
                frozen[tp] = start[tp]

    # ---- how far a batch goes --------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Fix the end of the whole query: the current ends.  Raises the exceptions of ends."""
        self._frozen = self._seen({})

    def ends(self, begin: At, everything: bool = False) -> dict[TopicPartition, int]:
        """Return the end of a batch that begins there; begin itself if there is nothing to read, or not enough yet.

        everything: ignore the limits of the options.  Raises DataLoss, NoLeader, Unreachable, UnknownPartition.
        """
        seen = self._seen(begin) if self._frozen is None else self._kept(begin, self._frozen)
        self.latest = dict(seen)
        end = {tp: seen.get(tp, at) for tp, at in begin.items()} | seen
        if everything:
            return end
        if self._frozen is None and self._patience.waits(begin, end, self._now()):
            return dict(begin)
        return self._limited(begin, end)

    def _limited(self, begin: At, end: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        options = self.options
        if options.max_offsets_per_trigger is None and options.max_bytes_per_trigger is None:
            return end
        full, whole = self._with_new(begin, end), end
        if options.max_offsets_per_trigger is not None:
            end = limited_ends(full, end, options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            end = limited_ends(full, end, options.max_bytes_per_trigger, self._measured(full, end))
        return ends_at_boundaries(full, end, whole, self._border) if offsets_are_bytes(self.brokers) else end

    def _measured(self, begin: At, end: At) -> dict[TopicPartition, float]:
        """Return the average bytes per offset of partitions with messages; sampled every SIZES_S."""
        lagging = [OffsetRange(tp.topic, tp.partition, begin[tp], at) for tp, at in end.items() if at > begin[tp]]
        now = self._now()
        if now - self._sized_s > SIZES_S:
            self._sizes, self._sized_s = {}, now
        unknown = [rng for rng in lagging if rng.tp not in self._sizes]
        self._sizes |= sample_sizes(unknown, self.brokers.access) if unknown else {}
        return {rng.tp: max(self._sizes[rng.tp], 1.0) for rng in lagging}

    def _kept(self, begin: At, frozen: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the ends of AvailableNow.  Ends that were missing or too small are looked up again."""
        if self._lacks(begin, frozen):
            seen = self._seen(begin)
            frozen |= {tp: min(at, seen[tp]) for tp, at in begin.items() if tp in seen and frozen.get(tp, -1) < at}
        return frozen

    def _seen(self, begin: At) -> dict[TopicPartition, int]:
        """Return the ends of the existing logs.

        What is missing or behind is waited for as a leader is: brokers that have just started know of no topic, and a
        new leader learns only from its replicas how much it may show.
        """
        latest: dict[TopicPartition, int] = {}
        for attempt in self.brokers.attempts():
            latest = self._latest(refresh=attempt.number > 1)
            if not self._lacks(begin, latest):
                break
        self._check_loss(begin, latest)
        self._gone -= latest.keys()
        return latest

    def _lacks(self, begin: At, end: At) -> bool:
        """True if an end is missing that may come, or one is before its begin."""
        return any(end[tp] < at if tp in end else self._may_come(tp) for tp, at in begin.items())

    def _may_come(self, tp: TopicPartition) -> bool:
        return tp not in self._gone and self.options.subscription.covers(tp)

    def _latest(self, refresh: bool) -> dict[TopicPartition, int]:
        soon = self._looked_s + ENDS_EVERY_S - self._now()
        if soon > 0:
            self._sleep(soon)
        self._looked_s = self._now()
        try:
            return self.brokers.latest(self._present(refresh))
        except UnknownPartition:  # deleted since
            return self.brokers.latest(self._present(refresh=True))

    def _present(self, refresh: bool) -> list[TopicPartition]:
        """Return the existing partitions of the subscription; named ones that do not exist are left out."""
        if refresh or self._now() - self._viewed_s >= VIEW_EVERY_S:
            self.brokers.view(refresh=True)
            self._viewed_s = self._now()
        return _present(self.options.subscription, self.brokers.view())

    def _check_loss(self, begin: At, end: At, ends: str = "the log ends") -> None:
        gone = in_order(begin.keys() - end.keys() - self._gone)
        left_out = [tp for tp in gone if not self.options.subscription.covers(tp)]
        deleted = [tp for tp in gone if tp not in left_out]
        if left_out:
            self._lost(
                f"{_names(left_out)} read by this stream until now, and its subscription leaves that out: what was not"
                " read there stays unread",
                left_out[0],
            )
        if deleted and self.brokers.dialect.partitions_by_broker:
            self._lost(
                f"{_names(deleted)} there, and went with the broker: what was not read is read once it is back",
                deleted[0],
            )
        elif deleted:
            self._lost(f"{_names(deleted)} deleted: what was not read of it is gone", deleted[0])
        self._gone |= set(gone)
        for tp in in_order(end.keys() & begin.keys()):
            if end[tp] < begin[tp]:
                self._lost(
                    f"the stream is at {begin[tp]}, and {ends} at {end[tp]}: its topic was created again, or messages"
                    " were lost with a leader or to retention",
                    tp,
                )

    # ---- what its tasks read ---------------------------------------------------------------------------------------

    def ranges(self, begin: At, end: At) -> list[OffsetRange]:
        """Return the offsets between the two; for a new partition from its first one.  Empty ranges are left out.

        Raises DataLoss; with AvailableNow also if messages are not there any more.
        """
        full = self._with_new(begin, end)
        self._check_new([tp for tp in end if tp not in begin and full[tp] > 0], full)
        self._check_loss(full, end, "the batch was to end")
        found = [OffsetRange(tp.topic, tp.partition, full[tp], end[tp]) for tp in in_order(end) if full[tp] < end[tp]]
        if self._frozen is not None:
            self._check_frozen(found)
        return found

    def _check_new(self, new: Iterable[TopicPartition], full: At) -> None:
        """Check new partitions.  One that came with its broker may be old: nothing was promised for it."""
        for tp in in_order(new):
            if self.brokers.dialect.partitions_by_broker:
                log.warning("%s came with its broker: it is read from its first offset on, %d", tp, full[tp])
            else:
                self._lost(f"the new partition begins at {full[tp]} instead of 0: what was before is gone", tp)

    def _with_new(self, begin: At, end: At) -> dict[TopicPartition, int]:
        """Return the begins of all partitions with an end: new ones begin at their first offset."""
        return {**begin, **self.brokers.earliest([tp for tp in end if tp not in begin])}

    def _check_frozen(self, ranges: Iterable[OffsetRange]) -> None:
        """Check that the ends promised by AvailableNow still exist."""
        wanted = {rng.tp: rng.until for rng in ranges}
        try:
            latest = self.brokers.latest(wanted, wanted)
        except UnknownPartition as exc:
            raise DataLoss(
                f"was there when AvailableNow looked for its end, and is not any more ({exc.sentence})",
                **exc.coordinates,
            ) from None
        for tp, until in wanted.items():
            if latest[tp] < until:
                raise DataLoss(
                    f"AvailableNow was to read up to {until}, and the log now ends at {latest[tp]}",
                    topic=tp.topic,
                    partition=tp.partition,
                )

    def _lost(self, sentence: str, tp: TopicPartition) -> None:
        if self.options.fail_on_data_loss:
            raise DataLoss(
                f"{sentence}; failOnDataLoss=false continues with what is left", topic=tp.topic, partition=tp.partition
            )
        log.warning("%s: %s", tp, sentence)

    def close(self) -> None:
        """Close its links."""
        self.brokers.close()


def in_words(bound: Bound) -> str:
    """Return a begin in words."""
    match bound:
        case Fixed():
            return bound.value
        case Offsets():
            return offsets_text(bound.at)
        case Time():
            return f"time {bound.ms}"
        case _:
            return f"times {offsets_text(bound.at_ms)}"


def _present(subscription: Subscription, view: ClusterView) -> list[TopicPartition]:
    """Return the partitions of a subscription that a view has."""
    if subscription.assigned:
        return [tp for tp in subscription.assigned if tp.partition in view.topics.get(tp.topic, {})]
    if subscription.topics:
        there = tuple(topic for topic in subscription.topics if view.topics.get(topic))
        return replace(subscription, topics=there).partitions(view) if there else []
    return subscription.partitions(view)


def _names(tps: list[TopicPartition]) -> str:
    more = f" and {len(tps) - 3} more" if len(tps) > 3 else ""
    return ", ".join(map(str, tps[:3])) + more + (" was" if len(tps) == 1 else " were")


# ---- limits ----------------------------------------------------------------------------------------------------------


def limited_ends(
    begin: At, end: At, most: float | None, sizes: Mapping[TopicPartition, float] | None = None
) -> dict[TopicPartition, int]:
    """Return ends that are together at most `most` offsets after their begins, shared by lag; None: no limit.

    sizes: average bytes per offset, above 0; then `most` is in bytes.
    """
    lagging = [OffsetRange(tp.topic, tp.partition, begin[tp], at) for tp, at in end.items() if at > begin[tp]]
    found = limited_by_lag(lagging, most, lambda rng: 1.0 if sizes is None else sizes[rng.tp])
    return {**end, **{rng.tp: rng.until for rng in found}}


class MinOffsets:
    """State of minOffsetsPerTrigger: a batch waits for that many offsets, but not longer than delay_s since the last
    one began.

    The first batch of a run does not wait, as in Spark.
    """

    def __init__(self, least: int | None, delay_s: float) -> None:
        self._least = least
        self._delay_s = delay_s
        self._last_s = -math.inf

    def waits(self, begin: At, end: At, now_s: float) -> bool:
        """True if the batch has to wait; otherwise it begins now."""
        if self._least is None:
            return False
        new = sum(at - begin.get(tp, 0) for tp, at in end.items())
        if new < self._least and now_s - self._last_s < self._delay_s:
            return True
        self._last_s = now_s
        return False
