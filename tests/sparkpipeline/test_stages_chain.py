"""Three stages behind a load, on real ledgers: rewinds, compactions and crashes at every step of the protocol."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from groundwork import failpoints
from groundwork.failpoints import FailpointReached
from sparkpipeline.errors import Refused
from sparkpipeline.ledger.exactlyonce import POINTS, advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.local import LocalFiles
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan, StagedBatch
from sparkpipeline.stages.graph import LOAD
from sparkpipeline.stages.inputs import NotYet, StageInput
from sparkpipeline.stages.pipelinefile import BATCH, Stage
from sparkpipeline.stages.pipelinerun import MOST_LOST, advance_stage
from sparkpipeline.stages.stageplan import Planner, past_of
from tests.sparkpipeline.stagechains import Chain, ChainWork

EVENTS = ("load", "load", "load", "rewind", "compact", "run", "run", "one")


@pytest.fixture(autouse=True)
def _quick_and_disarmed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # no power fails here, and thousands of files are made
    yield
    failpoints.arm("")


def run(chain: Chain, names: tuple[str, ...] = Chain.NAMES) -> dict[str, list[Manifest]]:
    return {name: list(advance_stage(chain.work(name), chain.told.append)) for name in names}


def assert_true(chain: Chain) -> None:
    """What stands is what the rows of the load make in one go, and folders hold what ledgers say."""
    rows = chain.live("orders")
    assert Counter(map(tuple, chain.live("lines"))) == Counter((hour, number * 2) for hour, number in rows)
    assert sorted(chain.live("counts")) == [list(row) for row in sorted(Counter(hour for hour, _ in rows).items())]
    assert sum(count for _, count in chain.live("totals")) == len(rows)
    for name in ("orders", *Chain.NAMES):
        assert chain.on_disk(name) == set(chain.ledger(name).live_files())


def test_each_batch_runs_once_and_then_there_is_nothing_to_do(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.happen("load")
    chain.happen("load")
    assert {name: len(done) for name, done in run(chain).items()} == {"lines": 1, "counts": 1, "totals": 1}
    assert_true(chain)
    assert {name: len(done) for name, done in run(chain).items()} == {"lines": 0, "counts": 0, "totals": 0}
    chain.happen("load")
    assert {name: len(done) for name, done in run(chain).items()} == {"lines": 1, "counts": 1, "totals": 1}
    assert_true(chain)


def test_a_rewind_runs_exactly_what_lies_below_it(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    for _ in range(4):
        chain.happen("load")
        run(chain, ("lines",))
    run(chain)
    rewind = chain.happen("rewind")
    assert rewind is not None
    spoilt = {
        past.number
        for past in map(past_of, chain.ledger("lines").manifests())
        if not past.took["orders"].isdisjoint(rewind.supersedes)
    }
    done = run(chain)
    assert [set(manifest.facts["replaces"]) for manifest in done["lines"]] == [spoilt]
    assert 0 < len(spoilt) < 4
    assert {manifest.kind for manifests in done.values() for manifest in manifests} == {"rerun"}
    assert_true(chain)


def test_a_compaction_runs_nothing(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    for _ in range(4):
        chain.happen("load")
    run(chain)
    assert chain.happen("compact") is not None
    assert run(chain) == {"lines": [], "counts": [], "totals": []}
    assert_true(chain)


def test_a_stage_waits_until_its_input_has_a_batch(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    with pytest.raises(NotYet, match="orders has no batch yet"):
        run(chain, ("lines",))


def test_a_stage_waits_while_its_input_is_committed_and_not_published(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.happen("load")
    failpoints.arm("ledger after commit=raise")
    with pytest.raises(FailpointReached):
        chain.happen("load")
    failpoints.arm("")
    with pytest.raises(NotYet, match="batch 2 of orders is committed, and not published yet"):
        run(chain, ("lines",))
    chain.happen("load")
    run(chain)
    assert_true(chain)


def test_an_open_plan_is_carried_out_as_it_is(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.happen("load")
    failpoints.arm("ledger before execute=raise")
    with pytest.raises(FailpointReached):
        run(chain, ("lines",))
    failpoints.arm("")
    chain.happen("load")
    first, second = run(chain, ("lines",))["lines"]
    assert first.facts["inputs"]["orders"]["fresh"] == [1]
    assert second.facts["inputs"]["orders"]["fresh"] == [2]
    run(chain)
    assert_true(chain)


@pytest.mark.parametrize("kind", ["rewind", "compact"])
def test_an_open_plan_whose_files_are_gone_is_abandoned_and_said_so(tmp_path: Path, kind: str) -> None:
    chain = Chain(tmp_path)
    chain.happen("load")
    failpoints.arm("ledger before execute=raise")
    with pytest.raises(FailpointReached):
        run(chain, ("lines",))
    failpoints.arm("")
    chain.happen(kind)
    done = run(chain)
    assert any(
        "batch 1 was planned and not committed, and is abandoned: orders has superseded" in said for said in chain.told
    )
    assert [manifest.batch for manifest in done["lines"]] == [2]
    assert_true(chain)


def test_again_writes_everything_anew_once_also_across_a_crash(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    for _ in range(3):
        chain.happen("load")
        run(chain)
    for point in (None, "ledger before execute"):
        if point is not None:
            failpoints.arm(f"{point}=raise")
        work = chain.work("lines")
        work.again = True
        if point is None:
            (manifest,) = advance_stage(work, chain.told.append)
            assert manifest.facts["replaces"] == [1, 2, 3]
        else:
            with pytest.raises(FailpointReached):
                list(advance_stage(work, chain.told.append))
            failpoints.arm("")
            (manifest,) = run(chain, ("lines",))["lines"]
            assert manifest.facts["replaces"] == [4]
        assert manifest.kind == "rerun"
        run(chain)
        assert_true(chain)


def test_another_mode_is_refused_until_all_is_written_anew(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.happen("load")
    run(chain)
    stage, program = chain.stages["counts"]
    chain.stages["counts"] = (replace(stage, mode=BATCH), program)
    with pytest.raises(
        Refused,
        match="it ran in mode partition by hour until now, and its file says in mode batch by hour; run --again counts",
    ):
        run(chain, ("counts",))
    work = chain.work("counts")
    work.again = True
    assert len(list(advance_stage(work, chain.told.append))) == 1
    run(chain)
    assert_true(chain)


def test_an_input_under_another_name_is_refused_because_its_rows_would_come_twice(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.happen("load")
    run(chain)
    (tmp_path / "orders").rename(tmp_path / "kafka")
    stage, program = chain.stages["lines"]
    chain.stages["lines"] = (replace(stage, inputs=("kafka",)), program)
    with pytest.raises(Refused, match=r"it took 'orders' until now, and 'kafka' is in its place: .* run --again lines"):
        run(chain, ("lines",))
    work = chain.work("lines")
    work.again = True
    assert len(list(advance_stage(work, chain.told.append))) == 1
    assert run(chain, ("lines",)) == {"lines": []}
    rows = chain.live("kafka")
    assert Counter(map(tuple, chain.live("lines"))) == Counter((hour, number * 2) for hour, number in rows)


def test_an_input_that_comes_back_is_taken_from_where_it_was_left(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    stage, program = chain.stages["lines"]
    for inputs in (("orders", "more"), ("orders",), ("orders", "more")):
        chain.stages["lines"] = (replace(stage, inputs=inputs), program)
        for name in ("orders", "more"):
            chain.happen("load", name)
        (manifest,) = run(chain, ("lines",))["lines"]
    assert manifest.facts["inputs"]["more"]["fresh"] == [2, 3]
    rows = chain.live("orders") + chain.live("more")
    assert Counter(map(tuple, chain.live("lines"))) == Counter((hour, number * 2) for hour, number in rows)


def test_of_a_load_only_the_topics_that_are_asked_for_run_a_stage(tmp_path: Path) -> None:
    ledger = Ledger(LocalFiles(), f"file://{tmp_path}/orders")
    upstream = StageInput("orders", LOAD, ledger, frozenset({"a"}))
    planner = Planner(Stage(name="lines", inputs=("orders",), topics=("a",)), {"orders": upstream})
    own = Ledger(LocalFiles(), f"file://{tmp_path}/lines")

    class Topics:
        def __init__(self, kind: str, topics: str, supersedes: tuple[str, ...] = ()) -> None:
            self.kind, self.topics, self.supersedes = kind, topics, supersedes

        def plan(self, ledger: Ledger, batch: int) -> Plan:
            return Plan(batch, self.kind, 0, {}, self.supersedes)

        def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
            files = []
            for topic in self.topics:
                path = f"topic={topic}/x.g{plan.batch}.json"
                ledger.files.create(f"{staging}/{path}", b"[]")
                files.append(BatchFile(path, f"data/{path}", 0, 2))
            return StagedBatch(tuple(files), {}, "test")

        def published(self, manifest: Manifest) -> None: ...

    advance(ledger, Topics("load", "ab"), print)
    plan = planner.plan(own, 1)
    assert plan is not None
    assert plan.work["inputs"]["orders"]["files"] == ["data/topic=a/x.g1.json"]
    work = ChainWork(
        stage=planner.stage, planner=planner, ledger=own, program=lambda _, frames: [], program_hash="hash", spark=None,
        tell=print,
    )  # fmt: skip
    assert len(list(advance_stage(work, print))) == 1
    advance(ledger, Topics("rewind", "b", ("data/topic=b/x.g1.json",)), print)
    assert planner.plan(own, 2) is None
    advance(ledger, Topics("rewind", "a", ("data/topic=a/x.g1.json",)), print)
    plan = planner.plan(own, 2)
    assert plan is not None
    assert plan.work["replaces"] == [1]
    other = Planner(replace(planner.stage, topics=()), planner.inputs)
    with pytest.raises(Refused, match="it ran in mode batch by no columns, topics a until now"):
        other.plan(own, 2)


def test_an_input_whose_ledger_was_begun_anew_is_refused(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.happen("load")
    chain.happen("load")
    run(chain)
    (tmp_path / "orders").rename(tmp_path / "before")
    chain.happen("load")
    with pytest.raises(
        Refused, match="'orders' does not have the batch 2 that this stage took: its ledger was deleted and begun again"
    ):
        run(chain, ("lines",))
    chain.load.random.random()
    chain.happen("load")
    with pytest.raises(Refused, match="begun again"):
        run(chain, ("lines",))
    work = chain.work("lines")
    work.again = True
    list(advance_stage(work, chain.told.append))
    run(chain)
    assert_true(chain)


def test_a_driver_that_loses_each_time_says_so(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.happen("load")

    class Slow(ChainWork):
        def execute(self, plan, staging, attempt):  # type: ignore[no-untyped-def]
            staged = super().execute(plan, staging, attempt)
            chain.happen("load")
            advance(chain.ledger("lines"), chain.work("lines"), chain.told.append)  # the quicker one
            return staged

    with pytest.raises(Refused, match="another driver runs this stage, and was quicker each time"):
        list(advance_stage(chain.work("lines", Slow), chain.told.append))
    assert sum("another driver committed it" in said for said in chain.told) == MOST_LOST
    run(chain)
    assert_true(chain)


def test_most_batches_a_run_take_them_in_order(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    stage, program = chain.stages["lines"]
    chain.stages["lines"] = (replace(stage, batches_per_run=2), program)
    for _ in range(5):
        chain.happen("load")
    done = run(chain)["lines"]
    assert [manifest.facts["inputs"]["orders"]["fresh"] for manifest in done] == [[1, 2], [3, 4], [5]]
    assert [manifest.facts["inputs"]["orders"]["through"] for manifest in done] == [2, 4, 5]
    assert_true(chain)


@pytest.mark.thorough
@pytest.mark.parametrize("victim", Chain.NAMES)
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_each_step_of_each_stage_with_a_rewind_in_the_middle(
    tmp_path: Path, point: str, victim: str
) -> None:
    chain = Chain(tmp_path, seed=len(point), snapshot_every=2)
    chain.happen("load")
    run(chain)
    chain.happen("load")
    crash(chain, point, victim)
    chain.happen("rewind")
    crash(chain, point, victim)
    run(chain)
    assert_true(chain)


def crash(chain: Chain, point: str, victim: str) -> None:
    """Run the chain; the victim ends at the point, if it comes there, and what lies below it waits."""
    names = Chain.NAMES[: Chain.NAMES.index(victim)]
    run(chain, names)
    failpoints.arm(f"{point}=raise@1")
    try:
        run(chain, (victim,))
    except FailpointReached:
        return
    finally:
        failpoints.arm("")
    run(chain)


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(n, marks=pytest.mark.faults) for n in range(5, 80))])
def test_any_history_with_crashes_ends_with_every_row_once(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    chain = Chain(tmp_path, seed, snapshot_every=3)
    chain.happen("load")
    if seed % 3 == 0:
        stage, program = chain.stages["lines"]
        chain.stages["lines"] = (replace(stage, batches_per_run=1), program)
    crashes = 0
    for _ in range(30):
        if rng.random() < 0.7:
            failpoints.arm(f"{rng.choice(POINTS)}=raise@{rng.randint(1, 2)}")
        try:
            event = rng.choice(EVENTS)
            if event in ("run", "one"):
                run(chain, Chain.NAMES if event == "run" else (rng.choice(Chain.NAMES),))
            else:
                chain.happen(event)
        except FailpointReached:
            crashes += 1
        except NotYet:
            pass
        finally:
            failpoints.arm("")
    chain.happen("load")
    run(chain)
    assert crashes > 2
    assert_true(chain)
