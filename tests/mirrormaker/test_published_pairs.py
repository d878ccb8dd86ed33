"""Files and start lines that people have: nine of ten run as their owners meant, the others are told what helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrormaker.commands import configured
from mirrormaker.commands.cli import outcome
from mirrormaker.config import Configuration
from tests.mirrormaker.publishedpairs import PAIRS, Pair


def checked(
    pair: Pair, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, list[Configuration]]:
    """Exit code of `mirrormaker check` on the pair, what it printed, and the configuration it read."""
    files = {"C": ("consumer", pair.consumer), "C2": ("consumer2", pair.second), "P": ("producer", pair.producer)}
    paths: dict[str, str] = {}
    for short, (name, values) in files.items():
        if values is not None:
            path = folder / f"{name}.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
            path.chmod(0o600)
            paths[short] = str(path)
    line = []
    for word in pair.line:
        flag, equals, value = word.rpartition("=")
        line.append(f"{flag}{equals}{paths.get(value, value)}")
    found: list[Configuration] = []
    real = configured.configuration
    monkeypatch.setattr(configured, "configuration", lambda *a, **k: found.append(real(*a, **k)) or found[-1])
    code = outcome(["check", *line])
    printed = capsys.readouterr()
    return code, printed.err, found


RUNS = [pair for pair in PAIRS if not pair.refused]
REFUSED = [pair for pair in PAIRS if pair.refused]


def test_nine_of_ten_published_pairs_run() -> None:
    assert len(PAIRS) >= 40
    assert len(RUNS) >= 0.9 * len(PAIRS)


@pytest.mark.parametrize("pair", RUNS, ids=lambda pair: pair.of)
def test_a_published_pair_runs_as_its_owner_meant(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, found = checked(pair, tmp_path, monkeypatch, capsys)
    assert code == 0, printed
    configuration = found[0]
    parts = {"source": configuration.sources[0], "target": configuration.target, "mirror": configuration.mirror}
    assert {key: getattr(parts[key.partition(".")[0]], key.partition(".")[2]) for key in pair.meant} == pair.meant
    for name in ("consumer.properties", "producer.properties"):
        lines = [line for line in printed.splitlines() if line.startswith(f"warning: {name}: ignored")]
        assert len(lines) <= 1, lines
    assert "hidden" not in printed


@pytest.mark.parametrize("pair", REFUSED, ids=lambda pair: pair.of)
def test_a_published_pair_that_would_not_do_as_it_did_is_told_what_helps(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, _ = checked(pair, tmp_path, monkeypatch, capsys)
    assert code in (64, 78), printed
    assert pair.refused in printed
    assert "hidden" not in printed
