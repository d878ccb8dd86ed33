"""Every exception of the format begins with a code: Spark tells its user the text alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException

from sparkpipeline.errors import Refused, code_in, coded


@coded
def asked(exc: Exception) -> int:
    raise exc


@coded
def rows(exc: Exception) -> Iterator[int]:
    yield 1
    raise exc


def test_what_is_raised_at_once_and_later_has_a_code() -> None:
    with pytest.raises(Exception, match=r"^KAFKA08_FAILED: ValueError: 7$") as told:
        asked(ValueError("7"))
    assert code_in(str(told.value)) == "KAFKA08_FAILED"
    found = rows(OSError("no route"))
    assert next(found) == 1
    with pytest.raises(Exception, match=r"^KAFKA08_FAILED: OSError: no route$"):
        next(found)


def test_our_own_and_those_of_pyspark_are_left_as_they_are() -> None:
    for exc in (Refused("no"), PySparkException("a limit that is not known")):
        with pytest.raises(type(exc)) as told:
            asked(exc)
        assert told.value is exc
