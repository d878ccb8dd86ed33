"""What a Spark task does with one chunk: read it, write it, know what is stored.

    exclusive       nobody else writes the target partition.  Each answer must name the very offset that comes next;
                    where an answer is missing the task stops sending, waits until the target's log is settled,
                    compares its tail, and goes on behind it.  So nothing is there twice, and a foreign writer is
                    noticed.
    at least once   what got no answer is sent again, and counted

The task's own thread does all of it, and one more reads ahead.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

from groundwork.failpoints import failpoint
from kafkawire.columns import Columns, as_list
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import MessageSet, PartitionId, TopicPartition
from producer.batches import Batch
from producer.config import ProducerConfig
from producer.partitioners import Sticky
from producer.rows import Row
from sparkpipeline.access import ClusterAccess
from sparkpipeline.backfill.cutting import before, damaged, parts
from sparkpipeline.backfill.ends import settled
from sparkpipeline.backfill.model import Copied
from sparkpipeline.backfill.tail import Reached, compare, messages_of
from sparkpipeline.brokers import Brokers
from sparkpipeline.errors import NotDelivered, OptionRefused, Refused
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.options import ReadOptions
from sparkpipeline.reading.sets import read_sets
from sparkpipeline.sink.rows import KEYS_KEPT, by_key
from sparkpipeline.sink.sender import TaskSender, unknown

log = logging.getLogger(__name__)

SETTLE_MOST_S = 120.0  # how long a target's log may move before it is somebody else's


@dataclass(frozen=True, slots=True)
class Task:
    """All that a task is told; pickled.

    rng            the chunk                      partitions   of the target topic
    target_start   exclusive: where the chunk's first message is to be in the target's log; None: at least once
    is_settled     nothing of an earlier try can still arrive
    partitioner    by which rule messages are dealt; None: the partition is kept
    codec          None: as the source has it
    """

    rng: OffsetRange
    source: ClusterAccess
    target: ClusterAccess
    config: ProducerConfig
    read: ReadOptions
    target_start: int | None
    is_settled: bool
    partitioner: str | None
    partitions: int
    codec: int | None

    @property
    def tp(self) -> TopicPartition:
        return self.rng.tp

    @property
    def still_s(self) -> float:
        """As long as a broker may hold on to a request."""
        return self.config.request_timeout_ms / 1000


class OutcomeUnknown(Exception):
    """Nobody knows whether a batch is stored: the target's log has to be asked."""


class Exclusive:
    """Watches the sender: expected is the offset that the next message gets, and where all acknowledged ones end."""

    def __init__(self, tp: TopicPartition, expected: int) -> None:
        self.expected = expected
        self._tp = tp

    def answered(self, batch: Batch, error: int, base_offset: int) -> None:
        if unknown(error, base_offset):
            raise OutcomeUnknown(f"{batch.tp}: error {error}")
        if error:
            return  # refused for what it is: the sender splits it or names what is wrong with it
        if base_offset != self.expected:
            raise Refused(
                f"its next message was to be at {self.expected} and is at {base_offset}: somebody else writes there; "
                "what is behind that offset may be there twice (--shared is for partitions that others write)",
                topic=self._tp.topic, partition=self._tp.partition, target_offset=base_offset,
            )  # fmt: skip
        self.expected += batch.count

    def lost(self, batch: Batch, reason: LinkLost) -> None:
        raise OutcomeUnknown(str(reason))


def copy_chunk(task: Task, attempt: int = 0) -> Copied:
    """Copy a chunk; all of it is acknowledged when this returns.

    attempt: of Spark's, from 0; a later one cannot know what the one before has sent.
    Raises PipelineError with the coordinates of what is wrong.
    """
    if task.target_start is None:
        return _at_least_once(task, attempt)
    return _exclusive(task, task.target_start, task.is_settled and attempt == 0)


# ---- nothing twice ---------------------------------------------------------------------------------------------------


def _exclusive(task: Task, target_start: int, is_settled: bool) -> Copied:
    resyncs, kept = 0, None
    sent = (0, 0)
    moved_at, best = time.monotonic(), -1
    while True:
        end, reached = _reached(task, target_start, is_settled)
        kept = reached if kept is None else kept
        if end > best:
            moved_at, best = time.monotonic(), end
        failpoint("backfill after compare")
        watch = Exclusive(task.tp, end)
        try:
            sent = _send(task, reached.position, watch)
        except OutcomeUnknown as lost:
            resyncs, is_settled = resyncs + 1, False
            log.warning("%s: %s; reading the target's tail before going on", task.rng, lost)
            if time.monotonic() - moved_at > task.config.delivery_timeout_ms / 1000:
                raise NotDelivered(
                    f"nothing was stored for {task.config.delivery_timeout_ms} ms (delivery.timeout.ms): {lost}",
                    topic=task.rng.topic, partition=task.rng.partition, source_offset=reached.position,
                ) from lost  # fmt: skip
            continue
        return Copied(reached.messages + sent[0], reached.bytes + sent[1], kept.messages, 0, resyncs, watch.expected)


