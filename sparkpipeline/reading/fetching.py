"""One range fetched set by set: where it ends, gaps, sizes, leaders lost and found, offsets that are gone.

    a set that reaches until                    the range is done
    nothing, and the log goes on past until     twice, as a broker tells the end after it has read: a gap (compaction)
    nothing, and the log ends before until      waited for; then data is lost
    bytes, but no whole message                 the fetch grows up to fetch_bytes_cap
    another leads, a link broke                 looked for; reading goes on behind the last set
    the log does not hold the offset            data is lost: an error, or skipped where failOnDataLoss is false

Blocking; a plain thread's.  A fetch is on its way while the set before it is used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from kafkawire.errors import CorruptMessage, LinkLost, error_info
from kafkawire.model import Broker, MessageSet
from kafkawire.net.link import Link
from kafkawire.v08.framing import FetchedPartition
from sparkpipeline.brokers import Brokers
from sparkpipeline.errors import (
    CorruptData,
    DataLoss,
    MessageTooLarge,
    NoLeader,
    OffsetOutOfRange,
    PipelineError,
    UnknownPartition,
)
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.options import ReadOptions

log = logging.getLogger(__name__)

PURPOSE = "fetch"
MOST_PAUSE_S = 5.0
OUT_OF_RANGE, NOT_HERE = 1, (3, 5, 6)
BEHIND = -1  # what 0.8 answers, too, for an offset that its replica has and may not show yet: after an election


class RangeFetch:
    """One range on its way.  sets() may be asked for once."""

    def __init__(
        self,
        rng: OffsetRange,
        brokers: Brokers,
        options: ReadOptions,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.range = rng
        self.position = rng.start
        self._brokers = brokers
        self._options = options
        self._sleep = sleep
        self._now = now
        self._bytes = options.fetch_bytes
        self._seen_end = -1  # the log's end as an answer told it; what was asked for later saw at least that much
        self._moved_at = now()
        self._failures = 0  # since there was progress
        self._broker: Broker | None = None

    def sets(self) -> Iterator[MessageSet]:
        """The sets from start until all before until was there.  Raises what the module says, with coordinates."""
        while self.position < self.range.until:
            answer = self._fetched()
            if answer is None:
                continue
            found = self._read(answer)
            if found is not None:
                yield found

    # ---- asking ----------------------------------------------------------------------------------------------------

    def _fetched(self) -> FetchedPartition | None:
        """An answer about our partition; None: something was in the way, and has been seen to."""
        d, tp, options = self._brokers.dialect, self.range.tp, self._options
        request = d.requests.fetch(d, options.max_wait_ms, options.min_bytes, [(tp, self.position, self._bytes)])
        try:
            broker = self._broker = self._brokers.leader(tp, afresh=self._failures > 0)
            link: Link = self._brokers.link(broker, PURPOSE)
            rows: list[FetchedPartition] = link.call(request)
        except (LinkLost, NoLeader) as lost:
            self._failed(lost)
            return None
        except UnknownPartition as gone:
            self._lost_to(self.range.until, gone)
            return None
        for row in rows:
            if row.tp == tp:
                if row.error == 0:
                    return row
                self._refused(row)
                return None
        raise PipelineError("the answer leaves this partition out", **self._where())

    def _refused(self, row: FetchedPartition) -> None:
        code, info = row.error, error_info(row.error)
        if code == OUT_OF_RANGE:
            self._out_of_range()
        elif code in NOT_HERE or code == BEHIND or info.retriable:
            self._failed(NoLeader(f"the broker refuses a fetch: {info.name} ({code})", **self._where()))
        else:
            raise PipelineError(f"the broker refuses a fetch: {info.name} ({code})", **self._where())

    def _failed(self, why: Exception) -> None:
        """Wait, and ask the leader that there is then; raises NoLeader when patience is over."""
        self._failures += 1
        self._seen_end = -1  # the next leader may show less
        if self._now() - self._moved_at > self._options.patience_ms / 1000:
            sentence = why.sentence if isinstance(why, PipelineError) else str(why)
            raise NoLeader(
                f"nothing was read for {self._options.patience_ms / 1000:g} s: {sentence}", **self._where()
            ) from why
        log.warning("%s at %d: %s; looking for its leader again", self.range, self.position, why)
        if self._failures > 1:
            pause = self._brokers.access.retry_interval_ms / 1000 * 2.0 ** (self._failures - 2)
            self._sleep(min(pause, MOST_PAUSE_S))

    def _out_of_range(self) -> None:
        tp = self.range.tp
        earliest, latest = self._brokers.earliest([tp])[tp], self._brokers.latest([tp])[tp]
        if earliest <= self.position <= latest:  # the leader has changed between the two answers
            self._failed(NoLeader("the broker and the log's leader do not agree on its ends", **self._where()))
            return
        gone = "it is gone (retention, or the topic was made anew)"
        why = OffsetOutOfRange(
            f"the log does not hold this offset: {gone if self.position < earliest else 'the log is shorter'}; "
            "failOnDataLoss=false skips what is not there",
            **self._where(requested=self.position, earliest=earliest, latest=latest),
        )
        self._lost_to(min(earliest, self.range.until) if self.position < earliest else self.range.until, why)

    def _lost_to(self, position: int, why: PipelineError) -> None:
        """Skip, where that is allowed."""
        if self._options.fail_on_data_loss:
            raise why
        log.warning(
            "%s: %d offsets are skipped, from %d on: %s", self.range, position - self.position, self.position, why
        )
        self._moved(position)

    # ---- answers ---------------------------------------------------------------------------------------------------

    def _read(self, answer: FetchedPartition) -> MessageSet | None:
        """What an answer without an error holds; None: no message of ours."""
        d, tp = self._brokers.dialect, self.range.tp
        found: MessageSet
        found, scan = d.messages.message_set(
            tp.topic, tp.partition, self.position, answer.buffer, answer.high_watermark
        )
        if scan.runs:
            self._moved(found.resume_at)
            return found
        if scan.damage is not None:
            raise self._corrupt(scan.damage)
        if len(answer.buffer):
            self._grow(scan.needed)
        else:
            self._nothing(answer.high_watermark)
        return None

    def _moved(self, position: int) -> None:
        self.position = position
        self._moved_at = self._now()
        self._failures = 0

    def _grow(self, needed: int) -> None:
        cap, had = self._options.fetch_bytes_cap, self._bytes
        if had >= cap:
            size = f"has {needed} bytes" if needed else "is larger"
            raise MessageTooLarge(
                f"the message {size}, a fetch may have {cap}: raise fetchBytesCap", **self._where(offset=self.position)
            )
        self._bytes = min(cap, max(2 * had, needed))

    def _nothing(self, end: int) -> None:
        """No bytes: a gap up to until, or the end of the log."""
        until = self.range.until
        if self._seen_end >= until:
            self._moved(until)
        elif end >= until:
            self._seen_end = end  # it grew after the broker had read, perhaps: ask once more
        elif self._now() - self._moved_at > self._options.patience_ms / 1000:
            waited = f"nothing came for {self._options.patience_ms / 1000:g} s"
            why = DataLoss(
                f"the log ends before the range does, {waited}: messages that were there are lost (an unclean leader "
                "election, or the topic was made anew); failOnDataLoss=false skips what is not there",
                **self._where(requested=self.position, until=until, latest=end),
            )
            self._lost_to(until, why)

    def _corrupt(self, damage: CorruptMessage) -> CorruptData:
        return CorruptData(str(damage), **self._where(offset=damage.offset))

    def _where(self, **more: object) -> dict[str, object]:
        broker = self._broker
        address = f"{broker.host}:{broker.port}" if broker is not None else None
        return {"topic": self.range.topic, "partition": self.range.partition, **more, "broker": address}
