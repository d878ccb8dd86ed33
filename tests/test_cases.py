"""Cases of one test: all run, with its fixtures, and the one that fails is named."""

from __future__ import annotations

import inspect

import pytest

from tests.cases import each


def test_all_cases_run_and_the_one_that_fails_is_named() -> None:
    seen = []

    @each("outer", "ab")
    @each(("first", "second"), [(1, 2), (3, 4)])
    def test(first: int, second: int, outer: str, fixture: str) -> None:
        seen.append((outer, first, second, fixture))
        assert outer == "a"

    assert list(inspect.signature(test).parameters) == ["fixture"]
    with pytest.raises(AssertionError) as failed:
        test(fixture="f")
    assert seen == [("a", 1, 2, "f"), ("a", 3, 4, "f"), ("b", 1, 2, "f")]
    assert failed.value.__notes__ == ["the case: {'first': 1, 'second': 2}", "the case: {'outer': 'b'}"]
