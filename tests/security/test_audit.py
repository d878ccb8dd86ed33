"""What `make audit` says of what pip-audit says; the service itself is asked by `make audit` alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.security import audit


def test_none_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.said(json.dumps({"dependencies": [{"name": "a", "version": "1", "vulns": []}]}), "") == 0
    assert capsys.readouterr().out == "audit: no known vulnerability in 1 packages\n"


def test_each_is_named_with_what_mends_it(capsys: pytest.CaptureFixture[str]) -> None:
    vulns = [{"id": "CVE-1", "fix_versions": ["2", "3"]}, {"id": "CVE-2", "fix_versions": []}]
    packages = [{"name": "a", "version": "1", "vulns": vulns}, {"name": "b", "skip_reason": "not on PyPI"}]
    assert audit.said(json.dumps({"dependencies": packages}), "") == 1
    assert capsys.readouterr().out.splitlines() == [
        "audit: a 1: CVE-1, mended in 2, 3", "audit: a 1: CVE-2, not mended yet", "audit: not looked up: b",
    ]  # fmt: skip


def test_what_was_not_looked_up_is_not_called_safe(capsys: pytest.CaptureFixture[str]) -> None:
    """A mirror of PyPI that serves files alone answers for nothing: pip-audit calls that a success."""
    ours = {"name": "ours", "skip_reason": "distribution marked as editable"}
    missing = {"name": "b", "skip_reason": "Dependency not found on PyPI"}
    assert audit.said(json.dumps({"dependencies": [ours, missing]}), "") == 2
    assert "answers for none of 1 packages" in capsys.readouterr().out
    fine = {"name": "a", "version": "1", "vulns": []}
    assert audit.said(json.dumps({"dependencies": [ours, fine]}), "") == 0
    assert audit.said(json.dumps({"dependencies": [fine, missing]}), "") == 2


def test_a_service_out_of_reach_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.said("", "Traceback\n  …\nConnectionError: no route\n\n") == 2
    assert capsys.readouterr().out == "audit: the service of pip-audit cannot be reached: ConnectionError: no route\n"


def test_a_registry_out_of_reach_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails() -> str:
        raise OSError("no network")

    monkeypatch.setattr(audit, "installed", fails)
    assert audit.main() == 2
    assert capsys.readouterr().out == "audit: pip-audit cannot be installed: no network\n"
