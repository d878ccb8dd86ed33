"""Sentences for people: counts with their nouns, times, suggestions for misspelt names, untrusted text.  Pure.

A terminal takes ESC [, or one character of U+0080 to U+009F, for an order: to recolour, to clear, to answer with what
looks like typed text.  Marks of direction (U+202E) show another order than the bytes have.  So names of topics and
groups, reasons and hosts go through `printable` before a terminal or a log shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches


def counted(number: int, noun: str, plural: str = "", form: str = "") -> str:
    """Return a number with its noun: 1 group, 2 groups.

    plural: the plural when it is not the noun with an s (entry, entries).  form: format of the number (`,`).
    """
    return f"{number:{form}} {noun if number == 1 else plural or noun + 's'}"


def iso(ms: int) -> str:
    """Return a point in time as text: 2026-11-21T15:04:05.250Z; a number beyond the calendar stays a number."""
    try:
        moment = datetime.fromtimestamp(ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms since 1970"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def iso_ms(text: str) -> int | None:
    """Return the milliseconds since 1970 of an ISO time, in UTC unless it names a zone; None for any other text."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def did_you_mean(
    name: str,
    known: Iterable[str],
    shown: Mapping[str, str] | None = None,
    meant: Mapping[str, str] | None = None,
) -> str:
    """Return the end of a sentence about an unknown name: "; did you mean 'topics'?", or "" if no name is near.

    known: the names there are.  shown: another name by which one is shown (today's for an old one).  meant: names that
    are not near in letters, and what is meant by them.
    """
    if meant and name in meant:
        return f"; did you mean '{meant[name]}'?"
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean '{(shown or {}).get(near[0], near[0])}'?" if near else ""


def printable(text: str, keep: str = "\n\t") -> str:
    r"""Return the text with characters that are not printable as escapes of JSON: \u001b, \u202e.  keep: these stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(ord(c)) for c in text)


def _escaped(number: int) -> str:
    if number < 0x10000:
        return f"\\u{number:04x}"
    return f"\\u{0xD7C0 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"  # two halves, as in JSON
