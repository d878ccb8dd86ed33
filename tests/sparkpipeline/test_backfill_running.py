"""Whole backfills between fake clusters, tasks carried out in the driver's threads: no Spark, no ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkpipeline.backfill import backfilljob as module
from sparkpipeline.backfill.backfilljob import Backfill
from sparkpipeline.backfill.backfillplan import Copied, Request
from sparkpipeline.backfill.chunkcopy import ChunkTask, copy_chunk
from sparkpipeline.errors import NotDelivered, OptionRefused, Refused, UnknownPartition
from sparkpipeline.ledger.local import LocalFiles
from tests.fakes.broker import FakeCluster, entry

NO_SECRETS = Request(source={}, target={})


def filled(*counts: int) -> FakeCluster:
    cluster = FakeCluster({"t": len(counts)})
    for partition, count in enumerate(counts):
        data = b"".join(entry(b"%d-%d" % (partition, n), key=b"k%d" % n, offset=n) for n in range(count))
        if data:
            cluster.append("t", partition, data)
    return cluster


def request(source: FakeCluster, target: FakeCluster, **changed: Any) -> Request:
    def at(cluster: FakeCluster) -> dict[str, str]:
        servers = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
        return {"kafka.bootstrap.servers": servers, "protocol": "0.8"}

    quick = {"kafka.request.timeout.ms": "300", "kafka.delivery.timeout.ms": "2000"}
    return Request(source={**at(source), "subscribe": "t"}, target={**at(target), **quick}, **{"chunk": 10, **changed})


def opened(folder: Path, asked: Request | None) -> Backfill:
    return Backfill.open(LocalFiles(), str(folder), asked, NO_SECRETS)


class FakeSpark:
    """Carries tasks out at once; do: what is done instead of copying."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, do: Callable[[ChunkTask], Copied] = copy_chunk) -> None:
        conf = SimpleNamespace(get=lambda name, default: default)
        self.sparkContext = SimpleNamespace(getConf=lambda: conf, cancelAllJobs=lambda: None)
        monkeypatch.setattr(module, "on_spark", lambda spark: do)


def values(cluster: FakeCluster, partition: int) -> list[bytes | None]:
    return cluster.values("t", partition)


def wanted(partition: int, count: int) -> list[bytes]:
    return [b"%d-%d" % (partition, n) for n in range(count)]


def test_all_lanes_come_to_their_ends_and_a_second_run_has_nothing_to_do(monkeypatch, tmp_path):
    with filled(35, 0, 12) as source, FakeCluster({"t": 3}) as target:
        job = opened(tmp_path / "b", request(source, target))
        assert (job.is_new, job.is_over, job.count_left) == (True, False, 47)
        marks: list[tuple[int, int]] = []
        outcome = job.execute(FakeSpark(monkeypatch), 2, lambda lane, done: marks.append((lane.number, done.until)))
        assert outcome.failures == {}
        assert sorted(marks) == [(0, 10), (0, 20), (0, 30), (0, 35), (2, 10), (2, 12)]
        assert [values(target, p) for p in range(3)] == [wanted(0, 35), [], wanted(2, 12)]
        again = opened(tmp_path / "b", None)
        assert (again.is_over, again.count_left) == (True, 0)
        assert not again.hand_over()


def test_a_lane_that_fails_stops_and_the_others_go_on(monkeypatch, tmp_path):
    def once(task: ChunkTask) -> Copied:
        if task.rng.partition == 0 and task.rng.start == 10:
            raise NotDelivered("no", topic="t", partition=0)
        return copy_chunk(task)

    with filled(35, 35) as source, FakeCluster({"t": 2}) as target:
        job = opened(tmp_path / "b", request(source, target))
        outcome = job.execute(FakeSpark(monkeypatch, once), 2, lambda lane, done: None)
        assert list(outcome.failures) == [0]
        assert [values(target, p) for p in range(2)] == [wanted(0, 10), wanted(1, 35)]
        job = opened(tmp_path / "b", request(source, target))
        assert [lane.number for lane in job.left] == [0]
        job.execute(FakeSpark(monkeypatch), 2, lambda lane, done: None)
        assert values(target, 0) == wanted(0, 35)


@pytest.mark.parametrize("done_before", [True, False])
def test_a_chunk_without_a_mark_is_compared_and_not_repeated(monkeypatch, tmp_path, done_before):
    def dies(task: ChunkTask) -> Copied:
        if task.rng.start == 20:
            if done_before:
                copy_chunk(task)
            raise KeyboardInterrupt
        return copy_chunk(task)

    with filled(35) as source, FakeCluster({"t": 1}) as target:
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path / "b", request(source, target)).execute(FakeSpark(monkeypatch, dies), 1, lambda *_: None)
        job = opened(tmp_path / "b", None)
        job.execute(FakeSpark(monkeypatch), 1, lambda *_: None)
        assert values(target, 0) == wanted(0, 35)
        assert job.done[0].total_kept == (10 if done_before else 0)


