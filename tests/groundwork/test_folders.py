"""Who else may put files into a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from groundwork.folders import open_to_all, other_writer


@pytest.fixture
def folder(passable_path: Path) -> Path:
    made = passable_path / "above" / "own"
    made.mkdir(parents=True, mode=0o700)
    made.parent.chmod(0o755)
    return made


def test_a_folder_of_ours_is_ours_also_below_one_that_all_share(folder: Path) -> None:
    assert other_writer(folder) is None
    folder.parent.chmod(0o1777)
    assert other_writer(folder) is None
    assert open_to_all(folder) == folder.parent


@pytest.mark.parametrize(("mode", "who"), [(0o770, "a group"), (0o777, "anybody"), (0o1777, "anybody")])
def test_others_may_write_to_the_folder_itself(folder: Path, mode: int, who: str) -> None:
    folder.chmod(mode)
    assert other_writer(folder) == f"{who} may write to it"


@pytest.mark.parametrize(("mode", "who"), [(0o775, "a group"), (0o777, "anybody")])
def test_whoever_may_write_above_it_may_put_another_in_its_place(folder: Path, mode: int, who: str) -> None:
    folder.parent.chmod(mode)
    assert other_writer(folder) == f"{who} may write to {folder.parent}"


@pytest.mark.parametrize("above", [0o700, 0o744, 0o766])
def test_nobody_writes_below_a_folder_that_nobody_else_gets_through(folder: Path, above: int) -> None:
    """As ~/.cache of umask 002 below a home of 0700."""
    inner = folder / "own"
    inner.mkdir()
    for writable in (folder, inner):
        writable.chmod(0o777)
    home = folder.parent
    home.chmod(above)
    assert other_writer(inner) == (None if above != 0o766 else f"anybody may write to {home}")
    for way_through in (0o710, 0o701):
        home.chmod(way_through)
        assert other_writer(inner) == "anybody may write to it"


def test_whoever_may_move_a_closed_folder_may_put_another_in_its_place(folder: Path) -> None:
    folder.parent.chmod(0o777)
    folder.chmod(0o700)
    inner = folder / "own"
    inner.mkdir()
    assert other_writer(inner) == f"anybody may write to {folder.parent}"


def test_a_folder_of_another_user_is_his(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.stat

    def of_another(path: Path) -> os.stat_result:
        found = list(real(path))
        found[4] = 4711 if Path(path) == folder.parent else found[4]
        return os.stat_result(found)

    monkeypatch.setattr("groundwork.folders.os.stat", of_another)
    assert other_writer(folder) == f"{folder.parent} belongs to another user"


def test_a_link_is_followed_to_where_the_files_are(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    folder.chmod(0o777)
    assert other_writer(link) == "anybody may write to it"
    assert open_to_all(link) == folder
