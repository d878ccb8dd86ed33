"""Where a stream begins is kept: written before it is told, whole, once; and never guessed again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundwork import failpoints
from kafkawire.model import TopicPartition
from sparkpipeline.errors import OptionRefused, Refused, StorageFailed
from sparkpipeline.source.statedir import FILE, first_start

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_first_answer_counts_for_ever(tmp_path: Path) -> None:
    folder = f"file://{tmp_path}/stream/state"
    assert first_start(folder, "t", "latest", lambda: {A: 1000, B: 7}) == {A: 1000, B: 7}
    assert first_start(folder, "t", "latest", lambda: pytest.fail("asked again")) == {A: 1000, B: 7}
    said = json.loads((tmp_path / "stream/state" / FILE).read_text())
    assert said["offsets"] == {"t": {"0": 1000, "1": 7}}
    assert (said["subscription"], said["start"]) == ("t", "latest")


def test_of_two_drivers_the_first_file_counts(tmp_path: Path) -> None:
    def slow() -> dict[TopicPartition, int]:
        first_start(str(tmp_path), "t", "latest", lambda: {A: 1})
        return {A: 2}

    assert first_start(str(tmp_path), "t", "latest", slow) == {A: 1}


def test_a_crash_while_it_is_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "_armed", failpoints._parse("files before link=raise"))
        with pytest.raises(failpoints.FailpointReached):
            first_start(str(tmp_path), "t", "latest", lambda: {A: 1})
    assert first_start(str(tmp_path), "t", "latest", lambda: {A: 2}) == {A: 2}


def test_another_streams_folder_is_refused(tmp_path: Path) -> None:
    first_start(str(tmp_path), "payments", "latest", lambda: {A: 1})
    with pytest.raises(Refused, match=r"a stream over payments began, and this one reads t: give each stream"):
        first_start(str(tmp_path), "t", "latest", lambda: {A: 2})


@pytest.mark.parametrize("text", ["", "{}", '{"version":2}', '{"version":1,"offsets":{"t":{"0":"x"}}}', "[]"])
def test_a_file_that_makes_no_sense_is_never_guessed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(Refused, match=r"start\.json: does not say where the stream began"):
        first_start(str(tmp_path), "t", "latest", lambda: pytest.fail("asked again"))


def test_what_is_no_folder_of_this_machine_is_refused(tmp_path: Path) -> None:
    for wrong in ("hdfs://nn/x", "relative/x"):
        with pytest.raises(OptionRefused, match="is not an absolute path of this machine"):
            first_start(wrong, "t", "latest", lambda: {A: 1})
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="cannot"):
        first_start(f"{tmp_path}/file", "t", "latest", lambda: {A: 1})


def test_a_stream_over_nothing_yet_begins_at_nothing(tmp_path: Path) -> None:
    assert first_start(str(tmp_path), "topics like x.*", "latest", dict) == {}
    assert first_start(str(tmp_path), "topics like x.*", "latest", lambda: {A: 5}) == {}
