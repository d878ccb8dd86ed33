"""Decimal text of strangers: one function reads it, and no other code guesses whether `int` takes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from groundwork.decimals import MAX_INT32, MAX_INT64, decimal_int

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "groundwork", "kafkawire", "zkconsumer", "groupadmin", "producer", "mirrormaker", "sparkpipeline", "localkafka",
)  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "+1", "-1", "1_0", "²", "٣", "0x1", "1.0", "1" * 41, "9" * 4301, str(MAX_INT64 + 1)]
)
def test_what_is_not_decimal_text_is_none(text: str) -> None:
    assert decimal_int(text) is None


def test_bounds_are_the_readers() -> None:
    assert (decimal_int("0"), decimal_int("007"), decimal_int(str(MAX_INT64))) == (0, 7, MAX_INT64)
    assert (decimal_int("-1", least=-1), decimal_int("-2", least=-1), decimal_int("-²", least=-1)) == (-1, None, None)
    assert (decimal_int("65535", 1, 65535), decimal_int("0", 1, 65535), decimal_int("65536", 1, 65535)) == (
        65535, None, None,
    )  # fmt: skip
    assert decimal_int(str(MAX_INT32 + 1), most=MAX_INT32) is None


def test_no_code_asks_isdigit_of_text() -> None:
    """`"²".isdigit()` is true, and `int("²")` raises: decimal_int is what asks both."""
    wrong = []
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if path == ROOT / "groundwork/decimals.py":
            continue
        if re.search(r"\.is(digit|decimal|numeric)\b", path.read_text(encoding="utf-8")):
            wrong.append(str(path.relative_to(ROOT)))
    assert wrong == []
