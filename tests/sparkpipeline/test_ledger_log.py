"""The ledger itself: what it takes, what it refuses, what it reads to know where it stands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sparkpipeline.errors import LedgerDamaged, Missing, OptionRefused, Refused
from sparkpipeline.ledger.attempts import STALE_MS
from sparkpipeline.ledger.exactlyonce import Outcome, advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan, StagedBatch
from sparkpipeline.ledger.snapshots import KEPT
from tests.sparkpipeline.ledgerworld import BASE, CopyWork, judge, spans
from tests.sparkpipeline.memoryfiles import Kept, MemoryFiles

HEADS = (60, 45)
LOG = f"{BASE}/_load"


class World:
    """A ledger in memory with a clock of its own."""

    def __init__(self, batches: int = 0, snapshot_every: int = 3, trash_keep_s: float | None = 3600) -> None:
        self.files = MemoryFiles()
        self.now = 1_800_000_000_000
        self.every, self.keep = snapshot_every, trash_keep_s
        self.said: list[str] = []
        self.run(batches)

    @property
    def ledger(self) -> Ledger:
        """A fresh one, as every process has."""
        return Ledger(self.files, BASE, snapshot_every=self.every, trash_keep_s=self.keep, clock=lambda: self.now)

    def run(self, batches: int = 1, rewind: tuple[int, int] | None = None) -> Outcome:
        end = Outcome.IDLE
        for _ in range(batches):
            self.now += 1_000
            end = advance(self.ledger, CopyWork(self.files, HEADS, rewind=rewind), self.said.append).outcome
        return end

    def put(self, path: str, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change a file of the ledger behind its back."""
        row = json.loads(self.files.kept[path])
        change(row)
        self.files.kept[path] = json.dumps(row).encode()


def test_a_new_ledger_is_empty_and_its_first_batch_is_1() -> None:
    state = World().ledger.state()
    assert (state.next_batch, state.open_plan, state.unpublished, state.abandoned, state.newest) == (
        1,
        None,
        (),
        set(),
        None,
    )
    assert World().ledger.live_files() == {}
    assert list(World().ledger.manifests()) == []


def test_batches_follow_each_other_and_every_row_is_there_once() -> None:
    world = World()
    while world.run() is Outcome.DONE:
        pass
    judge(world.files, BASE, HEADS)
    assert [manifest.batch for manifest in world.ledger.manifests()] == [1, 2, 3, 4, 5, 6]
    assert [manifest.batch for manifest in world.ledger.manifests(since=4)] == [5, 6]
    newest = world.ledger.state().newest
    assert newest is not None
    assert newest.facts["until"] == {"0": 60, "1": 45}


def test_nothing_is_left_in_staging_and_plans_are_kept_word_for_word() -> None:
    world = World(2)
    assert not [path for path in world.files.kept if "/staging/" in path]
    assert world.ledger.plan(1).hash == world.ledger.manifest(1).plan_hash
    assert world.ledger.manifest(1).version
    assert world.ledger.manifest(2).started_ms == world.now


def test_files_as_of_a_batch_are_those_of_before() -> None:
    world = World(3)
    before = world.ledger.live_files()
    world.run(rewind=(0, 12))
    world.run(2)
    assert world.ledger.live_files(3) == before
    assert world.ledger.live_files(0) == {}
    now = world.ledger.live_files()
    assert {file.batch for file in now.values()} == {1, 2, 3, 4, 5, 6}
    assert sum(file.rows for file in world.ledger.live_files(4).values()) == sum(file.rows for file in before.values())
    assert sorted(spans(path)[1] for path, file in now.items() if file.batch == 4) == [10, 20]


def test_of_two_plans_with_one_number_the_first_stays() -> None:
    world = World(1)
    first = Plan(2, "copy", 1, {"by": "a"})
    assert world.ledger.put_plan(first)
    assert not world.ledger.put_plan(replace(first, work={"by": "b"}))
    assert world.ledger.put_plan(first), "the answer to the first call was lost, and it is asked again"
    assert world.ledger.state().open_plan == first


def test_a_plan_waits_for_its_turn() -> None:
    world = World(1)
    with pytest.raises(Refused, match="batch=3: batch 1 is to be published first, and no batch left out"):
        world.ledger.put_plan(Plan(3, "copy", 1, {}))
    del world.files.kept[f"{LOG}/done/00000001.json"]
    with pytest.raises(Refused, match="batch=2: batch 1 is to be published first"):
        world.ledger.put_plan(Plan(2, "copy", 1, {}))


