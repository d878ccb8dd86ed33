"""Rule for the hour of a row: options time.from, time.field, time.unit and time.callable, as plans keep them.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MESSAGE, FIELD, CALLABLE, OF_PLAN = "message", "json", "callable", "plan"
SOURCES = (MESSAGE, FIELD, CALLABLE, OF_PLAN)  # values of time.from
UNITS = ("ms", "s", "us", "iso")  # of time.unit
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_JSON_PATH = re.compile(r"\$(\.[^.\[\]'\"\\\s]+|\[[0-9]+\])+")


def is_json_path(text: str) -> bool:
    """True for $.field, $.outer.inner, $.list[0].field: paths that Spark's get_json_object supports."""
    return _JSON_PATH.fullmatch(text) is not None


def is_function(text: str) -> bool:
    """True for package.module:function."""
    return _FUNCTION.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class HourRule:
    """Rule for the hour of a row."""

    source: str = MESSAGE
    field: str | None = None
    unit: str = "ms"
    function: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> HourRule:
        """Read a rule of a plan, by the checks that the options have.  Raises TypeError, ValueError."""
        rule = cls(**row)
        if rule.source not in SOURCES or rule.unit not in UNITS:
            raise ValueError(f"hours cannot be taken from {rule.source!r} in {rule.unit!r}")
        takes_field, takes_function = rule.source == FIELD, rule.source == CALLABLE
        if takes_field != (rule.field is not None) or takes_function != (rule.function is not None):
            raise ValueError(f"hours from {rule.source} have a field or a function that does not go with it")
        if rule.field is not None and not is_json_path(rule.field):
            raise ValueError(f"{rule.field!r} is not a path such as $.created")
        if rule.function is not None and not is_function(rule.function):
            raise ValueError(f"{rule.function!r} is not package.module:function")
        return rule
