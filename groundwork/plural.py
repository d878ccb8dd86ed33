"""Counts in sentences: 1 group, 2 groups."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "", form: str = "") -> str:
    """A number and what it counts.

    plural: where it is not the noun and an s (entry, entries).  form: of the number, as format() takes it (`,`).
    """
    return f"{number:{form}} {noun if number == 1 else plural or noun + 's'}"