def _reached(task: Task, target_start: int, is_settled: bool) -> tuple[int, Reached]:
    """The target's end, and how far of the chunk is there."""
    tp = task.tp
    with Brokers(task.target) as brokers:
        end = settled(brokers, [tp], 0.0 if is_settled else task.still_s, SETTLE_MOST_S)[tp]
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
        return end, compare(source, target, target_start, end, task.rng)


# ---- writing ---------------------------------------------------------------------------------------------------------


def _at_least_once(task: Task, attempt: int) -> Copied:
    """Attempts before this one may have written all of it."""
    sender = TaskSender(task.target, task.config, called="source_offset")
    try:
        messages, size = _dealt(task, sender) if task.partitioner else _passed(task, task.rng.start, sender)
        sender.flush()
    finally:
        sender.close()
    return Copied(messages, size, may_repeat=sender.may_repeat + attempt * messages)


def _send(task: Task, position: int, watch: Exclusive) -> tuple[int, int]:
    sender = TaskSender(task.target, task.config, watch=watch)
    try:
        done = _passed(task, position, sender)
        sender.flush()
    finally:
        sender.close()
    return done


def _passed(task: Task, position: int, sender: TaskSender) -> tuple[int, int]:
    """Messages from a source offset on into the partition of the same number; how many, and their bytes."""
    spoken, rng = dialect(task.target.release), replace(task.rng, start=position)
    messages = size = 0
    aligned = False
    limit = task.config.message_max_bytes
    with _sets(rng, task) as sets:
        for fetched in sets:
            columns = fetched.index(task.read.check_crcs)
            for part in parts(fetched, columns, rng.until, task.tp, spoken, limit, task.codec, aligned):
                sender.send_part(part)
            count = before(columns, rng.until)
            messages, size, aligned = messages + count, size + _bytes(columns, count), True
    return messages, size


def _dealt(task: Task, sender: TaskSender) -> tuple[int, int]:
    """Messages to the partitions that their keys name; those without key to one for each set."""
    sticky = Sticky()
    ids: list[PartitionId] = list(range(task.partitions))
    chosen = by_key(task.partitioner or "default", dialect(task.target.release))
    if chosen is None:
        raise OptionRefused(f"{task.partitioner} looks at no key", option="--partitioner")
    hashed = lru_cache(KEYS_KEPT)(chosen)
    messages = size = 0
    with _sets(task.rng, task) as sets:
        for fetched in sets:
            columns = fetched.index(task.read.check_crcs)
            count = before(columns, task.rng.until)
            sticky.forget()
            unkeyed = sticky.choose(task.rng.topic, ids)
            dealt = _by_partition(columns, count, lambda key: ids[hashed(key, len(ids))], unkeyed)
            for partition, (rows, numbers) in dealt.items():
                sender.send(TopicPartition(task.rng.topic, partition), rows, numbers)
            messages, size = messages + count, size + _bytes(columns, count)
            if columns.damage is not None and columns.resume_at < task.rng.until:
                sender.flush()
                raise damaged(fetched, columns.damage)
    return messages, size


def _by_partition(
    columns: Columns, count: int, keyed: Callable[[bytes], PartitionId], unkeyed: PartitionId | None
) -> dict[PartitionId, tuple[list[Row], list[int]]]:
    """The first `count` messages as rows with their source offsets."""
    stamps = columns.timestamps_ms
    dealt: dict[PartitionId, tuple[list[Row], list[int]]] = {}
    for n, (key, value) in enumerate(zip(columns.keys()[:count], columns.values()[:count], strict=True)):
        partition = unkeyed if key is None else keyed(key)
        assert partition is not None, "a topic without partitions was planned"
        rows, numbers = dealt.setdefault(partition, ([], []))
        rows.append(Row(key, value, None if stamps is None else stamps[n]))
        numbers.append(columns.offsets[n])
    return dealt


def _bytes(columns: Columns, count: int) -> int:
    """Of the keys and values of the first `count` messages."""
    sizes = as_list(columns.key_size)[:count] + as_list(columns.value_size)[:count]
    return sum(size for size in sizes if size > 0)


@contextmanager
def _sets(rng: OffsetRange, task: Task) -> Iterator[Iterable[MessageSet]]:
    """The sets of a range; its reading thread ends with the block."""
    if rng.start >= rng.until:
        yield ()
        return
    with closing(read_sets(rng, task.source, task.read)) as sets:
        yield sets
