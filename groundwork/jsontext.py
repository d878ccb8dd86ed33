"""Parsing of JSON that others wrote.  Pure."""

from __future__ import annotations

import json
from typing import Any


def json_value(text: str | bytes | bytearray, **options: Any) -> Any:
    """json.loads, whose only error is ValueError: also for values nested too deeply, where json raises RecursionError,
    which ended the program that read a damaged file or node."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
