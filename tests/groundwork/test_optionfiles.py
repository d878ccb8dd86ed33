"""Files of options: what they hold, and problems that name the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundwork.optionfiles import properties_file, yaml_file
from groundwork.options import OptionError


def test_values_are_those_of_the_format(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("num.streams: 2\n")
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "a.properties").write_bytes(b"num.streams=2\nname=\xe9\n")
    assert yaml_file(tmp_path / "a.yaml") == {"num.streams": 2}
    assert yaml_file(tmp_path / "empty.yaml") is None
    assert properties_file(tmp_path / "a.properties") == {"num.streams": "2", "name": "é"}


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.yaml", None, "a.yaml: cannot be read: No such file or directory"),
        ("a.yaml", b"a: \xff", "a.yaml: byte 3 is not UTF-8"),
        ("a.yaml", b"a: 1\na: 2\n", "a.yaml: line 2: 'a' is given twice, first in line 1"),
        ("a.properties", b"a=\\u12", "a.properties: line 1: "),
    ],
)
def test_a_problem_names_the_file(tmp_path: Path, name: str, data: bytes | None, says: str) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(OptionError) as refused:
        (yaml_file if name.endswith(".yaml") else properties_file)(path)
    assert says in str(refused.value)
    assert not refused.value.forbidden


def test_a_file_that_may_not_be_read_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", closed)
    with pytest.raises(OptionError, match="may not be read by this user") as refused:
        yaml_file(tmp_path / "a.yaml")
    assert refused.value.forbidden
