"""Position within one range that is read, and the effect of a response on it.  Pure: no socket, no clock.

a set                                   the position moves after it; the range is done at until
nothing, and the log continues after    fetched twice; then it is a gap if the topic is compacted.  0.8 reads the log's
the range                               end after the messages: the second response covers the first one's end.
                                        The second fetch has the largest size: Kafka 3.x sends nothing of a larger
                                        batch.  Brokers before 0.11 do not tell whether a topic is compacted: then it is
                                        a gap.  A later broker that is read as such shows its log: too large a batch is
                                        an error.  If the topic is not compacted, the leader is looked up and asked
                                        again for patience_ms, then data is lost
an offset that a broker of 0.11 or      one step on: it was not a message
later leaves out (the end of a
transaction)
nothing, and the log ends before until  retried for options.patience_ms, then data is lost
bytes, but not a whole message          the fetch grows up to options.fetch_bytes_cap

If positions are bytes (0.7), only those up to until are fetched, and a range that ends inside an entry is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kafkawire.cluster.recordbatches import LogBatches
from kafkawire.dialects import Dialect
from kafkawire.fetched import Came, judged
from kafkawire.model import Broker, MessageSet
from kafkawire.protocol.request import FetchedPartition
from sparkpipeline.errors import CorruptData, DataLoss, MessageTooLarge, PipelineError
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.readoptions import ReadOptions

log = logging.getLogger(__name__)

LEAST_BYTES = 64 << 10  # of a fetch: a header costs as much
UNKNOWN_BYTES = 1024  # of a message, before any was seen


class Sizes:
    """Average size of a task's messages so far, with gaps: how many bytes to fetch near the end of a range."""

    def __init__(self) -> None:
        self._bytes = 0
        self._offsets = 0

    def seen(self, message_set: MessageSet) -> None:
        self._bytes += len(message_set.buffer)
        self._offsets += message_set.resume_at - message_set.start

    def of(self, offsets: int) -> int:
        """Return the bytes that this number of offsets probably takes, plus a quarter."""
        each = self._bytes / self._offsets if self._offsets else UNKNOWN_BYTES
        return int(offsets * each * 1.25)


