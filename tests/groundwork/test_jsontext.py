"""JSON of others: its only error is ValueError."""

from __future__ import annotations

import pytest

from groundwork.jsontext import json_value


def test_values_are_those_of_json() -> None:
    assert json_value(b'{"a": [1, null]}') == {"a": [1, None]}
    assert json_value('"a\tb"', strict=False) == "a\tb"
    assert json_value(r'"\ud83d\ude00 \u00e9"') == json_value('"😀 é"'.encode()) == "😀 é"


HALVES = [r'"\ud800"', r'{"\udc00b": 1}', rb'["\ud83d"]', b'"\xed\xa0\x80"']


@pytest.mark.parametrize("text", ["", "{", b"\xff\xff", "[" * 100_000, '{"a":' * 100_000, "9" * 5000, *HALVES])
def test_what_is_no_json_or_cannot_be_read_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        json_value(text)
