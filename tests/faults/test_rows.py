"""The list of rows is whole and true."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cases import each
from tests.faults import rows

TESTS = Path(__file__).resolve().parents[1]
NAMED = [(f"F{row.number}", test) for row in rows.ROWS for test in row.tests]


def test_every_fault_of_the_matrix_has_a_row() -> None:
    assert [row.number for row in rows.ROWS] == list(range(1, 49))


@each(("row", "test"), NAMED)
def test_each_named_test_exists(row: str, test: str) -> None:
    if test.startswith("make "):
        assert f"\n{test.split()[1]}:" in (TESTS.parent / "Makefile").read_text(encoding="utf-8")
        return
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in (TESTS / file).read_text(encoding="utf-8")


def test_each_test_of_a_row_is_named() -> None:
    named = {test.rpartition("::")[2] for _, test in NAMED}
    found = {
        name
        for file in (TESTS / "faults").glob("test_*.py")
        for name in re.findall(r"^def (test_f\d\d_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found - named == set()


def test_the_page_shows_the_rows() -> None:
    page = rows.PAGE.read_text(encoding="utf-8")
    assert rows.made(page) == page, "run python -m tests.faults.rows"
