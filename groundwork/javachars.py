"""Characters of a Java pattern as Python text: escapes, POSIX classes and [..].

    Text           the pattern, read from left to right
    one_char       the character of an escape
    class_escape   the characters of \\d, \\h, \\p{Alpha} and other class escapes
    bracketed      a whole [..]

Whatever Python might read differently is refused (see javaregex).
"""

from __future__ import annotations

import re

LAST = 0x10FFFF
WIDEST = 100  # ranges beyond Latin-1, 3 ms each in Python; another member's registration must not hold us up
Ranges = tuple[tuple[int, int], ...]


def _ranges(text: str) -> Ranges:
    """Parse `AZ az __` into ranges."""
    return tuple((ord(pair[0]), ord(pair[1])) for pair in text.split(" "))


POSIX: dict[str, Ranges] = {
    "Lower": _ranges("az"),
    "Upper": _ranges("AZ"),
    "ASCII": ((0, 0x7F),),
    "Alpha": _ranges("AZ az"),
    "Digit": _ranges("09"),
    "Alnum": _ranges("09 AZ az"),
    "Punct": _ranges("!/ :@ [` {~"),
    "Graph": _ranges("!~"),
    "Print": ((0x20, 0x7E),),
    "Blank": ((9, 9), (0x20, 0x20)),
    "Cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "XDigit": _ranges("09 AF af"),
    "Space": ((9, 13), (0x20, 0x20)),
}
HORIZONTAL: Ranges = (
    (9, 9), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200A), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip
CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
ANCHORS = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\Z", "Z": r"\Z"}
REFUSED_ESCAPES = {
    "G": "the end of the previous match: a name is matched once",
    "R": "a line end, which no topic name has, and unknown to Java of that time",
    "X": "a grapheme, which Python has no pattern for",
    "N": "a character by its Unicode name, unknown to older Java",
    "v": "a vertical tab in older Java and any vertical space in newer",
    "V": "unknown to older Java",
}


_WORD = re.compile("[A-Za-z0-9_]+")


class PatternRefused(ValueError):
    """Not a Java pattern, or one that Python might read differently; the text names the part and the reason."""


class Text:
    """A pattern with a read position."""

    __slots__ = ("_text", "_wide", "at")

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        self._wide = 0

    @property
    def ended(self) -> bool:
        return self.at >= len(self._text)

    def match(self, pattern: str) -> re.Match[str] | None:
        """Match a Python pattern at the read position, and move past it."""
        return re.compile(pattern).match(self._text, self.at)

    def word(self) -> str:
        """Move past letters and digits, up to the last one that something else than a repetition follows; they."""
        found = _WORD.match(self._text, self.at)
        if found is None:
            return ""
        end = found.end() - (self._text[found.end() : found.end() + 1] in ("*", "+", "?", "{"))
        text = self._text[self.at : end]
        self.at = end
        return text

    def peek(self, n: int = 1) -> str:
        return self._text[self.at : self.at + n]

    def take(self, n: int = 1) -> str:
        """Return the next n characters.  Raises PatternRefused when there are fewer."""
        taken = self.peek(n)
        if len(taken) < n:
            raise PatternRefused("it ends too early")
        self.at += n
        return taken

    def took(self, expected: str) -> bool:
        """Move past `expected` if it comes next; whether it did."""
        if not self._text.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def until(self, end: str, what: str) -> str:
        """Return the text before `end`, moving past both.  what: its name in the refusal when there is no `end`."""
        stop = self._text.find(end, self.at)
        if stop < 0:
            raise PatternRefused(f"{what} without its {end}")
        taken = self._text[self.at : stop]
        self.at = stop + len(end)
        return taken

    def widened(self, ranges: Ranges) -> Ranges:
        """Return the ranges, which the pattern holds.  Raises PatternRefused where it holds too many that leave
        Latin-1."""
        self._wide += sum(high > 0xFF and high > low for low, high in ranges)
        if self._wide > WIDEST:
            raise PatternRefused(f"more than {WIDEST} ranges of characters beyond U+00FF")
        return ranges


def char(code: int) -> str:
    """Return one character as pattern text that is safe inside and outside of a class."""
    return re.escape(chr(code)) if 0x20 < code < 0x7F else f"\\U{code:08x}"