def test_a_second_run_waits_until_nothing_of_the_first_arrives_any_more(monkeypatch, tmp_path):
    with filled(25) as source, FakeCluster({"t": 1}) as target:
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path / "b", request(source, target)).execute(
                FakeSpark(monkeypatch, _interrupted), 1, lambda *_: None
            )
        late = b"".join(entry(b"0-%d" % n, key=b"k%d" % n, offset=n) for n in range(4))
        timer = threading.Timer(0.2, lambda: target.append("t", 0, late))  # a request of the first, still on its way
        timer.start()
        job = opened(tmp_path / "b", None)
        job.execute(FakeSpark(monkeypatch), 1, lambda *_: None)
        timer.join()
        assert values(target, 0) == wanted(0, 25)
        assert job.done[0].total_kept == 4


def _interrupted(task: ChunkTask) -> Copied:
    raise KeyboardInterrupt


def test_by_key_the_bound_of_a_broken_run_is_known(monkeypatch, tmp_path):
    def dies(task: ChunkTask) -> Copied:
        copy_chunk(task)
        raise KeyboardInterrupt

    with filled(15, 25, 4) as source, FakeCluster({"t": 2}) as target:
        asked = request(source, target, partitioning="key")
        job = opened(tmp_path / "b", asked)
        assert job.may_repeat() == 0
        with pytest.raises(KeyboardInterrupt):
            job.execute(FakeSpark(monkeypatch, dies), 1, lambda *_: None)
        again = opened(tmp_path / "b", asked)
        assert again.may_repeat() == 10 + 10 + 4
        again.execute(FakeSpark(monkeypatch), 1, lambda *_: None)
        found = values(target, 0) + values(target, 1)
        assert set(found) == {*wanted(0, 15), *wanted(1, 25), *wanted(2, 4)}
        assert len(found) - 44 <= 24


def test_what_cannot_be_meant_is_refused_before_anything_is_written(tmp_path):
    with filled(5, 5) as source, FakeCluster({"t": 1, "u": 1}) as target:
        with pytest.raises(UnknownPartition, match=r"create at the target: t with 2 partitions \(it has 1\)"):
            opened(tmp_path / "b", request(source, target))
        with pytest.raises(OptionRefused, match="one cluster"):
            opened(tmp_path / "b", request(source, source))
        with pytest.raises(OptionRefused, match="has no plan yet"):
            opened(tmp_path / "b", None)
        assert not (tmp_path / "b").exists()


def test_another_request_for_the_same_folder_is_refused(monkeypatch, tmp_path):
    with filled(5) as source, FakeCluster({"t": 1}) as target:
        job = opened(tmp_path / "b", request(source, target))
        job.execute(FakeSpark(monkeypatch), 1, lambda *_: None)
        with pytest.raises(Refused, match=r"it has another plan: chunk 11 is requested, 10 was planned"):
            opened(tmp_path / "b", request(source, target, chunk=11))


def test_speculation_is_refused(monkeypatch, tmp_path):
    with filled(5) as source, FakeCluster({"t": 1}) as target:
        spark = FakeSpark(monkeypatch)
        spark.sparkContext.getConf = lambda: SimpleNamespace(get=lambda name, default: "true")
        with pytest.raises(OptionRefused, match="twice at the same time"):
            opened(tmp_path / "b", request(source, target)).execute(spark, 1, lambda *_: None)
        assert not (tmp_path / "b").exists()


def test_an_internal_name_is_in_no_plan_neither_in_a_new_one_nor_in_one_that_lies_there(monkeypatch, tmp_path):
    own = {"__transaction_state": 1}
    with FakeCluster(own) as source, FakeCluster(own) as target:
        source.append("__transaction_state", 0, entry(b"v", key=b"k", offset=0))
        asked = request(source, target)
        asked = replace(asked, source={**asked.source, "subscribe": "__transaction_state"})
        with pytest.raises(Refused, match=r"__transaction_state.*, which is internal"):
            opened(tmp_path / "b", asked)
        with monkeypatch.context() as before:
            before.setattr("sparkpipeline.backfill.backfilljob.refuse_internal", lambda topics: None)
            opened(tmp_path / "b", asked).execute(FakeSpark(monkeypatch), 1, lambda *_: None)
        with pytest.raises(Refused, match=r"__transaction_state.*, which is internal"):
            opened(tmp_path / "b", None)
