"""A position that was set back: what was loaded before it stays what it is.  A real ledger, no cluster, no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from sparkpipeline.ledger.exactlyonce import advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.local import LocalFiles
from sparkpipeline.ledger.manifests import BatchFile, Plan, StagedBatch
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.job import JobContext
from sparkpipeline.load.loadcluster import Cluster, ClusterSnapshot
from sparkpipeline.load.loadplan import LOAD, LogBounds
from sparkpipeline.load.operations import CompactWanted, CompactWork, RewindWanted, RewindWork, init_plan
from sparkpipeline.paths import generation

P0 = TopicPartition("t", 0)


class Made:
    """Batches of empty files, with the facts of loads.  given: the plan of the next one."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(LocalFiles(), f"file://{folder}/base")
        self.given: Plan | None = None
        self.facts: dict[str, object] = {}
        self.names: tuple[tuple[str, int, int], ...] = ()

    def plan(self, ledger: Ledger, batch: int) -> Plan | None:
        return self.given

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        files = []
        for hour, start, until in self.names:
            path = f"topic=t/date=2026-01-01/hour={hour}/t+0+{start:020}+{until:020}{generation(plan.batch)}.parquet"
            assert self.ledger.files.create(f"{staging}/{path}", b"")
            files.append(BatchFile(path, f"data/{path}", until - start, 0))
        return StagedBatch(tuple(files), self.facts, "test")

    def published(self, manifest: object) -> None: ...

    @property
    def state(self) -> JobState:
        return JobState.of(self.ledger.state().newest)

    def batch(self, plan: Plan, facts: dict[str, object], *names: tuple[str, int, int]) -> None:
        self.given, self.facts, self.names = plan, facts, names
        assert advance(self.ledger, self, lambda said: None).manifest is not None

    def load(self, hour: str, start: int, until: int) -> None:
        batch = self.ledger.state().next_batch
        facts = JobState(positions={P0: until}, passed={}, averages={}, set_back=self.state.set_back).facts()
        self.batch(Plan(batch, LOAD, 0, {}), facts, (hour, start, until))

    def init(self, at: int) -> None:
        plan = init_plan(self.ledger.state().next_batch, 0, self.state, {P0: at})
        self.batch(plan, plan.work["facts"])

    def compact(self, hour: str) -> None:
        """What `load compact` does, but for its rows."""
        work = CompactWork(self.job(), CompactWanted("2026-01-01", hour=hour))
        plan = work.plan(self.ledger, self.ledger.state().next_batch)
        assert plan is not None
        ((start, until),) = [(group["start"], group["until"]) for group in plan.work["groups"]]
        self.batch(plan, self.state.facts(), (hour, start, until))

    def job(self) -> JobContext:
        config = LoadConfig(base=self.ledger.base, bootstrap=(("b", 1),), topics=("t",))
        self.said: list[str] = []
        nowhere = Cluster(None, None, None)  # type: ignore[arg-type]
        return JobContext(config=config, spark=None, tell=self.said.append, cluster=nowhere, ledger=self.ledger)

    def rewound(self, monkeypatch: pytest.MonkeyPatch, latest: int) -> list[tuple[str, int]]:
        """Hours of what a rewind to the beginning replaces, and where it begins."""
        work = RewindWork(self.job(), RewindWanted("t", 0))
        monkeypatch.setattr(work, "take_snapshot", lambda state: (ClusterSnapshot({P0: LogBounds(0, latest)}, ()), 0))
        found = work.rewound(self.ledger)
        return [(file.final.split("hour=")[1][:2], found.ranges[0].start) for file in found.supersedes]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setattr("os.fsync", lambda fd: None)
    return Made(tmp_path)


def test_a_rewind_keeps_the_files_of_the_log_before_the_topic_was_made_anew(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.load("08", 0, 100)
    made.load("09", 100, 150)
    made.init(0)
    made.load("10", 0, 80)
    assert made.rewound(monkeypatch, 80) == [("10", 0)]
    assert made.said == [
        "2 files of t stay: they were loaded before `load init` set positions back, and their offsets may be those of"
        " another log"
    ]
    made.load("11", 80, 400)  # longer than the log of before was
    assert made.rewound(monkeypatch, 400) == [("10", 0), ("11", 0)]


def test_a_position_set_forward_or_for_the_first_time_begins_nothing_anew(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.init(20)
    made.load("08", 20, 100)
    made.init(120)
    made.load("09", 120, 150)
    assert made.rewound(monkeypatch, 150) == [("08", 20), ("09", 20)]


def test_files_of_before_and_after_are_never_compacted_into_one(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.load("08", 0, 50)
    made.load("08", 50, 100)
    made.init(0)
    made.load("08", 0, 60)
    made.load("08", 60, 70)
    made.compact("08")
    spans = [tuple(map(int, path.split("+")[2:3])) for path in made.ledger.live_files()]
    assert sorted(spans) == [(0,), (0,), (50,)]  # [0, 70) of after; [0, 50) and [50, 100) of before
    made.compact("08")
    assert len(made.ledger.live_files()) == 2
    rewound = made.rewound(monkeypatch, 70)
    assert rewound == [("08", 0)]
    assert made.said[0].startswith("1 files of t stay")
    work = CompactWork(made.job(), CompactWanted("2026-01-01"))
    assert work.plan(made.ledger, 9) is None


def test_the_file_of_a_compaction_is_as_old_as_what_it_was_made_of(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.load("08", 0, 50)
    made.load("08", 50, 100)
    made.init(0)
    made.compact("08")
    made.load("09", 0, 200)
    assert made.rewound(monkeypatch, 200) == [("09", 0)]


def test_the_facts_of_every_later_batch_say_that_a_position_was_set_back(made: Made) -> None:
    made.load("08", 0, 50)
    made.init(10)
    made.load("08", 10, 60)
    assert made.state.set_back == {P0: 2}
    assert JobState.of(made.ledger.manifest(1)).set_back == {}
