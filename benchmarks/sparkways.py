"""The ways that benchmarks/spark.py compares, in one Spark session of two cores; prints a line of JSON for each timing.

    python sparkways.py '{"broker": .., "topics": {..}, "rounds": .., "folder": ..}'

Every way is checked and warmed up by one aggregate over the topic (rows, sum of offsets, bytes of values) before it is
timed; then they take turns.  With "plans before" a frame is planned by that, once for all rounds, as any frame that is
used twice; else the planning is timed, too.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from common import TICKS, confluent_consumer
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkawire import kernels
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.arrow import read_ranges
from sparkpipeline.reading.rangefetcher import read_many
from sparkpipeline.reading.readoptions import COLUMNS, ReadOptions
from sparkpipeline.source.schema import columns_by_default, struct_type
from sparkpipeline.sparksession import spark_session

CONSTANT_BYTES = 4 << 20  # of values in a record batch
FETCH_BYTES = 4 << 20  # for all; a broker of 0.8.2 looks for the position of each fetch
NO_TIME = datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
CORES = 2


def access(broker: str) -> ClusterAccess:
    host, port = broker.split(":")
    return ClusterAccess(((host, int(port)),))


# ---- a source that yields a tuple a message, over the same decoder ---------------------------------------------


class OneRange(InputPartition):
    def __init__(self, rng: OffsetRange) -> None:
        self.range = rng


class TupleReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        topic, count = self.options["topic"], int(self.options["count"])
        each = count // int(self.options["partitions"])
        return [OneRange(OffsetRange(topic, p, 0, each)) for p in range(int(self.options["partitions"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        rng = partition.range  # type: ignore[attr-defined]
        topic, number, until = rng.topic, rng.partition, rng.until
        for _, message_set in read_many([rng], access(self.options["broker"]), ReadOptions(fetch_bytes=FETCH_BYTES)):
            found = message_set.index()
            for offset, key, value in zip(found.offsets, found.keys(), found.values(), strict=True):
                if offset < until:
                    yield key, value, topic, number, offset, NO_TIME, -1


class TupleSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> StructType:
        return struct_type(columns_by_default(False, False))

    def reader(self, schema: Any) -> DataSourceReader:
        return TupleReader(dict(self.options))


# ---- a source that does nothing: what Spark itself takes ------------------------------------------------------


class ConstantReader(TupleReader):
    """The same rows but for their values, out of record batches whose values were made before; no broker is asked."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        rng = partition.range  # type: ignore[attr-defined]
        size = int(self.options["size"])
        rows = min(10_000, CONSTANT_BYTES // size)
        before = [
            pa.nulls(rows, pa.binary()),
            pa.array([random.randbytes(size) for _ in range(rows)], pa.binary()),
            pa.repeat(pa.scalar(rng.topic), rows),
            pa.repeat(pa.scalar(rng.partition, pa.int32()), rows),
        ]
        behind = [
            pa.repeat(pa.scalar(NO_TIME, pa.timestamp("us", tz="UTC")), rows),
            pa.repeat(pa.scalar(-1, pa.int32()), rows),
        ]
        for since in range(0, rng.until, rows):
            offsets = pa.array(range(since, min(since + rows, rng.until)), pa.int64())
            columns = [column[: len(offsets)] for column in (*before, offsets, *behind)]
            yield pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))


class ConstantSource(TupleSource):
    @classmethod
    def name(cls) -> str:
        return "constant"

    def reader(self, schema: Any) -> DataSourceReader:
        return ConstantReader(dict(self.options))


# ---- what people would write today -----------------------------------------------------------------------------