def members(ranges: Ranges) -> str:
    return "".join(char(low) if low == high else f"{char(low)}-{char(high)}" for low, high in ranges)


def complement(ranges: Ranges) -> Ranges:
    edges = [-1, *(edge for low_high in ranges for edge in low_high), LAST + 1]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((below + 1, above - 1) for below, above in pairs if below + 1 <= above - 1)


def class_escape(text: Text, c: str, ignore_case: bool) -> Ranges | str:
    """Return the characters of a class escape; text for \\d and others that Python writes alike; () for any other
    escape."""
    if c in "dDsSwW":
        return "\\" + c
    if c in "hH":
        return text.widened(HORIZONTAL if c == "h" else complement(HORIZONTAL))
    if c not in "pP":
        return ()
    name = text.until("}", "\\p{") if text.took("{") else text.take()
    if name not in POSIX:
        raise PatternRefused(f"\\{c}{{{name}}}: only Java's ASCII classes are read alike; write the characters out")
    if ignore_case and name in ("Lower", "Upper"):
        raise PatternRefused(f"\\{c}{{{name}}} under (?i): versions of Java differ; write the characters out")
    return text.widened(POSIX[name] if c == "p" else complement(POSIX[name]))


def one_char(text: Text, c: str) -> int:
    """Return the character of an escape whose letter was read already."""
    if c in CONTROL:
        return ord(CONTROL[c])
    if c == "c":
        return ord(text.take()) ^ 64
    if c == "0":
        return _octal(text)
    if c == "x":
        return _hex(text.until("}", "\\x{") if text.took("{") else text.take(2))
    if c == "u":
        return _hex(text.take(4))
    if c in REFUSED_ESCAPES:
        raise PatternRefused(f"\\{c}: {REFUSED_ESCAPES[c]}")
    if c.isascii() and c.isalpha():
        raise PatternRefused(f"\\{c} is not an escape in Java")
    return ord(c)


def _octal(text: Text) -> int:
    digits = text.match("[0-3][0-7]{0,2}|[4-7][0-7]?")
    if digits is None:
        raise PatternRefused("\\0 without octal digits")
    return int(text.take(len(digits[0])), 8)


def _hex(digits: str) -> int:
    if not re.fullmatch("[0-9a-fA-F]{1,8}", digits):
        raise PatternRefused(f"{digits!r} are not hexadecimal digits")
    code = int(digits, 16)
    if code > LAST or 0xD800 <= code <= 0xDFFF:
        raise PatternRefused(f"U+{code:04X} is not a character")
    return code


def bracketed(text: Text, ignore_case: bool) -> str:
    """Return a [..] up to its end; the [ was read already."""
    out = ["[^" if text.took("^") else "["]
    if text.peek() == "]":
        raise PatternRefused("a ] right after [: write \\]")
    while not text.took("]"):
        if text.ended:
            raise PatternRefused("a [ without its ]")
        out.append(_member(text, ignore_case))
    return "".join(out) + "]"


def _member(text: Text, ignore_case: bool) -> str:
    first = _class_char(text, ignore_case)
    if isinstance(first, str):
        if text.peek() == "-" and text.peek(2) != "-]":
            raise PatternRefused("a range in [..] that begins with a class")
        return first
    if text.peek() != "-" or text.peek(2) == "-]":
        return char(first)
    text.take()
    last = _class_char(text, ignore_case)
    if isinstance(last, str) or last < first:
        raise PatternRefused("a range in [..] that ends with a class or before it begins")
    return members(text.widened(((first, last),)))


def _class_char(text: Text, ignore_case: bool) -> int | str:
    """Return a character, or the text of a class escape."""
    if text.peek(2) == "&&":
        raise PatternRefused("&& in [..]: Python has no intersections; write the characters out")
    c = text.take()
    if c == "[":
        raise PatternRefused("[ inside [..]: Python has no classes in classes; write \\[ or the characters out")
    if c != "\\":
        return ord(c)
    c = text.take()
    if c in ANCHORS or c in "k123456789":
        raise PatternRefused(f"\\{c} inside [..]")
    ranges = class_escape(text, c, ignore_case)
    if isinstance(ranges, str):
        return ranges
    return members(ranges) if ranges else one_char(text, c)
