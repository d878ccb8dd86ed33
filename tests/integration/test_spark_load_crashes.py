"""A load, a rewind and a compaction that end at each step of the protocol, one after the other in the same batch: what
readers see is right after each crash, and in the end every row is there exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groundwork.failpoints import FailpointReached, arm
from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from sparkpipeline.ledger.exactlyonce import POINTS
from sparkpipeline.ledger.reports import files_of
from sparkpipeline.load.operations import CompactWanted, RewindWanted, run_operation
from tests.conftest import Unique
from tests.integration.sparkloads import Job, events, job

pytestmark = [pytest.mark.real, pytest.mark.spark]

TEN = 1767261600000  # 2026-01-01T10:00Z
CREATE = "files before link=raise@"  # the n-th file that the run makes
BEFORE_PLAN = ["ledger before recovery", "ledger before sweep", "ledger before plan", f"{CREATE}1"]
BEFORE_COMMIT = [
    "ledger after plan",  # reached once, by the run that makes the plan
    f"{CREATE}1",  # the claim
    "ledger before execute", "load after write", "load after audit", "ledger after execute",
    f"{CREATE}2",  # the seal
    "ledger after seal", "ledger before commit",
    f"{CREATE}3",  # the commit
    "ledger after commit",
]  # fmt: skip
PUBLISHING = ["ledger before trash", "ledger during publish", "ledger before done", f"{CREATE}1", "ledger after done"]
AFTERWARDS = ["ledger before outward", "ledger after outward", "ledger during snapshot", "ledger after snapshot"]


@pytest.fixture(autouse=True)
def _nothing_armed() -> Iterator[None]:
    yield
    arm("")


def crash(point: str, run: Callable[[], object]) -> None:
    """Run until the point is reached, which it must be."""
    arm(point if "=" in point else f"{point}=raise@1")
    with pytest.raises(FailpointReached):
        run()
    arm("")


def seen(load: Job) -> int:
    """Rows that a reader of the manifests' files gets; none is missing on its way, none there twice."""
    assert len({row.path for row in files_of(load.ledger)}) == len(files_of(load.ledger))
    return sum(row.rows for row in files_of(load.ledger))


def test_every_step_of_the_protocol_is_among_the_crashes() -> None:
    tried = {point.partition("=")[0] for point in [*BEFORE_PLAN, *BEFORE_COMMIT, *PUBLISHING, *AFTERWARDS]}
    assert tried == {*POINTS, "load after write", "load after audit"}


LONGER = [pytest.param(kind, marks=pytest.mark.faults) for kind in ("rewind", "compact")]


@pytest.mark.parametrize("kind", ["load", *LONGER])
def test_a_crash_at_any_step_loses_and_repeats_nothing(
    kind: str, spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    tp = TopicPartition(topic, 0)
    source.create_topic(topic)
    load = job(source, tmp_path, spark, topics=[topic], time_from="json", time_field="$.meta.at", snapshot_every=1,
               hours_close=False)  # fmt: skip

    def more() -> None:
        events(source, tp, [TEN + n for n in range(10)])

    def new_batch() -> None:
        if kind == "load":
            more()
        begin[kind]()

    begin: dict[str, Callable[[], object]] = {
        "load": load.run,
        "rewind": lambda: run_operation(load.config, spark, load.told.append, RewindWanted(topic, TEN)),
        "compact": lambda: run_operation(
            load.config, spark, load.told.append, CompactWanted("2026-01-01", min_files=1)
        ),
    }
    for _ in range(2):
        more()
        load.run()
    before = seen(load)
    after = before + (10 if kind == "load" else 0)
    if kind == "load":
        more()
    for point in BEFORE_PLAN:
        crash(point, begin[kind])
        assert seen(load) == before
    for point in BEFORE_COMMIT:
        crash(point, begin[kind] if point == "ledger after plan" else load.run)
        assert seen(load) == (after if point == "ledger after commit" else before)
    assert load.ledger.state().newest is not None
    assert load.ledger.state().newest.kind == kind
    for point in PUBLISHING:
        if point != "ledger before trash" or kind != "load":
            crash(point, load.run)
            assert seen(load) == after
    load.run()
    assert len(load.rows()) == after
    for point in AFTERWARDS:
        crash(point, new_batch)
    load.run()
    assert len(load.rows()) == after + (40 if kind == "load" else 0)
    assert sorted(row[2] for row in load.rows()) == list(range(len(load.rows())))
    load.check()