def test_a_plan_may_supersede_only_what_is_live() -> None:
    world = World(2)
    world.run(rewind=(0, 0))
    gone = next(path for path in world.ledger.live_files(2) if path not in world.ledger.live_files())
    with pytest.raises(Refused, match=rf"supersedes {gone.replace('+', '.')}, which is not live"):
        world.ledger.put_plan(Plan(4, "copy", 1, {}, (gone,)))
    assert world.ledger.state().open_plan is None


def test_a_plan_of_another_number_than_asked_for_is_refused() -> None:
    class Wrong(CopyWork):
        def plan(self, ledger: Ledger, batch: int) -> Plan:
            return Plan(batch + 1, "copy", 1, {})

    world = World(1)
    with pytest.raises(OptionRefused, match="batch=2: the plan is of batch 3"):
        advance(world.ledger, Wrong(world.files, HEADS), world.said.append)


class Broken(CopyWork):
    """Work that fails, or says what is not so, in one way."""

    def __init__(self, files: MemoryFiles, how: Callable[[StagedBatch], StagedBatch]) -> None:
        super().__init__(files, HEADS)
        self.how = how

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        return self.how(super().execute(plan, staging, attempt))


def fails(_: StagedBatch) -> StagedBatch:
    raise RuntimeError("the audit counts 9 rows, the reader 10")


def changed(**what: Any) -> Callable[[StagedBatch], StagedBatch]:
    return lambda staged: replace(staged, files=(replace(staged.files[0], **what), *staged.files[1:]))


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        (fails, RuntimeError, "the audit counts 9"),
        (
            changed(bytes=7),
            LedgerDamaged,
            r"file=mem://.*/staging/00000002-1/.*: a staged file of 7 bytes has \d+ bytes",
        ),
        (changed(staged="nowhere"), LedgerDamaged, "/nowhere: a staged file of .* bytes is not there"),
        (changed(final="data/x.g1.c"), OptionRefused, r"holds \.g2"),
    ],
)
def test_work_that_fails_commits_nothing_and_leaves_no_files(how: Any, error: type[Exception], said: str) -> None:
    world = World(1)
    with pytest.raises(error, match=said):
        advance(world.ledger, Broken(world.files, how), world.said.append)
    state = world.ledger.state()
    assert (state.next_batch, state.open_plan is not None) == (2, True)
    assert not [path for path in world.files.kept if "/staging/" in path and not path.endswith((".claim", ".seal"))]
    again = advance(world.ledger, CopyWork(world.files, HEADS), world.said.append)
    assert (again.outcome, again.again, again.attempt) == (Outcome.DONE, True, 2)
    while world.run() is Outcome.DONE:
        pass
    judge(world.files, BASE, HEADS)


def test_the_very_plan_is_executed_again_whatever_the_work_would_plan_now() -> None:
    world = World(1)
    plan = CopyWork(world.files, HEADS, step=3).plan(world.ledger, 2)
    assert plan is not None
    world.ledger.put_plan(plan)
    world.run()
    assert world.ledger.manifest(2).plan_hash == plan.hash
    assert sum(file.rows for file in world.ledger.manifest(2).files) == 6


def test_what_follows_a_batch_may_fail_and_is_told() -> None:
    class Deaf(CopyWork):
        def published(self, manifest: Manifest) -> None:
            raise OSError("ZooKeeper is away")

    world = World()
    assert advance(world.ledger, Deaf(world.files, HEADS), world.said.append).outcome is Outcome.DONE
    assert world.said == ["batch 1 is published, but the steps after it failed: ZooKeeper is away"]


# abandon


def test_a_poison_plan_is_abandoned_and_the_next_batch_goes_on() -> None:
    world = World(2)
    world.ledger.put_plan(Plan(3, "copy", world.now, {"ranges": [[0, 50, 20]], "until": {}}))
    for _ in range(2):
        with pytest.raises(OptionRefused, match="counted from 0"):
            world.run()
    world.ledger.abandon(3, "negative range")
    state = world.ledger.state()
    assert (state.next_batch, state.open_plan, state.abandoned) == (4, None, {3})
    assert state.newest == world.ledger.manifest(2)
    with pytest.raises(Missing, match="batch=3: the batch was abandoned"):
        world.ledger.manifest(3)
    while world.run() is Outcome.DONE:
        pass
    judge(world.files, BASE, HEADS)
    assert 3 not in [manifest.batch for manifest in world.ledger.manifests()]
    assert world.ledger.state().abandoned == {3}, "also when it is in a snapshot"
    assert json.loads(world.files.kept[f"{LOG}/commits/00000003.json"])["facts"] == {"why": "negative range"}


