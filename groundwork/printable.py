"""Texts of strangers (names of topics and groups, reasons, hosts) for a terminal or a log: nothing in them is obeyed.

A terminal takes ESC [, or one character of U+0080 to U+009F, for an order: to recolour, to clear, to answer with what
looks like typed text.  Marks of direction (U+202E) show another order than the bytes have.
"""

from __future__ import annotations


def printable(text: str, keep: str = "\n\t") -> str:
    r"""The text with characters that are not printable as escapes of JSON: \u001b, \u202e.  keep: these stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(ord(c)) for c in text)


def _escaped(number: int) -> str:
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
