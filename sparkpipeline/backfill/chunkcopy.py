"""Copying of one chunk by a Spark task: reads it, writes it, and knows what is stored.

    exclusive       no other program writes the target partition.  Each response must have exactly the next offset; if a
                    response is missing, the task stops sending, waits until the target's log is stable, compares its
                    tail, and continues after it.  So nothing is stored twice, and a foreign writer is noticed.
    at least once   messages without a response are sent again, and counted

The progress of an earlier try is found by comparing the target's tail with the source message by message.  No other
program writes the target partition, so from the chunk's beginning it has the chunk's first messages, each at the next
offset.  Keys and values are compared, not entries: brokers give new offsets, and unpack and repack wrappers.  This also
works for a 0.7 source, where the messages of a wrapper share its offset: a try may have ended inside one, and the next
try skips as many of its messages as are stored.

The task's own thread does all of this, and another one reads ahead.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from groundwork.failpoints import failpoint
from kafkawire.columns import Columns, as_list
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import MessageSet, PartitionId, TopicPartition
from kafkawire.protocol.request import ProducedPartition
from producer.batches import Batch
from producer.config import ProducerConfig
from producer.partitioners import Sticky
from producer.rows import Row
from producer.verdicts import unknown_outcome
from sparkpipeline.backfill.backfillplan import Copied
from sparkpipeline.backfill.parts import before, damaged, indexed, parts
from sparkpipeline.backfill.stableends import stable_ends
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import NotDelivered, OptionRefused, Refused
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.rangefetcher import read_sets
from sparkpipeline.reading.readoptions import ReadOptions
from sparkpipeline.sink.rowsender import KEYS_KEPT, by_key
from sparkpipeline.sink.tasksender import TaskSender

log = logging.getLogger(__name__)
MAX_UNSTABLE_S = 120.0  # how long a target's log may move before another writer is assumed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTask:
    """Input of a task; pickled.

    rng            the chunk                      partitions   of the target topic
    target_start   exclusive: the offset that the chunk's first message gets in the target's log; None: at least once
    is_stable     no request of an earlier try can still arrive
    partitioner    rule that chooses partitions; None: the partition is kept
    codec None: as in the source        target_partition   None: the same number
    """

    rng: OffsetRange
    source: ClusterAccess
    target: ClusterAccess
    config: ProducerConfig
    read: ReadOptions
    target_start: int | None
    is_stable: bool
    partitioner: str | None
    partitions: int
    codec: int | None
    target_partition: int | None = None

    @property
    def tp(self) -> TopicPartition:
        """Return the target partition."""
        return self.rng.tp if self.target_partition is None else TopicPartition(self.rng.topic, self.target_partition)

    @property
    def still_s(self) -> float:
        """Return how long a broker may delay a request."""
        return self.config.request_timeout_ms / 1000


class OutcomeUnknown(Exception):
    """The outcome of a batch is unknown: the target's log has to be read."""


class Exclusive:
    """Watch on the sender. expected: the offset of the next message, where all acknowledged ones end."""

    def __init__(self, tp: TopicPartition, expected: int) -> None:
        self.expected = expected
        self._tp = tp

    def answered(self, batch: Batch, answer: ProducedPartition) -> None:
        if unknown_outcome(answer):
            raise OutcomeUnknown(f"{batch.tp}: error {answer.error}")
        if not answer.stored:
            return  # nothing was appended: the sender sends it again, splits it, or reports what is wrong
        base_offset = answer.base_offset
        if base_offset != self.expected:
            raise Refused(
                f"its next message was expected at {self.expected} and is at {base_offset}: another program writes"
                " there; messages after that offset may be duplicates (--shared is for partitions that others write)",
                topic=self._tp.topic, partition=self._tp.partition, target_offset=base_offset,
            )  # fmt: skip
        self.expected += batch.count

    def lost(self, batch: Batch, reason: LinkLost) -> None:
        raise OutcomeUnknown(str(reason))


def copy_chunk(task: ChunkTask, attempt: int = 0) -> Copied:
    """Copy a chunk; all of it is acknowledged when this returns.

    attempt: of Spark's, from 0; a later one cannot know what the previous one has sent. Raises PipelineError with the
    coordinates of what is wrong.
    """
    if task.target_start is None:
        return _at_least_once(task, attempt)
    return _exclusive(task, task.target_start, task.is_stable and attempt == 0)


# ---- nothing twice ---------------------------------------------------------------------------------------------------