def test_only_an_open_plan_can_be_abandoned() -> None:
    world = World(2)
    with pytest.raises(Refused, match="batch=2: the batch is committed; only a plan without commit"):
        world.ledger.abandon(2, "")
    with pytest.raises(Refused, match="batch=3: no plan has this number"):
        world.ledger.abandon(3, "")
    world.ledger.put_plan(Plan(3, "copy", 1, {}))
    world.ledger.abandon(3, "")
    world.now += 1
    with pytest.raises(Refused, match="batch=3: the batch is abandoned already"):
        world.ledger.abandon(3, "")


def test_a_plan_that_cannot_be_read_can_be_abandoned() -> None:
    world = World(1)
    world.files.kept[f"{LOG}/plans/00000002.json"] = b'{"batch": 2,'
    with pytest.raises(
        LedgerDamaged, match=r"plans/00000002.json: is not JSON .*; `abandon` of batch 2 works without it"
    ):
        world.run()
    world.ledger.abandon(2, "torn")
    assert world.run() is Outcome.DONE


# snapshots


def test_a_start_reads_the_newest_snapshot_and_what_is_behind_it() -> None:
    """3,000 batches; the files that are read and listed do not grow with them."""
    world = World(snapshot_every=50)
    grown(world, 3_000)
    counts: Counter[str] = Counter()
    inner = world.files

    class Counting(MemoryFiles):
        def list(self, path: str) -> Any:
            counts["listed entries"] += len(found := super().list(path))
            return found

        def read(self, path: str) -> bytes:
            counts["read"] += 1
            return super().read(path)

        def exists(self, path: str) -> bool:
            counts["exists"] += 1
            return super().exists(path)

    ledger = Ledger(Counting(inner.kept), BASE)
    state = ledger.state()
    assert state.next_batch == 3_001
    assert state.newest is not None
    assert state.newest.batch == 3_000
    assert counts["read"] <= 50 + 4
    assert counts["listed entries"] <= 2 * KEPT
    assert counts["exists"] <= 2
    assert len(ledger.live_files()) == 3_000
    assert len(ledger.live_files(1_234)) == 1_234
    assert len(ledger.snapshots.all()) == KEPT


def grown(world: World, batches: int) -> None:
    """Batches of one file each, without the work."""
    ledger = world.ledger
    for batch in range(1, batches + 1):
        plan = Plan(batch, "copy", batch, {})
        file = BatchFile("part", f"data/x+0+{batch}+{batch + 1}.g{batch}", 1, 4)
        manifest = Manifest(
            batch=batch,
            kind="copy",
            plan_hash=plan.hash,
            attempt=1,
            application="app",
            started_ms=1,
            committed_ms=2,
            files=(file,),
            supersedes=(),
            facts={},
            version="0",
        )
        world.files.kept[ledger.layout.plan(batch)] = plan.text().encode()
        world.files.kept[ledger.layout.commit(batch)] = manifest.text().encode()
        world.files.kept[ledger.layout.done(batch)] = b"{}\n"
        if batch % 50 == 0 and batch > batches - 250:
            assert ledger.compact_log() == batch


def test_snapshots_say_what_the_manifests_say() -> None:
    world = World(5, snapshot_every=2)
    world.run(rewind=(0, 3))
    world.run()
    ledger = world.ledger
    assert ledger.snapshots.all() == [2, 4, 6]
    plain = World()
    plain.files.kept = Kept({path: data for path, data in world.files.kept.items() if "/snapshots/" not in path})
    assert plain.ledger.live_files() == ledger.live_files()
    assert plain.ledger.state() == ledger.state()
    assert ledger.snapshots.live(ledger.snapshots.newest()) == plain.ledger.live_files(6)


def test_no_snapshot_of_a_batch_that_is_not_published() -> None:
    world = World(4, snapshot_every=2)
    del world.files.kept[f"{LOG}/done/00000004.json"]
    for path in [path for path in world.files.kept if "/snapshots/" in path]:
        del world.files.kept[path]
    assert world.ledger.compact_log() == 3
    assert world.ledger.state().unpublished == (world.ledger.manifest(4),)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"format": 1}', b"\xff"])
