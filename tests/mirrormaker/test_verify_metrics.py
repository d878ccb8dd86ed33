"""The metrics file of `mirrormaker verify`: replaced as a whole, also by a comparison that could not be made."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mirrormaker.commands.cli import outcome
from mirrormaker.commands.verify import write_metrics
from mirrormaker.verify.result import ScopeResult, VerifyResult
from tests.mirrormaker.test_verify_commands import settings


def read(path: Path) -> dict[tuple[str, str], float]:
    """Values by name and result, as node_exporter's parser reads them."""
    return {
        (sample.name.removeprefix("mirrormaker_verify_"), sample.labels.get("result", "")): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
        if sample.labels["name"] == "orders"
    }


def result(unreachable: tuple[str, ...] = ()) -> VerifyResult:
    scopes = tuple(ScopeResult(topic="orders", partition=str(n), source=100, target=98, missing=2) for n in (0, 1))
    return VerifyResult(scopes, (), (), 396, 1.0, unreachable)


def test_the_counts_the_exit_code_and_the_time_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "orders.prom"
    write_metrics(path, "orders", 4, result(), 1_700_000_000.5)
    found = read(path)
    assert (found["exit_code", ""], found["messages", "missing"], found["messages", "source"]) == (4, 4, 200)
    assert found["timestamp_seconds", ""] == found["complete_timestamp_seconds", ""] == 1_700_000_000.5
    assert path.stat().st_mode & 0o777 == 0o644, "another user reads it"
    assert [each.name for each in tmp_path.iterdir()] == ["orders.prom"], "and no half of it"


@pytest.mark.parametrize("found", [None, result(unreachable=("source dc1: …",))])
def test_the_last_whole_comparison_is_kept_in_mind(tmp_path: Path, found: VerifyResult | None) -> None:
    path = tmp_path / "orders.prom"
    write_metrics(path, "orders", 69, found, 1.0)
    assert ("complete_timestamp_seconds", "") not in read(path), "never is not 0"
    write_metrics(path, "orders", 0, result(), 100.0)
    write_metrics(path, "orders", 69, found, 200.0)
    kept = read(path)
    assert (kept["exit_code", ""], kept["timestamp_seconds", ""]) == (69, 200.0)
    assert kept["complete_timestamp_seconds", ""] == 100.0


def test_a_cluster_out_of_reach_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "orders.prom"
    assert outcome(["verify", settings(tmp_path), "--metrics-file", str(path)]) == 69
    assert read(path)["exit_code", ""] == 69


def test_a_folder_that_is_not_there_is_found_before_anything_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(["verify", settings(tmp_path), "--metrics-file", str(tmp_path / "gone" / "orders.prom")]) == 73
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: --metrics-file: folder {tmp_path / 'gone'} cannot be written: No such file")


def test_a_name_with_quotes_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "o.prom"
    write_metrics(path, 'say "no\\no"', 0, result(), 1.0)
    names = {s.labels["name"] for f in text_string_to_metric_families(path.read_text()) for s in f.samples}
    assert names == {'say "no\\no"'}
