"""Parsing of JSON that others wrote.  Pure."""

from __future__ import annotations

import json
from typing import Any


def json_value(text: str | bytes | bytearray, **options: Any) -> Any:
    r"""Parse JSON as json.loads does; the only error is ValueError.

    This includes values nested too deeply, where json raises RecursionError, which ended the program that read a
    damaged file or node; and for half a character (\ud800 without its other half), which json takes and nothing can
    write.
    """
    escape = "\\u" if isinstance(text, str) else b"\\u"
    try:
        value = json.loads(text, **options)
        if escape in text or not text.isascii():  # type: ignore[operator]
            refuse_halves(value)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def refuse_halves(value: Any, errors: str = "strict") -> None:
    """Raise ValueError for half a character anywhere in a value of JSON.  errors: as of str.encode."""
    try:
        json.dumps(value, ensure_ascii=False, default=repr).encode(errors=errors)
    except UnicodeEncodeError as exc:
        raise ValueError(f"it has half a character, {exc.object[exc.start]!a}") from None