def test_a_damaged_snapshot_is_said_so_and_deleting_it_helps(data: bytes) -> None:
    world = World(6, snapshot_every=3)
    path = f"{LOG}/snapshots/00000006.json"
    world.files.kept[path] = data
    with pytest.raises(LedgerDamaged, match=rf"file={path}: is not a snapshot of a ledger .*; delete it"):
        world.ledger.state()
    del world.files.kept[path]
    assert world.ledger.state().next_batch == 7
    assert world.ledger.compact_log() == 6


def test_a_damaged_list_of_files_is_said_so_and_deleting_it_helps() -> None:
    world = World(6, snapshot_every=3)
    path = f"{LOG}/snapshots/00000006.files.gz"
    world.files.kept[path] += b"x"
    with pytest.raises(LedgerDamaged, match=rf"file={path}: its checksum is not .*; delete both"):
        world.ledger.live_files()
    del world.files.kept[path.replace(".files.gz", ".json")]
    with pytest.raises(LedgerDamaged, match=rf"file={path}: is not the live files of these batches; delete it"):
        world.ledger.compact_log()
    del world.files.kept[path]
    assert world.ledger.compact_log() == 6
    assert len(world.ledger.live_files()) == len(world.ledger.live_files(6))


def test_a_snapshot_that_another_driver_deletes_meanwhile_is_gone_round() -> None:
    world = World(6, snapshot_every=3)
    wanted = world.ledger.live_files()
    slow = world.ledger
    start = slow.snapshots.newest()
    for path in [path for path in world.files.kept if "/snapshots/" in path]:
        del world.files.kept[path]
    with pytest.raises(Missing):
        slow.snapshots.live(start)
    assert slow.live_files() == wanted


# damage


def test_a_commit_under_another_number_is_said_so() -> None:
    world = World(2)
    world.files.kept[f"{LOG}/commits/00000003.json"] = world.files.kept[f"{LOG}/commits/00000002.json"]
    with pytest.raises(LedgerDamaged, match=r"00000003\.json: holds the manifest of batch 2"):
        world.ledger.state()


def test_a_commit_that_is_no_text_is_said_so() -> None:
    world = World(2)
    world.files.kept[f"{LOG}/commits/00000003.json"] = b"\xff\xfe"
    with pytest.raises(LedgerDamaged, match=r"00000003\.json: is not text: torn"):
        world.ledger.state()


def test_a_foreign_file_at_a_final_name_is_not_taken_for_ours() -> None:
    world = World(1)
    final = unpublished(world)
    world.files.kept[f"{BASE}/{final}"] = b"foreign"
    with pytest.raises(
        LedgerDamaged, match=r"there is a file of 7 bytes, and the batch has one of .* move the foreign one"
    ):
        world.run()
    del world.files.kept[f"{BASE}/{final}"]
    while world.run() is Outcome.DONE:
        pass
    judge(world.files, BASE, HEADS)


def test_a_committed_file_that_was_deleted_is_said_so() -> None:
    world = World(1)
    unpublished(world)
    for path in [path for path in world.files.kept if "/staging/" in path]:
        del world.files.kept[path]
    with pytest.raises(
        LedgerDamaged, match=r"is committed, and its file is neither here nor at mem://.*staging/00000002-1"
    ):
        world.run()


def unpublished(world: World) -> str:
    """Commit a batch, and end before it is published; one of its files."""
    ledger, work = world.ledger, CopyWork(world.files, HEADS)
    plan = work.plan(ledger, 2)
    assert plan is not None
    assert ledger.put_plan(plan)
    attempt = ledger.claim(2)
    assert attempt == 1
    staged = work.execute(plan, ledger.staging(2, 1), 1)
    manifest = Manifest(
        batch=2,
        kind=plan.kind,
        plan_hash=plan.hash,
        attempt=1,
        application="app",
        started_ms=1,
        committed_ms=2,
        files=staged.files,
        supersedes=(),
        facts=staged.facts,
        version="0",
    )
    assert ledger.prepare(manifest)
    assert ledger.commit(manifest)
    assert not ledger.commit(replace(manifest, attempt=2))
    assert ledger.commit(manifest), "asked again, for its answer was lost"
    return manifest.files[0].final


def test_a_manifest_of_another_plan_is_not_committed() -> None:
    world = World(1)
    plan = Plan(2, "copy", 1, {})
    world.ledger.put_plan(plan)
    manifest = Manifest(
        batch=2,
        kind="copy",
        plan_hash="another",
        attempt=1,
        application="app",
        started_ms=1,
        committed_ms=2,
        files=(),
        supersedes=(),
        facts={},
        version="0",
    )
    with pytest.raises(LedgerDamaged, match="batch=2: the manifest is not of the plan"):
        world.ledger.prepare(manifest)


