"""docs/modern.md: its table is that of the matrix."""

from __future__ import annotations

from pathlib import Path

from tests.matrix.sites import page_table

PAGE = Path(__file__).parent.parent / "docs" / "modern.md"


def test_the_table_of_the_page_is_that_of_the_matrix() -> None:
    assert page_table() in PAGE.read_text()
