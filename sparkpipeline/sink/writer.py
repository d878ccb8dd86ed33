"""df.write.format("kafka08") and writeStream: rows of a DataFrame into topics that exist, at least once.

    write    in each task: its rows in order, by partition; ends when every one is acknowledged
    commit   on the driver: nothing is left to do
    abort    on the driver: what other tasks have written stays written

A task that is run again, or a micro-batch after a restart, writes its rows again.  Topics are never created: one that
is missing fails the query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from groundwork.sentences import counted
from kafkawire.errors import LibraryMissing
from producer.config import ProducerConfig
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.driver.brokeraddresses import find_access
from sparkpipeline.errors import CodecMissing, OptionRefused, PipelineError, UnknownPartition, coded
from sparkpipeline.sink.rowsender import Columns, RowSender, columns_of
from sparkpipeline.sink.sinkoptions import SinkOptions
from sparkpipeline.sink.tasksender import TaskSender

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """Facts found by the driver and passed to each task; pickled."""

    access: ClusterAccess
    config: ProducerConfig
    columns: Columns
    topic: str | None
    partitioner: str


@dataclass
class Written(WriterCommitMessage):
    """Acknowledged rows of one task by partition."""

    rows: dict[tuple[str, int], int]


def prepare(options: Mapping[str, str], schema: Any) -> Job:
    """Check options and columns, find the brokers, and check the topic, on the driver.

    Raises OptionRefused, Unreachable, UnknownPartition.
    """
    given = SinkOptions.of(options)
    columns = columns_of(schema, given)
    for warning in given.warnings:
        log.warning("%s", warning)
    access = find_access(given, given.request_timeout_ms)
    if given.topic is not None:
        _look_for(given.topic, access)
    return Job(access, given.producer(access), columns, given.topic, given.partitioner)


def _look_for(topic: str, access: ClusterAccess) -> None:
    with Brokers(access) as brokers:
        if not brokers.view().partitions(topic):
            raise UnknownPartition(
                "the target has no such topic, and nothing here creates one: create it with as many partitions as it "
                "is to have",
                topic=topic,
            )


def write_rows(job: Job, batches: Iterator[Any]) -> Written:
    """Write the rows of one task.  Raises NotDelivered with topic, partition and row (its number in the task)."""
    task = _task_number()
    sender = TaskSender(job.access, job.config)
    spoken = job.access.spoken
    rows = RowSender(
        sender,
        job.columns,
        topic=job.topic,
        partitioner=job.partitioner,
        dialect=spoken,
        max_bytes=job.config.message_max_bytes,
        task=task,
    )
    try:
        for batch in batches:
            rows.take(batch)
        rows.finish()
        sender.flush()
    except LibraryMissing as missing:
        raise CodecMissing(f"{missing}; install it on every executor", task=task) from missing
    except PipelineError as failed:
        if task is not None and "task" not in failed.coordinates:
            raise type(failed)(failed.sentence, **failed.coordinates, task=task) from failed
        raise
    finally:
        sender.close()
    return Written({(tp.topic, int(str(tp.partition))): count for tp, count in sender.stored.items()})


def _task_number() -> int | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.partitionId()


class Kafka08Writer(DataSourceArrowWriter):
    """df.write.  Made on the driver."""

    def __init__(self, options: Mapping[str, str], schema: Any, overwrite: bool) -> None:
        if overwrite:
            raise OptionRefused("a topic is only ever appended to", mode="overwrite")
        self.job = prepare(options, schema)

    @coded
    def write(self, iterator: Iterator[Any]) -> Written:
        return write_rows(self.job, iterator)

    def commit(self, messages: list[Any]) -> None:
        log.info("%s", summary(messages))

    def abort(self, messages: list[Any]) -> None:
        log.warning("a task failed; rows written by others stay in the topics: %s", summary(messages))


class Kafka08StreamWriter(DataSourceStreamArrowWriter):
    """df.writeStream.  overwrite is set by output mode complete, which would write every row again each time."""

    def __init__(self, options: Mapping[str, str], schema: Any, overwrite: bool) -> None:
        self.job = prepare(options, schema)

    @coded
    def write(self, iterator: Iterator[Any]) -> Written:
        return write_rows(self.job, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        log.info("batch %d: %s", batchId, summary(messages))

    def abort(self, messages: list[Any], batchId: int) -> None:
        log.warning(
            "batch %d: a task failed; rows written by others stay in the topics: %s", batchId, summary(messages)
        )


def summary(messages: list[Any]) -> str:
    """Return a sentence about the rows of all tasks."""
    rows: dict[tuple[str, int], int] = {}
    for message in messages:
        for tp, count in (message.rows if message is not None else {}).items():
            rows[tp] = rows.get(tp, 0) + count
    topics = sorted({topic for topic, _ in rows})
    named = ", ".join(topics) or "no topic"
    return f"{counted(sum(rows.values()), 'row')} in {counted(len(rows), 'partition')} of {named}"