def _exclusive(task: ChunkTask, target_start: int, is_stable: bool) -> Copied:
    resyncs, kept = 0, None
    sent = (0, 0)
    moved_at, best = time.monotonic(), -1
    while True:
        end, reached = _reached(task, target_start, is_stable)
        kept = reached if kept is None else kept
        if end > best:
            moved_at, best = time.monotonic(), end
        failpoint("backfill after compare")
        watch = Exclusive(task.tp, end)
        try:
            sent = _send(task, reached, watch)
        except OutcomeUnknown as lost:
            resyncs, is_stable = resyncs + 1, False
            log.warning("%s: %s; reading the target's tail before continuing", task.rng, lost)
            if time.monotonic() - moved_at > task.config.delivery_timeout_ms / 1000:
                raise NotDelivered(
                    f"nothing was stored for {task.config.delivery_timeout_ms} ms (delivery.timeout.ms): {lost}",
                    topic=task.rng.topic, partition=task.rng.partition, source_offset=reached.position,
                ) from lost  # fmt: skip
            continue
        return Copied(reached.messages + sent[0], reached.bytes + sent[1], kept.messages, 0, resyncs, watch.expected)


def _reached(task: ChunkTask, target_start: int, is_stable: bool) -> tuple[int, Reached]:
    """Return the target's end, and how much of the chunk is stored there."""
    tp = task.tp
    with Brokers(task.target) as brokers:
        end = stable_ends(brokers, [tp], 0.0 if is_stable else task.still_s, MAX_UNSTABLE_S)[tp]
        first = max(target_start, brokers.earliest([tp])[tp]) if end > target_start else end
    if end < target_start:
        raise Refused(
            f"the log ends at {end}, and {target_start} was reached and acknowledged: messages are lost there",
            topic=tp.topic, partition=tp.partition,
        )  # fmt: skip
    if end == target_start:
        return end, Reached(task.rng.start, 0, 0)
    there = OffsetRange(tp.topic, tp.partition, first, end)
    with (
        closing(messages_of(task.rng, task.source, task.read)) as source,
        closing(messages_of(there, task.target, task.read)) as target,
    ):
        return end, compare(source, target, target_start=target_start, end=end, chunk=task.rng)


# ---- how far an earlier try came -------------------------------------------------------------------------------------

Stored = tuple[int, bytes | None, bytes | None]  # offset, key, value


@dataclass(frozen=True, slots=True)
class Reached:
    """Progress of an earlier try. position: source offset to continue at; messages, bytes (of keys and values): stored
    already; inside: number of messages at that offset that are stored, too (0.7)."""

    position: int
    messages: int
    bytes: int
    inside: int = 0


def compare(
    source: Iterable[Stored], target: Iterable[Stored], *, target_start: int, end: int, chunk: OffsetRange
) -> Reached:
    """Compare the chunk's messages in the source with the target's log in [target_start, end), which has gaps if it is
    compacted.

    Raises Refused if they differ: another program wrote there.
    """
    theirs = iter(target)
    there = next(theirs, None)
    at, messages, size, position, inside = target_start, 0, 0, chunk.start, 0
    for offset, key, value in source:
        inside = inside if offset == position else 0
        position = offset
        if at >= end:
            return Reached(offset, messages, size, inside)
        if there is not None and there[0] == at:
            if there[1:] != (key, value):
                raise _foreign(chunk, at, f"is not the message at {offset} of the source")
            there = next(theirs, None)
        messages, size, at, inside = messages + 1, size + len(key or b"") + len(value or b""), at + 1, inside + 1
    if at < end:
        raise _foreign(chunk, at, f"is after all messages of {chunk}")
    return Reached(chunk.until, messages, size)


def _foreign(chunk: OffsetRange, at: int, why: str) -> Refused:
    return Refused(
        f"the target's message {why}: another program writes there (then give --shared, which is at least once)",
        topic=chunk.topic,
        partition=chunk.partition,
        target_offset=at,
    )


def messages_of(rng: OffsetRange, access: ClusterAccess, options: ReadOptions) -> Generator[Stored, None, None]:
    """Yield the messages of a range, with checksums verified.  Raises the exceptions of read_sets, and CorruptData."""
    sets = read_sets(rng, access, options)
    try:
        for fetched in sets:
            for columns in fetched.pieces(options.check_crcs):
                count = before(columns, rng.until)
                yield from zip(columns.offsets[:count], columns.keys()[:count], columns.values()[:count], strict=True)
                if count < len(columns):
                    break
                if columns.damage is not None:
                    raise damaged(fetched, columns.damage)
    finally:
        sets.close()


# ---- writing ---------------------------------------------------------------------------------------------------------


