"""Counts in sentences: 1 group, 2 groups."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "", form: str = "") -> str:
    """A number with its noun.

    plural: the plural when it is not the noun with an s (entry, entries).  form: format of the number (`,`).
    """
    return f"{number:{form}} {noun if number == 1 else plural or noun + 's'}"
