"""How far one range is read, and what a response means for it.  Pure: no socket, and no clock of its own.

a set                                   the position moves behind it; the range is done once that is until
nothing, and the log goes on past it    twice, then it is a gap if the topic is compacted.  0.8 reads the log's end
                                        after the messages: the second response covers the first one's end.
                                        That one is to the largest fetch: Kafka 3.x sends nothing of a larger batch.
                                        Brokers before 0.11 do not tell whether it is compacted: there it is a gap.  One
                                        that is read as such is asked what its log holds: too large a batch is told.  If
                                        it is not compacted the leader is looked up, and asked again for patience_ms,
                                        then data is lost
what a broker of 0.11 or later leaves   one step on: it was no message
out (padding: the end of a transaction)
nothing, and the log ends before until  waited for as long as options.patience_ms, then data is lost
bytes, but no whole message             the fetch grows up to options.fetch_bytes_cap

Where positions are bytes (0.7) just those up to until are asked for, and a range that ends inside an entry is an error.
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
    """What messages of a task have taken so far, gaps and all: how much to ask for where little is left."""

    def __init__(self) -> None:
        self._bytes = 0
        self._offsets = 0

    def seen(self, message_set: MessageSet) -> None:
        self._bytes += len(message_set.buffer)
        self._offsets += message_set.resume_at - message_set.start

    def of(self, offsets: int) -> int:
        """Bytes that so many offsets will take, and a quarter more."""
        each = self._bytes / self._offsets if self._offsets else UNKNOWN_BYTES
        return int(offsets * each * 1.25)


class RangeCursor:
    """One range while it is read.

    lost       offsets skipped because they were gone, by options.fail_on_data_loss
    kept_back  offsets of the range that transactions keep: markers, and messages of aborted ones
    committed  messages of transactions are read once these are committed, where brokers have transactions
    blank      nothing came, twice, though the log goes on past the range: explain() has to be called
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
        self._seen_end = -1  # the log's end, as the last answer told it
        self._widest = False  # nothing came though the log goes on: once more with the largest fetch
        self.blank = False
        self._moved_at = now

    @property
    def done(self) -> bool:
        return self.position >= self.range.until

    @property
    def bytes(self) -> int:
        """What to ask for: not much more than is left of the range; nothing more, where positions are bytes."""
        if self._exact:
            return min(max(self._options.fetch_bytes, self._grown), self.range.until - self.position)
        if self._widest:
            return self._options.fetch_bytes_cap
        left = max(LEAST_BYTES, self._sizes.of(self.range.until - self.position))
        return max(min(self._options.fetch_bytes, left), self._grown)

    def begin(self, now: float) -> None:
        """The range's turn has come: patience begins."""
        self._moved_at = now

    def take(self, answer: FetchedPartition, asked_bytes: int, broker: Broker, now: float) -> MessageSet | None:
        """What an answer without an error holds; None: nothing of ours.

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
            # not told: it ends where nothing comes
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
        """What may be wrong with the first bytes of a range of bytes."""
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
                f"what was there is lost (an unclean leader election, a disk, or a topic created again);"
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
        """Go on behind the range if compaction explains that it is blank, or if it stayed blank for patience_ms.

        cleanup_policy: of the topic; "": not told; None: brokers of this release tell none.  held: what the log holds
        there in its own format, of a broker that is read as an older one.  Returns why the leader has to be asked
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
            else "the brokers do not tell its cleanup.policy"
        )
        why = DataLoss(
            f"the log goes on behind the range, and the leader sends nothing of it: compaction leaves such holes, but "
            f"{known}; {self._options.loss_helps}",
            **self.where(broker, requested=self.position, until=self.range.until, latest=self._seen_end),
        )
        if not self.out_of_patience(now):
            return why
        self.lose(self.range.until, why, now)
        return None

    # ---- what went wrong ---------------------------------------------------------------------------------------

    def other_leader(self) -> None:
        """The log end of the leader before counts no more: this one may show less."""
        self._seen_end = -1
        self.blank = False

    def out_of_patience(self, now: float) -> bool:
        return now - self._moved_at > self._options.patience_ms / 1000

    def lose(self, position: int, why: PipelineError, now: float) -> None:
        """Go on at a position, with a warning; or raise why, as options.fail_on_data_loss says."""
        if self._options.fail_on_data_loss:
            raise why
        skipped = position - self.position
        self.lost += skipped
        log.warning("%s: %d offsets from %d on are skipped: %s", self.range, skipped, self.position, why)
        self.move(position, now)

    def where(self, broker: Broker | None = None, **more: object) -> dict[str, object]:
        """The coordinates of an error."""
        address = None if broker is None else f"{broker.host}:{broker.port}"
        return {"topic": self.range.topic, "partition": self.range.partition, **more, "broker": address}
