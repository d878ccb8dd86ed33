"""Conversion of an option's raw value (typed YAML, or text of a JVM file) to the field's value, or its refusal.

Knows nothing of files, classes of options or sections.  A refusal is a `BadValue` whose text says what is expected.
"""

from __future__ import annotations

import datetime
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

Kind = Callable[[object], Any]
MASK = "***"


class BadValue(ValueError):
    """A value that an option does not accept; the text says what is expected."""


class SecretUnreadable(BadValue):
    """A value names a file with a secret that cannot be read; the text is a sentence.  forbidden: by its rights."""

    def __init__(self, sentence: str, forbidden: bool = False) -> None:
        super().__init__(sentence)
        self.forbidden = forbidden


@dataclass(frozen=True, slots=True)
class Option:
    """The arguments of option()."""

    key: str
    meaning: str
    unit: str
    old: tuple[str, ...]
    kind: Kind | str | None
    choices: tuple[Any, ...]
    required: bool
    least: float | None
    secret: bool = False
    instead: tuple[str, ...] = ()
    behind: str = ""
    newer: tuple[tuple[str, str], ...] = ()

    def under(self, **prefixes: str) -> Option:
        """Return the option with `{name}` replaced for each of the prefixes."""
        found = self
        for name, text in prefixes.items():
            key, meaning, behind = (
                each.replace(f"{{{name}}}", text) for each in (found.key, found.meaning, found.behind)
            )
            found = replace(found, key=key, meaning=meaning, behind=behind)
        return found

    def show(self, value: object) -> str:
        """Return a value of the option as an error message may quote it."""
        return MASK if self.secret else show_value(value)


def without_none(hint: Any) -> tuple[Any, bool]:
    """Return the type of an annotation, and whether None is allowed beside it."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    others = [arg for arg in typing.get_args(hint) if arg is not type(None)]
    if len(others) != 1:
        raise TypeError(f"an option takes one type, or it and None, not {hint}")
    return others[0], len(others) < len(typing.get_args(hint))


def value_of(spec: Option, hint: Any, raw: object, jvm: bool) -> Any:
    """Convert a raw value for a field annotated with `hint` (without None).  Raises BadValue.  jvm: raw is text."""
    if callable(spec.kind):
        try:
            return spec.kind(raw)
        except BadValue:
            raise
        except ValueError as exc:
            raise _unquoted(hint, raw) or BadValue(str(exc)) from exc
    return _allowed(spec, (_from_text if jvm else _typed)(hint, raw, spec))


def _expected(hint: Any, spec: Option) -> BadValue:
    of = f" of {spec.unit}" if spec.unit else ""
    if spec.choices:
        return BadValue(f"one of {', '.join(str(choice) for choice in spec.choices)}")
    names = {bool: "true or false", int: f"a whole number{of}", float: f"a number{of}", str: "text"}
    return BadValue(names.get(hint) or "a list of texts")


def _unquoted(hint: Any, raw: object) -> BadValue | None:
    """Return the error for an unquoted text that YAML reads as another type."""
    if hint is not str or raw is None or isinstance(raw, (str, Mapping, list, tuple)):
        return None
    if isinstance(raw, bool):
        return BadValue("text, and without quotes this is true or false: put it in quotes")
    if isinstance(raw, float):
        return BadValue("text, and without quotes this is a number (0.10 is 0.1): put it in quotes")
    kind = "a number" if isinstance(raw, int) else "a date"
    return BadValue(f"text, and without quotes this is {kind}: put it in quotes")


def _quoted(hint: Any, raw: object, spec: Option) -> BadValue | None:
    """Return the error for a text that would be valid without its quotes."""
    if not isinstance(raw, str):
        return None
    try:
        _from_text(hint, raw, spec)
    except BadValue:
        return None
    return BadValue(f"{_expected(hint, spec)}, without quotes")


def _typed(hint: Any, raw: object, spec: Option) -> Any:
    """Return a YAML value of the right type; only a whole number is converted, if a float is expected."""
    if hint is float and isinstance(raw, int) and not isinstance(raw, bool):
        return float(raw)
    if hint in (bool, int, float, str):
        if unquoted := _unquoted(hint, raw):
            raise unquoted
        if type(raw) is not hint or (isinstance(raw, float) and not math.isfinite(raw)):
            raise _quoted(hint, raw, spec) or _expected(hint, spec)
        return raw
    if isinstance(raw, str):
        return _from_text(hint, raw, spec)
    if not isinstance(raw, (list, tuple)) or not all(isinstance(item, str) for item in raw):
        raise _expected(hint, spec)
    return typing.get_origin(hint)(raw)


def _from_text(hint: Any, raw: object, spec: Option) -> Any:
    """Convert the text of a JVM file, or a YAML text for a list."""
    text = str(raw).strip()
    try:
        if hint is bool:
            return {"true": True, "false": False}[text.lower()]
        if hint in (int, float) and (not text.isascii() or "_" in text):
            raise _expected(hint, spec)  # Python reads 1_000, Java does not
        if hint is int:
            return int(text)
        if hint is float:
            if not math.isfinite(number := float(text)):
                raise _expected(hint, spec)
            return number
    except (KeyError, ValueError) as exc:
        raise _expected(hint, spec) from exc
    if hint is str:
        return text
    return typing.get_origin(hint)(item for item in (part.strip() for part in text.split(",")) if item)


def _allowed(spec: Option, value: Any) -> Any:
    """Return the value as the option's choices spell it.  Raises BadValue if it is not one of them, or too small."""
    if spec.choices:
        for choice in spec.choices:
            if value == choice or (isinstance(value, str) and value.lower() == str(choice).lower()):
                return choice
        raise BadValue(f"one of {', '.join(str(choice) for choice in spec.choices)}")
    if spec.least is not None and value < spec.least:
        raise BadValue(f"at least {spec.least:g}{' ' + spec.unit if spec.unit else ''}")
    return value


_WORD = re.compile(r"[\w-]+")


def code(jvm_classes: Mapping[str, str], raw: object) -> str:
    """Return MODULE:NAME, the name of an entry point, or the equivalent of a JVM class.  Raises BadValue."""
    if isinstance(raw, str):
        text = raw.strip()
        if text in jvm_classes:
            return jvm_classes[text]
        module, colon, name = text.partition(":")
        if (colon and module and name) or _WORD.fullmatch(text):
            return text
        if not jvm_classes:
            raise BadValue("MODULE:NAME of a Python callable, or the name of an entry point")
        known = ", ".join(jvm_classes)
        raise BadValue(
            f"MODULE:NAME of a Python callable, the name of an entry point, or one of the JVM classes {known}"
        )
    raise BadValue("MODULE:NAME of a Python callable")


def filled(raw: object) -> str:
    """Option type: text that is not empty."""
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError("text that is not empty")
    return raw.strip()


def positive_ms(raw: object) -> int:
    """Option type: a time in ms, where None means something else."""
    if isinstance(raw, bool) or not re.fullmatch(r"[0-9]{1,9}", str(raw).strip()) or int(str(raw)) < 1:
        raise ValueError("a whole number of ms, at least 1")
    return int(str(raw))


def show_value(value: object) -> str:
    """Return a value as an error message quotes it."""
    if value is None:
        return "empty"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, datetime.date):
        return value.isoformat()
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