def confluent(broker: str, topic: str, until: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For mapInArrow: a row is the number of a partition, which is read from 0 to until by consume(10000)."""
    settings = {**confluent_consumer(broker, FETCH_BYTES), "check.crcs": True, "log_level": 3}

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from confluent_kafka import Consumer, TopicPartition

        for batch in batches:
            for partition in batch.column(0).to_pylist():
                consumer = Consumer(settings)
                consumer.assign([TopicPartition(topic, partition, 0)])
                reached = 0
                while reached < until:
                    messages = [m for m in consumer.consume(10000, 1.0) if m.error() is None and m.offset() < until]
                    if not messages:
                        continue
                    reached, rows = messages[-1].offset() + 1, len(messages)
                    yield pa.RecordBatch.from_arrays(
                        [
                            pa.array([m.key() for m in messages], pa.binary()),
                            pa.array([m.value() for m in messages], pa.binary()),
                            pa.repeat(pa.scalar(topic), rows),
                            pa.repeat(pa.scalar(partition, pa.int32()), rows),
                            pa.array([m.offset() for m in messages], pa.int64()),
                            pa.repeat(pa.scalar(NO_TIME, pa.timestamp("us", tz="UTC")), rows),
                            pa.repeat(pa.scalar(-1, pa.int32()), rows),
                        ],
                        names=list(COLUMNS),
                    )
                consumer.close()

    return read


# ---- the session -----------------------------------------------------------------------------------------------


class Ways:
    def __init__(self, task: dict[str, Any]) -> None:
        self.broker, self.folder = task["broker"], Path(task["folder"])
        quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g",
                 "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}  # fmt: skip
        self.spark = spark_session("bench", f"local[{CORES}]", quiet)
        self.spark.sparkContext.setLogLevel("ERROR")
        self.spark.dataSource.register(TupleSource)
        self.spark.dataSource.register(ConstantSource)
        self._planned: dict[tuple[str, str], Any] = {}
        self._plans_before = task["plans before"]

    def frame(self, way: str, topic: dict[str, Any]) -> Any:
        """The same for each round, planned when it was checked; or a new one."""
        if not self._plans_before:
            return self._made(way, topic)
        key = (way, topic["name"])
        if key not in self._planned:
            self._planned[key] = self._made(way, topic)
        return self._planned[key]

    def _made(self, way: str, topic: dict[str, Any]) -> Any:
        name, partitions, count = topic["name"], topic["partitions"], topic["count"]
        if way == "mapInArrow":
            seed = self.spark.range(0, partitions, 1, partitions)
            columns = struct_type(columns_by_default(False, False))
            return seed.mapInArrow(confluent(self.broker, name, count // partitions), columns)
        reader = self.spark.read.format(way)
        if way in ("tuples", "constant"):
            options = {"broker": self.broker, "topic": name, "partitions": partitions, "count": count,
                       "size": topic["size"]}  # fmt: skip
            return reader.options(**options).load()
        options = {"kafka.bootstrap.servers": self.broker, "subscribe": name, "protocol": "0.8",
                   "kafka.fetch.message.max.bytes": FETCH_BYTES}  # fmt: skip
        return reader.options(**options).load()

    def check(self, way: str, topic: dict[str, Any]) -> None:
        sums = self.frame(way, topic).selectExpr("count(*)", "sum(offset)", "sum(length(value))").first()
        each = topic["count"] // topic["partitions"]
        offsets = topic["partitions"] * each * (each - 1) // 2
        right = (topic["count"], offsets, topic["bytes"])
        if tuple(sums) != right:
            raise SystemExit(f"{way} of {topic['name']}: rows, sum of offsets and bytes are {tuple(sums)}, not {right}")

    def timed(self, way: str, topic: dict[str, Any], sink: str) -> dict[str, object]:
        before, began = cpu(), time.monotonic()
        writer = self.frame(way, topic).write.mode("overwrite")
        if sink == "noop":
            writer.format("noop").save()
        else:
            writer.parquet(str(self.folder / "parquet"))
        seconds, after = time.monotonic() - began, cpu()
        spent = {who: round(1e9 * (after[who] - before.get(who, 0)) / topic["count"]) for who in after}
        return {"way": way, "topic": topic["name"], "sink": sink, "seconds": seconds, "ns": spent}


def cpu() -> dict[str, float]:
    """Seconds of processor time so far of the broker, Spark's JVM and its Python workers: those of this run only."""
    parents: dict[int, int] = {}
    seconds: dict[int, tuple[str, float]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, stat = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
        except OSError:
            continue  # it has ended
        fields = stat[stat.rindex(")") + 2 :].split()
        parents[int(folder.name)] = int(fields[1])
        signs = {b"keeper.py": "", b"pyspark.daemon": "workers", b"SparkSubmit": "JVM", b"kafka.Kafka": "broker"}
        who = next((name for sign, name in signs.items() if sign in command), "")
        ended = slice(11, 15 if who == "workers" else 13)  # a daemon's: with those of its workers that have ended
        seconds[int(folder.name)] = (who, sum(map(int, fields[ended])) / TICKS)
    spent = {"broker": 0.0, "JVM": 0.0, "workers": 0.0}
    for process, (who, used) in seconds.items():
        if who and _is_below(process, os.getppid(), parents):
            spent[who] += used
    return spent


def _is_below(process: int, above: int, parents: dict[int, int]) -> bool:
    while process and process != above:
        process = parents.get(process, 0)
    return process == above


# ---- one process without Spark: what each step costs -----------------------------------------------------------


def split(broker: str, topic: dict[str, Any]) -> dict[str, float]:
    """Nanoseconds of processor time a row, of each step by itself (each run contains those before it)."""
    each = min(400_000, topic["count"] // topic["partitions"])
    ranges, options = [OffsetRange(topic["name"], 0, 0, each)], ReadOptions(fetch_bytes=FETCH_BYTES)
    here, there = socket.socketpair()
    eater = threading.Thread(target=_eat, args=(there,), daemon=True)
    steps: dict[str, Callable[[], None]] = {
        "fetch": lambda: _run(read_many(ranges, access(broker), options)),
        "decode": lambda: _run(s.index() for _, s in read_many(ranges, access(broker), options)),
        "arrow": lambda: _run(read_ranges(ranges, access(broker), options)),
    }
    found, before = {}, 0.0
    for name, step in steps.items():
        step()
        began = time.process_time()
        for _ in range(3):
            step()
        spent = 1e9 * (time.process_time() - began) / 3 / each
        found[name], before = spent - before, spent
    eater.start()
    batches = list(read_ranges([OffsetRange(topic["name"], 0, 0, min(each, 50_000))], access(broker), options))
    began = time.thread_time()
    with here.makefile("wb", 65536) as sink, pa.RecordBatchStreamWriter(sink, batches[0].schema) as writer:
        for _ in range(10):
            for batch in batches:
                writer.write_batch(batch)
    here.close()
    eater.join()
    found["send"] = 1e9 * (time.thread_time() - began) / (10 * sum(batch.num_rows for batch in batches))
    return found


def _run(items: Iterator[object]) -> None:
    for _ in items:
        pass


def _eat(connection: socket.socket) -> None:
    buffer = bytearray(1 << 20)
    while connection.recv_into(buffer):
        pass
    connection.close()


def main(task: dict[str, Any]) -> None:
    kernels.prepare()
    for topic in task["split"]:
        print(json.dumps({"split": split(task["broker"], topic), "topic": topic["name"]}), flush=True)
    ways = Ways(task)
    for topic in task["topics"]:
        for way in task["ways"]:
            ways.check(way, topic)
        for sink in task["sinks"]:
            for _ in range(task["rounds"]):
                for way in task["ways"]:
                    print(json.dumps(ways.timed(way, topic, sink)), flush=True)
    ways.spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