class RangeCursor:
    """State of one range while it is read.

    lost       offsets skipped because they were gone (options.fail_on_data_loss)
    kept_back  offsets of the range that transactions use: markers, and messages of aborted ones
    committed  messages of transactions are only read once these are committed
    blank      two fetches returned nothing although the log continues after the range: call explain()
    """

    def __init__(
        self,
        rng: OffsetRange,
        options: ReadOptions,
        *,
        spoken: Dialect,
        sizes: Sizes,
        now: float,
        committed: bool = True,
    ) -> None:
        self.range = rng
        self.position = rng.start
        self.lost = 0
        self.kept_back = 0
        self._committed = committed
        self._options = options
        self._spoken = spoken
        self._exact = not spoken.offsets.count_messages
        self._sizes = sizes
        self._grown = 0  # bytes that a message of this range was seen to need
        self._seen_end = -1  # the log's end in the last response
        self._widest = False  # nothing came although the log continues: fetch again with the largest size
        self.blank = False
        self._moved_at = now

    @property
    def done(self) -> bool:
        return self.position >= self.range.until

    @property
    def bytes(self) -> int:
        """Return the bytes to fetch: not many more than the range still has; none more if positions are bytes."""
        if self._exact:
            return min(max(self._options.fetch_bytes, self._grown), self.range.until - self.position)
        if self._widest:
            return self._options.fetch_bytes_cap
        left = max(LEAST_BYTES, self._sizes.of(self.range.until - self.position))
        return max(min(self._options.fetch_bytes, left), self._grown)

    def begin(self, now: float) -> None:
        """Begin reading the range: patience counts from now."""
        self._moved_at = now

    def take(self, answer: FetchedPartition, asked_bytes: int, broker: Broker, now: float) -> MessageSet | None:
        """Return the set of a response without an error; None if it has no message of the range.

        Raises MessageTooLarge, CorruptData and DataLoss.
        """
        found = judged(self._spoken, self.range.tp, self.position, answer, asked_bytes, self._committed)
        if found.moves:
            self._keep_back(found.scan.kept_back)
            whole = found.came is Came.MESSAGES
            if whole:
                self._sizes.seen(found.messages)
            self.move(found.messages.resume_at, now)
            return found.messages if whole else None
        if (damage := found.damage) is not None:
            sentence = f"{damage}{self._begins_inside()}{'; ' * bool(self._options.damage_helps)}"
            told = CorruptData(f"{sentence}{self._options.damage_helps}", **self.where(broker, offset=damage.offset))
            told.position = damage.position
            raise told
        if found.came is Came.CUT:
            self._grow(asked_bytes, found.scan.needed, broker)
        else:
            end = found.messages.high_watermark
            # None: the log ends where nothing comes
            self._nothing(self.position if end is None else end, asked_bytes, broker, now)
        return None

    def _keep_back(self, stretches: Iterable[tuple[int, int]]) -> None:
        begin, end = self.position, self.range.until
        self.kept_back += sum(max(0, min(behind, end) - max(first, begin)) for first, behind in stretches)

    def move(self, position: int, now: float) -> None:
        self.position = position
        self._moved_at = now
        self._seen_end = -1
        self._widest = self.blank = False

    def _begins_inside(self) -> str:
        """Return a hint about the first bytes of a range of bytes, or ""."""
        if not self._exact or self.position != self.range.start:
            return ""
        return f"; an offset of this cluster is the byte at which an entry begins: is {self.position} one?"

    def _grow(self, asked: int, needed: int, broker: Broker) -> None:
        if self._exact and asked >= self.range.until - self.position:
            raise CorruptData(
                f"the range ends at {self.range.until}, inside an entry of {needed} bytes: a range of this cluster ends"
                " where an entry does",
                **self.where(broker, offset=self.position),
            )
        cap = self._options.fetch_bytes_cap
        if asked >= cap:
            size = f"has {needed} bytes" if needed else "is larger than that"
            raise MessageTooLarge(
                f"a fetch may have {cap} bytes, the message {size}: raise {self._options.cap_option}",
                **self.where(broker, offset=self.position),
            )
        self._grown = min(cap, max(2 * asked, needed))

    def _nothing(self, end: int, asked: int, broker: Broker, now: float) -> None:
        until = self.range.until
        if self._seen_end >= until and (self._exact or asked >= self._options.fetch_bytes_cap):
            self.blank = True
        elif end < until and self.out_of_patience(now):
            why = DataLoss(
                f"the log ends before the range does, and nothing came for {self._options.patience_ms / 1000:g} s: "
                f"its messages are lost (an unclean leader election, a disk, or a topic created again);"
                f" {self._options.loss_helps}",
                **self.where(broker, requested=self.position, until=until, latest=end),
            )
            self.lose(until, why, now)
        else:
            self._seen_end = end
            self._widest = end >= until and not self._exact

    def explain(
        self, cleanup_policy: str | None, broker: Broker, now: float, held: LogBatches | None = None
    ) -> DataLoss | None:
        """Skip a blank range if compaction explains it, or if it stayed blank for patience_ms.

        cleanup_policy: of the topic; "": unknown; None: brokers of this release do not return it.  held: the batches
        there in the log's own format, of a broker that is read as an older one.  Returns why the leader has to be asked
        again.  Raises DataLoss as lose() does, and MessageTooLarge.
        """
        self.blank = False
        if held is not None:
            behind, batch = held.behind_empty(self.position), held.batch_at(self.position)
            if behind > self.position:
                self.move(min(behind, self.range.until), now)
                return None
            if batch is not None and batch.base_offset < self.range.until:
                if batch.nbytes > self._options.fetch_bytes_cap:
                    self._grow(self._options.fetch_bytes_cap, batch.nbytes, broker)
                cleanup_policy = ""
            elif held.error:
                cleanup_policy = ""
        if cleanup_policy is None or "compact" in cleanup_policy:
            self.move(self.range.until, now)
            return None
        known = (
            f"it has cleanup.policy={cleanup_policy}"
            if cleanup_policy
            else "the brokers do not return its cleanup.policy"
        )
        why = DataLoss(
            f"the log continues after the range, and the leader sends nothing of it: compaction leaves such holes, but "
            f"{known}; {self._options.loss_helps}",
            **self.where(broker, requested=self.position, until=self.range.until, latest=self._seen_end),
        )
        if not self.out_of_patience(now):
            return why
        self.lose(self.range.until, why, now)
        return None

    # ---- what went wrong ---------------------------------------------------------------------------------------

    def other_leader(self) -> None:
        """Forget the log end of the previous leader: the new one may show less."""
        self._seen_end = -1
        self.blank = False

    def out_of_patience(self, now: float) -> bool:
        return now - self._moved_at > self._options.patience_ms / 1000

    def lose(self, position: int, why: PipelineError, now: float) -> None:
        """Continue at a position, with a warning; raise `why` if options.fail_on_data_loss is set."""
        if self._options.fail_on_data_loss:
            raise why
        skipped = position - self.position
        self.lost += skipped
        log.warning("%s: skipped %d offsets at %d: %s", self.range, skipped, self.position, why)
        self.move(position, now)

    def where(self, broker: Broker | None = None, **more: object) -> dict[str, object]:
        """Return the coordinates for an error."""
        address = None if broker is None else f"{broker.host}:{broker.port}"
        return {"topic": self.range.topic, "partition": self.range.partition, **more, "broker": address}