def test_a_superseded_file_that_somebody_deleted_stops_nothing() -> None:
    world = World(2)
    gone = next(path for path in world.ledger.live_files() if path.startswith("data/topic=orders/hour=00/orders+0"))
    del world.files.kept[f"{BASE}/{gone}"]
    world.run(rewind=(0, 0))
    assert f"batch 3 supersedes {gone}, which was deleted from outside" in world.said
    while world.run() is Outcome.DONE:
        pass
    judge(world.files, BASE, HEADS)


# trash and attempts


def test_trash_is_kept_until_its_time_is_over() -> None:
    world = World(2)
    world.run(rewind=(0, 0))
    trash = [path for path in world.files.kept if "/trash/" in path]
    assert trash
    assert all(path.startswith(f"{LOG}/trash/00000003/data/topic=orders/") for path in trash)
    world.now += 3_500_000
    world.run()
    assert [path for path in world.files.kept if "/trash/" in path] == trash
    world.now += 200_000
    world.run()
    assert not [path for path in world.files.kept if "/trash/" in path]


def test_trash_may_be_kept_for_ever_and_foreign_folders_in_it_stay() -> None:
    world = World(2, trash_keep_s=None)
    world.run(rewind=(0, 0))
    world.now += 10**12
    world.run()
    assert [path for path in world.files.kept if "/trash/" in path]
    world.keep = 1
    world.files.kept[f"{LOG}/trash/notes/why"] = b"mine"
    assert world.ledger.drop_trash() == [3]
    assert [path for path in world.files.kept if "/trash/" in path] == [f"{LOG}/trash/notes/why"]


def begun_by(world: World, **owner: Any) -> None:
    """An attempt at batch 2 with one file, whose claim says this of its process."""
    world.ledger.put_plan(Plan(2, "copy", 1, {"ranges": [[0, 10, 20], [1, 10, 20]], "until": {"0": 10, "1": 10}}))
    assert world.ledger.claim(2) == 1
    world.files.kept[f"{LOG}/staging/00000002-1/part"] = b"rows"
    world.put(f"{LOG}/staging/00000002-1.claim", lambda row: row.update(owner))


@pytest.mark.parametrize(
    ("owner", "after_ms", "alone", "gone"),
    [
        ({}, 0, False, False),  # this very process: it lives
        ({"start": "1"}, 0, False, True),  # its number was given to another process since
        ({"pid": 2**22 + 1}, 0, False, True),
        ({"host": "elsewhere"}, 0, False, False),
        ({"host": "elsewhere"}, STALE_MS + 2_000, False, True),
        ({"place": "another boot"}, 0, False, False),
        ({}, STALE_MS + 2_000, False, True),
        ({}, 0, True, True),
    ],
)
def test_files_of_a_driver_that_is_gone_are_deleted(
    owner: dict[str, Any], after_ms: int, alone: bool, gone: bool
) -> None:
    world = World(1)
    begun_by(world, **owner)
    world.now += after_ms
    world.ledger.attempts.sweep(2, alone, world.said.append)
    assert (f"{LOG}/staging/00000002-1/part" not in world.files.kept) is gone
    assert bool(world.said) is gone
    assert world.ledger.claim(2) == 2, "the number of an attempt is not used again"
    assert world.ledger.attempts.seal(2, 1) is not gone


def test_a_claim_that_cannot_be_read_is_nobodys() -> None:
    world = World(1)
    begun_by(world)
    world.files.kept[f"{LOG}/staging/00000002-1.claim"] = b"{torn"
    world.ledger.attempts.sweep(2, False, world.said.append)
    assert world.said == ["attempt 1 at batch 2: its driver is gone, and what it wrote is deleted"]


def test_a_sealed_attempt_is_deleted_only_when_its_batch_is_decided() -> None:
    world = World(1)
    begun_by(world)
    assert world.ledger.attempts.seal(2, 1)
    world.ledger.attempts.sweep(2, True, world.said.append)
    assert not world.ledger.attempts.give_up(2, 1)
    assert f"{LOG}/staging/00000002-1/part" in world.files.kept
    world.run()
    assert world.ledger.manifest(2).attempt == 2
    assert not [path for path in world.files.kept if "/staging/" in path]


def test_foreign_files_in_staging_stay() -> None:
    world = World(1)
    world.files.kept[f"{LOG}/staging/notes.txt"] = b"mine"
    world.run(2)
    assert world.files.kept[f"{LOG}/staging/notes.txt"] == b"mine"
