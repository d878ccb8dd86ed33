"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from groundwork import durable
from groundwork.durable import STALE_S, replace


def test_two_writers_with_one_process_number_do_not_take_each_other_s_draft(tmp_path: Path) -> None:
    """As in two containers, where both are process 1."""
    path = tmp_path / "limits.json"
    replace(path, "first", before=lambda: replace(path, "second"))
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_drafts_of_killed_processes_go_and_those_of_living_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_swept", set())
    number = "0123456789abcdef" * 2
    stale = [f".limits.json.{number}.draft", ".undo.json.4711.draft"]
    others = [f".young.json.{number}.draft", ".notes.draft", "limits.json.draft"]
    for name in stale + others:
        (tmp_path / name).touch()
        if "young" not in name:
            os.utime(tmp_path / name, (0, 0))
    replace(tmp_path / "limits.json", "text")
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([*others, "limits.json"])
    assert STALE_S >= 3600
