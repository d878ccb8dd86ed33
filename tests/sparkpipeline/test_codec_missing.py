"""A codec whose library an executor has not: tasks that write say so, and Spark need not try them again."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from sparkpipeline.backfill.backfillrun import Failed, handed_back
from sparkpipeline.backfill.chunkcopy import ChunkTask
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import CodecMissing
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.readoptions import ReadOptions
from sparkpipeline.sink.rowsender import Columns
from sparkpipeline.sink.sinkoptions import SinkOptions
from sparkpipeline.sink.writer import Job, write_rows
from tests.fakes.broker import FakeCluster, entry

SNAPPY = 2


def test_a_row_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with FakeCluster({"t": 1}) as fake:
        servers = ",".join(f"{host}:{port}" for host, port in fake.bootstrap)
        options = SinkOptions.of({"kafka.bootstrap.servers": servers, "kafka.compression.codec": "snappy"})
        columns = Columns("value", None, None, None, None)
        job = Job(
            ClusterAccess(tuple(fake.bootstrap)), options.producer(ClusterAccess((), "0.8.2")), columns, "t", "default"
        )
        with pytest.raises(CodecMissing, match=r"KAFKA08_CODEC_MISSING: snappy needs .*; install it on every executor"):
            write_rows(job, iter([pa.RecordBatch.from_pydict({"value": [b"x"]})]))


def test_a_chunk_is_handed_back_and_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with FakeCluster({"t": 1}) as source, FakeCluster({"t": 1}) as target:
        source.append("t", 0, entry(b"x"))
        there = ClusterAccess(tuple(target.bootstrap))
        config = SinkOptions.of({"kafka.bootstrap.servers": "b:1"}).producer(ClusterAccess((), "0.8.2"))
        task = ChunkTask(
            rng=OffsetRange("t", 0, 0, 1),
            source=ClusterAccess(tuple(source.bootstrap)),
            target=there,
            config=config,
            read=ReadOptions(),
            target_start=None,
            is_stable=True,
            partitioner=None,
            partitions=1,
            codec=SNAPPY,
        )
        failed = handed_back(task)
    assert isinstance(failed, Failed)
    assert str(failed.error()).startswith("KAFKA08_CODEC_MISSING topic=t partition=0: snappy needs ")
