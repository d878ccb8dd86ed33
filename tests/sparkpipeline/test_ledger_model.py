"""Plans and manifests as texts, and which of them may be."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkpipeline.errors import LedgerDamaged, OptionRefused
from sparkpipeline.ledger.manifests import ABANDONED, BatchFile, Manifest, Plan, check_files, check_plan, utc
from sparkpipeline.paths import generation

PLAN = Plan(17, "load", 1_767_225_600_123, {"ranges": [["orders", 0, 5, 9]]}, ("data/x+1.g3.c000",))
FILE = BatchFile("topic=t/part-0", "data/topic=t/t+0+5+9.g17.c000", 4, 120)
MANIFEST = Manifest(
    batch=17,
    kind="load",
    plan_hash=PLAN.hash,
    attempt=2,
    application="app-1",
    started_ms=5,
    committed_ms=9,
    files=(FILE,),
    supersedes=PLAN.supersedes,
    facts={"until": {"0": 9}},
    version="0.1.0",
)

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4))
def test_texts_come_back_as_they_were(work: dict[str, Any]) -> None:
    plan = replace(PLAN, work=work)
    assert Plan.of(plan.text()) == plan
    assert Plan.of(plan.text()).hash == plan.hash
    manifest = replace(MANIFEST, facts=work)
    assert Manifest.of(manifest.text()) == manifest


def test_a_manifest_has_sorted_keys_and_says_times_in_utc_too() -> None:
    row = json.loads(MANIFEST.text())
    assert list(row) == sorted(row)
    assert json.loads(PLAN.text())["created"] == "2026-01-01T00:00:00.123Z"
    assert (row["committed"], row["committed_ms"]) == (utc(9), 9)
    assert MANIFEST.text().endswith("}\n")
    assert (MANIFEST.rows, MANIFEST.bytes, MANIFEST.abandoned) == (4, 120, False)


def test_the_hash_is_of_all_that_a_plan_says() -> None:
    others = (
        replace(PLAN, batch=18),
        replace(PLAN, kind="rewind"),
        replace(PLAN, created_ms=1),
        replace(PLAN, work={}),
        replace(PLAN, supersedes=()),
    )
    assert len({PLAN.hash, *(plan.hash for plan in others)}) == 6


@pytest.mark.parametrize("cut", range(0, len(MANIFEST.text()) - 2, 7))
def test_a_torn_manifest_is_never_taken_for_one(cut: int) -> None:
    with pytest.raises(LedgerDamaged, match=r"KAFKA08_LEDGER_DAMAGED file=x/1.json: is not JSON \(.*\): torn, or not"):
        Manifest.of(MANIFEST.text()[:cut], "x/1.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"batch": "17"}, "'17' is not an integer"),
        ({"batch": True}, "True is not an integer"),
        ({"files": [{"final": "x"}]}, "has no 'staged'"),
        ({"files": 5}, "not iterable"),
        ({"facts": []}, r"\[\] is not an object"),
        ({"supersedes": [1]}, "1 is not text"),
        ({"format": 2}, "is of format 2, and this version reads format 1"),
    ],
)
def test_a_foreign_file_is_said_to_be_one(change: dict[str, Any], said: str) -> None:
    with pytest.raises(LedgerDamaged, match=said):
        Manifest.of(json.dumps({**json.loads(MANIFEST.text()), **change}))
    with pytest.raises(LedgerDamaged, match="is of format None"):
        Manifest.of("{}")
    with pytest.raises(LedgerDamaged, match="is of format list"):
        Plan.of("[]")
    with pytest.raises(LedgerDamaged, match="is not a plan of a ledger: has no 'work'"):
        Plan.of('{"format": 1, "batch": 1, "kind": "load", "created_ms": 1}')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"batch": 0}, "counted from 1"),
        ({"kind": ""}, "is not a kind of work"),
        ({"kind": ABANDONED}, "is not a kind of work"),
        ({"supersedes": ("data/a", "data/a")}, "supersedes a file twice"),
        ({"work": {"at": object()}}, "cannot be stored as JSON"),
        ({"work": {"at": float("nan")}}, "cannot be stored as JSON"),
        ({"work": {1: "a"}}, "comes back changed"),
        ({"work": {"a": (1, 2)}}, "comes back changed"),
    ],
)
def test_a_plan_that_cannot_be_kept_is_refused_before_it_is(change: dict[str, Any], said: str) -> None:
    check_plan(PLAN)
    with pytest.raises(OptionRefused, match=said):
        check_plan(replace(PLAN, **change))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"final": "data/t+0+5+9.g1.c000"}, r"holds \.g17"),
        ({"final": "data/t+0+5+9.g170.c000"}, r"holds \.g17"),
        ({"final": "data/x.g17/t+0.c000"}, r"holds \.g17"),
        ({"final": "other/t.g17"}, "lies below data/"),
        ({"final": "data/../t.g17"}, "not a path below a folder"),
        ({"final": "/data/t.g17"}, "not a path below a folder"),
        ({"staged": ""}, "not a path below a folder"),
        ({"staged": "a//b"}, "not a path below a folder"),
        ({"rows": -1}, "counted from 0"),
    ],
)
def test_files_that_may_not_be_published_are_refused(change: dict[str, Any], said: str) -> None:
    check_files(17, (FILE, replace(FILE, final="data/topic=t/t+0+9+12.g17")))
    with pytest.raises(OptionRefused, match=said):
        check_files(17, (replace(FILE, **change),))
    with pytest.raises(OptionRefused, match="two files of the batch have this name"):
        check_files(17, (FILE, replace(FILE, staged="another")))
    assert generation(17) in FILE.final
