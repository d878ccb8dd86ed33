"""Which partitions a stage in mode `partition` computes again."""

from __future__ import annotations

import random

import pytest

from sparkpipeline.paths import folders
from sparkpipeline.stages.batchmode import Batch, Lineage
from sparkpipeline.stages.partitionmode import Recompute, next_recompute, partition_of, shown, stranger

HOURS = ("date", "hour")


def path(hour: int, name: str) -> str:
    return f"data/topic=orders/date=2026-01-31/hour={hour:02}/{name}.parquet"


def own(hour: int, batch: int) -> str:
    return f"data/date=2026-01-31/hour={hour:02}/counts-00000.g{batch}.parquet"


def test_a_partition_is_told_by_the_folders_in_the_order_of_the_columns() -> None:
    assert folders(path(8, "a")) == {"topic": "orders", "date": "2026-01-31", "hour": "08"}
    assert partition_of(path(8, "a"), ("hour", "DATE")) == ("08", "2026-01-31")
    assert partition_of("data/a.parquet", HOURS) is None
    assert partition_of("data/a.parquet", ()) == ()
    assert shown(("2026-01-31", "08"), HOURS) == "date=2026-01-31/hour=08"
    assert shown((), ()) == "everything"


def recompute(
    inputs: dict[str, list[Batch]], seen: dict[str, int], columns: tuple[str, ...], own: list[str], again: bool = False
) -> Recompute | None:
    moves = {name: [batch for batch in batches if batch.number > seen.get(name, 0)] for name, batches in inputs.items()}
    live = {name: Lineage(batches).live for name, batches in inputs.items()}
    return next_recompute(moves, live, columns, own=own, again=again)


def test_a_file_without_the_folders_is_named() -> None:
    assert stranger([path(1, "a"), "data/x.parquet"], HOURS) == "data/x.parquet"
    assert stranger([path(1, "a"), "data/x.parquet"], ()) is None


def test_only_partitions_that_new_batches_touch_are_computed_from_all_that_they_hold() -> None:
    batches = [Batch(1, "load", (path(8, "a"), path(9, "b"))), Batch(2, "load", (path(9, "c"),))]
    found = recompute({"orders": batches}, {"orders": 1}, HOURS, [own(8, 1), own(9, 1)])
    assert found == Recompute(
        (("2026-01-31", "09"),), {"orders": (path(9, "b"), path(9, "c"))}, (own(9, 1),), {"orders": (2,)}
    )
    assert recompute({"orders": batches}, {"orders": 2}, HOURS, [own(8, 1), own(9, 2)]) is None


def test_a_rewind_touches_what_it_took_away_also_where_it_brings_nothing() -> None:
    batches = [
        Batch(1, "load", (path(8, "a"), path(9, "b"))),
        Batch(2, "rewind", (path(8, "a2"),), (path(8, "a"), path(9, "b"))),
    ]
    found = recompute({"orders": batches}, {"orders": 1}, HOURS, [own(8, 1), own(9, 1)])
    assert found is not None
    assert found.files == {"orders": (path(8, "a2"),)}
    assert found.supersedes == (own(8, 1), own(9, 1))


def test_compaction_touches_nothing() -> None:
    batches = [
        Batch(1, "load", (path(8, "a"), path(8, "b"))),
        Batch(2, "compact", (path(8, "ab"),), (path(8, "a"), path(8, "b"))),
    ]
    assert recompute({"orders": batches}, {"orders": 1}, HOURS, [own(8, 1)]) is None
    # ... but a batch not seen before is, although its file lives on in a compacted one.
    found = recompute({"orders": batches}, {}, HOURS, [])
    assert found == Recompute((("2026-01-31", "08"),), {"orders": (path(8, "ab"),)}, (), {"orders": (1,)})


def test_without_columns_everything_is_one_partition() -> None:
    batches = [Batch(1, "load", (path(8, "a"),)), Batch(2, "load", (path(9, "b"),))]
    found = recompute({"orders": batches}, {"orders": 1}, (), ["data/x.parquet"])
    assert found == Recompute(((),), {"orders": (path(8, "a"), path(9, "b"))}, ("data/x.parquet",), {"orders": (2,)})


def test_one_input_that_moved_brings_the_others_along() -> None:
    inputs = {
        "a": [Batch(1, "load", (path(8, "a"),))],
        "b": [Batch(4, "load", (path(8, "b"),)), Batch(5, "load", (path(8, "c"),))],
    }
    found = recompute(inputs, {"a": 1, "b": 4}, HOURS, [own(8, 1)])
    assert found is not None
    assert found.files == {"a": (path(8, "a"),), "b": (path(8, "b"), path(8, "c"))}
    assert found.fresh == {"a": (), "b": (5,)}


def test_again_computes_all_partitions_and_takes_away_what_no_input_has_any_more() -> None:
    batches = [Batch(1, "load", (path(8, "a"),))]
    found = recompute(
        {"orders": batches}, {"orders": 1}, HOURS, [own(8, 1), own(7, 1), "data/flat.parquet"], again=True
    )
    assert found is not None
    assert found.partitions == (("2026-01-31", "07"), ("2026-01-31", "08"))
    assert set(found.supersedes) == {own(8, 1), own(7, 1), "data/flat.parquet"}
    assert found.files == {"orders": (path(8, "a"),)}


@pytest.mark.parametrize("seed", range(30))
def test_after_any_history_each_partition_was_last_computed_from_what_it_holds(seed: int) -> None:
    rng = random.Random(seed)
    batches: list[Batch] = []
    live: set[str] = set()
    seen = 0
    computed: dict[tuple[str, ...], set[str]] = {}  # partition -> rows (files but for compaction, which keeps them)
    rows: dict[str, set[str]] = {}
    outputs: dict[str, tuple[str, ...]] = {}
    for number in range(1, 40):
        made = {path(rng.randrange(4), f"{number}.{n}") for n in range(rng.randint(0, 2))}
        gone = set(rng.sample(sorted(live), min(len(live), rng.choice((0, 0, 1, 2)))))
        kind = "rewind" if gone else "load"
        if gone and rng.random() < 0.5:
            kind, one = "compact", sorted(gone)[0]
            gone = {other for other in live if partition_of(other, HOURS) == partition_of(one, HOURS)}
            new = one.replace(".parquet", f".c{number}.parquet")
            made = {new}
            rows[new] = set().union(*(rows[other] for other in gone))
        else:
            rows |= {one: {one} for one in made}
        live = live - gone | made
        batches.append(Batch(number, kind, tuple(sorted(made)), tuple(sorted(gone))))
        if rng.random() < 0.4:
            found = recompute({"in": batches}, {"in": seen}, HOURS, list(outputs))
            seen = number
            if found is None:
                continue
            for gone_output in found.supersedes:
                del outputs[gone_output]
            for partition in found.partitions:
                files = [one for one in found.files["in"] if partition_of(one, HOURS) == partition]
                computed[partition] = set().union(*(rows[one] for one in files))
                if files:
                    outputs[f"data/date={partition[0]}/hour={partition[1]}/o.g{number}.parquet"] = partition
            holds = {one: rows[one] for one in live}
            for partition, taken in computed.items():
                assert taken == set().union(
                    *(held for one, held in holds.items() if partition_of(one, HOURS) == partition)
                )
            assert len(outputs) == len(set(outputs.values()))
