"""Work folders: removed by their owner, swept up after a killed one, and never touched otherwise."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from localkafka.workfolder import WorkFolder, sweep
from tests import children


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_folder_goes_with_its_owner_and_stays_when_kept_with_something_in_it() -> None:
    gone, empty, kept = WorkFolder(), WorkFolder(), WorkFolder()
    (kept.path / "log").touch()
    gone.close()
    empty.close(keep=True)
    kept.close(keep=True)
    sweep()
    assert [folder.path.exists() for folder in (gone, empty, kept)] == [False, False, True]


def test_the_folder_of_a_killed_owner_is_swept_up_and_a_living_ones_is_not(tmp_path: Path) -> None:
    program = f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}\n"
    program += "from localkafka.workfolder import WorkFolder; print(WorkFolder().path, flush=True); input()"
    with children.started([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as owner:
        assert owner.stdout is not None
        path = Path(owner.stdout.readline().strip())
        sweep()
        assert path.exists()
        owner.kill()
        owner.wait(10)
    sweep()
    assert not path.exists()


def test_a_folder_whose_owner_file_names_no_process_is_left_alone(tmp_path: Path) -> None:
    stranger = tmp_path / "localkafka-stranger"
    stranger.mkdir()
    (stranger / ".owner").touch()
    sweep()
    assert stranger.exists()
