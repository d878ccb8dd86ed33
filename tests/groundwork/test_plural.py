"""Counts in sentences."""

from __future__ import annotations

from groundwork.plural import counted


def test_one_is_no_plural() -> None:
    assert [counted(n, "group") for n in (0, 1, 2)] == ["0 groups", "1 group", "2 groups"]
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
    assert [counted(n, "row", form=",") for n in (1, 2000)] == ["1 row", "2,000 rows"]
