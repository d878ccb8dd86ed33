"""Which files a stage takes next, through rewinds and compactions."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sparkpipeline.stages.batchmode import Batch, Past, Step, live_pasts, next_step, quick_step


def past(number: int, *files: str, replaces: tuple[int, ...] = (), name: str = "in") -> Past:
    return Past(number, {name: frozenset(files)}, replaces)


def step(batches: list[Batch], pasts: list[Past], again: bool = False, most: int | None = None) -> Step | None:
    return next_step({"in": batches}, pasts, again, most)


def test_what_no_batch_took_is_taken_and_then_nothing_is() -> None:
    batches = [Batch(1, "load", ("d/a", "d/b")), Batch(2, "load", ("d/c",))]
    found = step(batches, [])
    assert found == Step({"in": ("d/a", "d/b", "d/c")}, (), {"in": (1, 2)})
    assert step(batches, [past(1, "d/a", "d/b", "d/c")]) is None
    assert step(batches, [past(1, "d/a", "d/b")]) == Step({"in": ("d/c",)}, (), {"in": (2,)})


def test_a_batch_without_files_is_nothing_to_take() -> None:
    assert step([Batch(1, "load", ())], []) is None


def test_at_most_so_many_batches_of_each_input_the_oldest_first() -> None:
    batches = [Batch(n, "load", (f"d/{n}",)) for n in (1, 2, 3)]
    assert step(batches, [], most=2) == Step({"in": ("d/1", "d/2")}, (), {"in": (1, 2)}, ("in",))
    assert step(batches, [past(1, "d/1", "d/2")], most=2) == Step({"in": ("d/3",)}, (), {"in": (3,)})


def test_a_rewind_runs_again_the_batches_that_took_what_it_superseded_and_no_other() -> None:
    batches = [Batch(1, "load", ("d/a",)), Batch(2, "load", ("d/b", "d/c")), Batch(3, "rewind", ("d/b2",), ("d/b",))]
    taken = [past(1, "d/a"), past(2, "d/b", "d/c")]
    assert step(batches, taken) == Step({"in": ("d/b2", "d/c")}, (2,), {"in": (3,)})
    assert step(batches, [*taken, past(3, "d/b2", "d/c", replaces=(2,))]) is None


def test_a_rewind_that_leaves_nothing_still_takes_the_old_output_away() -> None:
    batches = [Batch(1, "load", ("d/a",)), Batch(2, "rewind", (), ("d/a",))]
    assert step(batches, [past(1, "d/a")]) == Step({"in": ()}, (1,), {"in": ()})
    assert step(batches, [past(1, "d/a"), past(2, replaces=(1,))]) is None


def test_a_rewind_of_what_was_not_taken_yet_runs_nothing_again() -> None:
    batches = [Batch(1, "load", ("d/a",)), Batch(2, "load", ("d/b",)), Batch(3, "rewind", ("d/b2",), ("d/b",))]
    assert step(batches, [past(1, "d/a")]) == Step({"in": ("d/b2",)}, (), {"in": (3,)})


def test_replaced_batches_take_all_that_waits_so_that_no_reader_sees_less() -> None:
    batches = [Batch(1, "load", ("d/a",)), Batch(2, "load", ("d/b",)), Batch(3, "rewind", ("d/a2",), ("d/a",))]
    assert step(batches, [past(1, "d/a")], most=1) == Step({"in": ("d/a2", "d/b")}, (1,), {"in": (2, 3)})


def test_compaction_of_what_was_taken_runs_nothing_again() -> None:
    batches = [
        Batch(1, "load", ("d/a", "e/x")),
        Batch(2, "load", ("d/b",)),
        Batch(3, "compact", ("d/ab",), ("d/a", "d/b")),
    ]
    taken = [past(1, "d/a", "e/x"), past(2, "d/b")]
    assert step(batches, taken) is None
    # ... nor does a second one,
    batches.append(Batch(4, "compact", ("d/abc",), ("d/ab",)))
    assert step(batches, taken) is None
    # but a rewind of what came of it runs again all that went into it.
    batches.append(Batch(5, "rewind", ("d/new",), ("d/abc",)))
    assert step(batches, taken) == Step({"in": ("d/new", "e/x")}, (1, 2), {"in": (5,)})


def test_compaction_of_a_compacted_file_that_was_taken_as_such_runs_nothing_again() -> None:
    batches = [Batch(1, "load", ("d/a", "d/b")), Batch(2, "compact", ("d/ab",), ("d/a", "d/b")),
               Batch(3, "compact", ("d/ab2",), ("d/ab",))]  # fmt: skip
    assert step(batches, [past(1, "d/ab")]) is None


def test_one_of_two_compacted_files_rewound_spoils_what_went_into_both() -> None:
    batches = [Batch(1, "load", ("d/a",)), Batch(2, "load", ("d/b",)),
               Batch(3, "compact", ("d/1", "d/2"), ("d/a", "d/b")), Batch(4, "rewind", ("d/n",), ("d/1",))]  # fmt: skip
    taken = [past(1, "d/a"), past(2, "d/b")]
    assert step(batches, taken) == Step({"in": ("d/2", "d/n")}, (1, 2), {"in": (3, 4)})
    assert step(batches, [*taken, past(3, "d/2", "d/n", replaces=(1, 2))]) is None


def test_compaction_that_mixes_taken_rows_with_new_ones_runs_the_former_again() -> None:
    batches = [
        Batch(1, "load", ("d/a", "e/x")),
        Batch(2, "load", ("d/b",)),
        Batch(3, "compact", ("d/ab",), ("d/a", "d/b")),
    ]
    assert step(batches, [past(1, "d/a", "e/x")]) == Step({"in": ("d/ab", "e/x")}, (1,), {"in": (3,)})


def test_a_file_read_again_takes_the_batches_along_whose_rows_it_holds_too() -> None:
    batches = [Batch(1, "load", ("d/a", "e/x")), Batch(2, "load", ("d/b",)),
               Batch(3, "compact", ("d/ab",), ("d/a", "d/b")), Batch(4, "rewind", ("e/x2",), ("e/x",))]  # fmt: skip
    taken = [past(1, "d/a", "e/x"), past(2, "d/b")]
    assert step(batches, taken) == Step({"in": ("d/ab", "e/x2")}, (1, 2), {"in": (3, 4)})


def test_all_new_batches_of_all_inputs_go_together() -> None:
    inputs = {"a": [Batch(1, "load", ("d/a",))], "b": [Batch(7, "load", ("d/b",))]}
    assert next_step(inputs, []) == Step({"a": ("d/a",), "b": ("d/b",)}, (), {"a": (1,), "b": (7,)})
    taken = [Past(1, {"a": frozenset({"d/a"}), "b": frozenset({"d/b"})})]
    inputs["b"].append(Batch(8, "rewind", ("d/b2",), ("d/b",)))
    assert next_step(inputs, taken) == Step({"a": ("d/a",), "b": ("d/b2",)}, (1,), {"a": (), "b": (8,)})


def test_again_takes_everything_in_place_of_everything() -> None:
    batches = [Batch(1, "load", ("d/a",)), Batch(2, "load", ("d/b",))]
    assert step(batches, [past(1, "d/a")], again=True, most=1) == Step({"in": ("d/a", "d/b")}, (1,), {"in": (2,)})


@pytest.mark.parametrize("most", [None, 1, 2])
def test_where_files_are_only_added_the_new_batches_tell_the_same_as_all_of_them(most: int | None) -> None:
    batches = [
        Batch(1, "load", ("d/a",)),
        Batch(2, "load", ()),
        Batch(3, "load", ("d/b", "d/c")),
        Batch(4, "load", ("d/d",)),
    ]
    assert quick_step({"in": batches[1:]}, most) == (True, step(batches, [past(1, "d/a")], most=most))
    assert quick_step({"in": batches[1:2]}) == (True, None)
    assert quick_step({"in": [*batches, Batch(5, "compact", ("d/e",), ("d/a",))]}) == (False, None)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_upstream_every_row_counts_once_and_what_stands_is_true(seed: int) -> None:
    """Rows are numbers.  Loads add files, rewinds replace some, compactions mix files of a folder."""
    rng = random.Random(seed)
    rows: dict[str, frozenset[int]] = {}
    live: list[str] = []
    batches: list[Batch] = []
    pasts: list[Past] = []
    derived: dict[int, Counter[int]] = {}
    fresh = iter(range(10**9))
    for _ in range(40):
        event = rng.choice(["load", "load", "rewind", "compact", "step", "step", "limited"])
        number = len(batches) + 1
        if event in ("step", "limited"):
            found = step(batches, pasts, most=1 if event == "limited" else None)
            if found is not None:
                mine = len(pasts) + 1
                assert all(path in live for path in found.files["in"])
                derived[mine] = Counter(row for path in found.files["in"] for row in rows[path])
                pasts.append(past(mine, *found.files["in"], replaces=found.replaces))
        elif event == "load":
            made = [f"{rng.choice('def')}/{number}.{n}" for n in range(rng.randint(1, 3))]
            rows |= {path: frozenset([next(fresh), next(fresh)]) for path in made}
            live += made
            batches.append(Batch(number, "load", tuple(made)))
        elif event == "rewind" and live:
            gone = rng.sample(live, rng.randint(1, min(2, len(live))))
            made = [f"{path.split('/')[0]}/{number}.{n}" for n, path in enumerate(gone) if rng.random() < 0.8]
            rows |= {path: frozenset([next(fresh), next(fresh)]) for path in made}
            live = [path for path in live if path not in gone] + made
            batches.append(Batch(number, "rewind", tuple(made), tuple(gone)))
        elif event == "compact" and live:
            where = rng.choice(live).split("/")[0]
            gone = [path for path in live if path.startswith(f"{where}/") and rng.random() < 0.7]
            pool = sorted(row for path in gone for row in rows[path])
            cut = rng.randint(0, len(pool))
            made = [f"{where}/{number}.{n}" for n, part in enumerate((pool[:cut], pool[cut:])) if part]
            rows |= dict(zip(made, (frozenset(p) for p in (pool[:cut], pool[cut:]) if p), strict=True))
            live = [path for path in live if path not in gone] + made
            batches.append(Batch(number, "compact", tuple(made), tuple(gone)))
    while (found := step(batches, pasts, most=2)) is not None:
        mine = len(pasts) + 1
        derived[mine] = Counter(row for path in found.files["in"] for row in rows[path])
        pasts.append(past(mine, *found.files["in"], replaces=found.replaces))
    standing = sum((derived[number] for number in live_pasts(pasts)), Counter())
    assert standing == Counter(row for path in live for row in rows[path])