def _at_least_once(task: ChunkTask, attempt: int) -> Copied:
    """Copy at least once: earlier attempts may have written all of it."""
    sender = TaskSender(task.target, task.config, called="source_offset")
    try:
        from_start = Reached(task.rng.start, 0, 0)
        messages, size = _dealt(task, sender) if task.partitioner else _passed(task, from_start, sender)
        sender.flush()
    finally:
        sender.close()
    return Copied(messages, size, may_repeat=sender.may_repeat + attempt * messages)


def _send(task: ChunkTask, reached: Reached, watch: Exclusive) -> tuple[int, int]:
    sender = TaskSender(task.target, task.config, watch=watch)
    try:
        done = _passed(task, reached, sender)
        sender.flush()
    finally:
        sender.close()
    return done


def _passed(task: ChunkTask, reached: Reached, sender: TaskSender) -> tuple[int, int]:
    """Send the messages after the stored ones to the one target partition; return their number and bytes."""
    spoken, rng = dialect(task.target.release), replace(task.rng, start=reached.position)
    messages = size = 0
    inside = reached.inside
    aligned = False
    limit = task.config.message_max_bytes
    with _sets(rng, task) as sets:
        for fetched, columns in chain.from_iterable(indexed(each, rng.until, task.read.check_crcs) for each in sets):
            for part in parts(
                fetched,
                columns,
                rng.until,
                task.tp,
                dialect=spoken,
                message_max_bytes=limit,
                codec=task.codec,
                aligned=aligned,
                inside=inside,
            ):
                sender.send_part(part)
            count = before(columns, rng.until)
            messages, size, aligned = messages + count - inside, size + _bytes(columns, count, inside), True
            inside = 0
    return messages, size


def _dealt(task: ChunkTask, sender: TaskSender) -> tuple[int, int]:
    """Send messages to the partitions of their keys, messages without a key to one partition per set; return their
    number and bytes."""
    sticky = Sticky()
    ids: list[PartitionId] = list(range(task.partitions))
    chosen = by_key(task.partitioner or "default", dialect(task.target.release))
    if chosen is None:
        raise OptionRefused(f"{task.partitioner} does not use keys", option="--partitioner")
    hashed = lru_cache(KEYS_KEPT)(chosen)
    messages = size = 0
    with _sets(task.rng, task) as sets:
        for fetched in sets:
            sticky.forget()
            unkeyed = sticky.choose(task.rng.topic, ids)
            for columns in fetched.pieces(task.read.check_crcs):
                count = before(columns, task.rng.until)
                dealt = _by_partition(columns, count, lambda key: ids[hashed(key, len(ids))], unkeyed)
                for partition, (rows, numbers, blocks) in dealt.items():
                    headers = blocks if any(blocks) else None
                    sender.send(TopicPartition(task.rng.topic, partition), rows, numbers, headers)
                messages, size = messages + count, size + _bytes(columns, count)
                if columns.damage is not None and columns.resume_at < task.rng.until:
                    sender.flush()
                    raise damaged(fetched, columns.damage)
                if columns.resume_at >= task.rng.until:
                    break
    return messages, size


def _by_partition(
    columns: Columns, count: int, keyed: Callable[[bytes], PartitionId], unkeyed: PartitionId | None
) -> dict[PartitionId, tuple[list[Row], list[int], list[bytes | None]]]:
    """Return the first `count` messages as rows, with their source offsets and header blocks."""
    stamps, headers = columns.timestamps_ms, columns.headers()
    dealt: dict[PartitionId, tuple[list[Row], list[int], list[bytes | None]]] = {}
    for n, (key, value) in enumerate(zip(columns.keys()[:count], columns.values()[:count], strict=True)):
        partition = unkeyed if key is None else keyed(key)
        assert partition is not None, "a topic without partitions was planned"
        rows, numbers, blocks = dealt.setdefault(partition, ([], [], []))
        rows.append(Row(key, value, None if stamps is None else stamps[n]))
        numbers.append(columns.offsets[n])
        blocks.append(None if headers is None else headers[n])
    return dealt


def _bytes(columns: Columns, count: int, first: int = 0) -> int:
    """Return the bytes of keys and values of the first `count` messages, without the first `first` ones."""
    sizes = as_list(columns.key_size)[first:count] + as_list(columns.value_size)[first:count]
    return sum(size for size in sizes if size > 0)


@contextmanager
def _sets(rng: OffsetRange, task: ChunkTask) -> Iterator[Iterable[MessageSet]]:
    """Yield the sets of a range; its reading thread ends with the block."""
    if rng.start >= rng.until:
        yield ()
        return
    with closing(read_sets(rng, task.source, task.read)) as sets:
        yield sets
