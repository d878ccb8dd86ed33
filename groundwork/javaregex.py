"""A Java regular expression for names of topics, as a Python one that chooses the same names.

All members of a group evaluate each other's filters, so a topic more or less here than in the JVM is a partition that
two read or nobody reads.  Whatever cannot be carried over with certainty is therefore refused by name.

    carried over   what both write alike; quoting, octal, \\xhh, \\x{h..h}, \\uhhhh, \\cX, \\a, \\e, \\h, \\z, \\Z;
                   (?<name>..) and \\k<name>; POSIX classes \\p{Alpha} and so on (ASCII, as in Java); flags in
                   the middle
    refused        Unicode classes, [..&&..], [..[..]..], \\G, \\R, \\X, \\N, \\v, \\V, \\b{g}, the flags u, U, x, and
                   what Java itself refuses, such as `*` with nothing before it

True for every name that Kafka 0.8 allows: ASCII, not empty, no line ends.  So the flags m, s and d mean nothing and are
left out; \\b next to a letter outside of ASCII is the one place where Java of different ages differs.
"""

from __future__ import annotations

import re

DEEPEST = 50  # groups in groups; a stranger's registration must not exhaust our stack
LAST = 0x10FFFF
Ranges = tuple[tuple[int, int], ...]


def _ranges(text: str) -> Ranges:
    """`AZ az __` in pairs."""
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
    "R": "a line end, which no topic name has, and unknown to the Java of those days",
    "X": "a grapheme, which Python has no pattern for",
    "N": "a character by its Unicode name, which older Java does not know",
    "v": "a vertical tab in older Java and any vertical space in newer",
    "V": "unknown to older Java",
}
REFUSED_FLAGS = {
    "u": "Unicode case folding differs between Java and Python",
    "U": "Unicode classes differ between Java and Python",
    "x": "Java and Python leave out different blanks",
}


class PatternRefused(ValueError):
    """No Java pattern, or one that Python might read differently; says which part and why."""


def to_python(java: str) -> re.Pattern[str]:
    """Compiled for .fullmatch(name).  Raises PatternRefused."""
    parser = _Parser(_without_quoting(java))
    try:
        python = parser.whole()
        return re.compile(python, re.ASCII)
    except PatternRefused as exc:
        raise PatternRefused(f"topic filter {java!r}: {exc}") from None
    except (re.error, OverflowError, RecursionError) as exc:
        raise PatternRefused(f"topic filter {java!r}: Python cannot read it as Java does: {exc}") from exc


def _without_quoting(java: str) -> str:
    r"""\Q..\E as escaped characters, which is what Java does before it reads on."""
    out: list[str] = []
    at = 0
    while at < len(java):
        if java.startswith("\\Q", at):
            end = java.find("\\E", at + 2)
            quoted = java[at + 2 :] if end < 0 else java[at + 2 : end]
            out += [f"\\x{ord(c):02x}" if c.isascii() else c for c in quoted]
            at = len(java) if end < 0 else end + 2
        else:
            step = 2 if java[at] == "\\" else 1
            out.append(java[at : at + step])
            at += step
    return "".join(out)


def _char(code: int) -> str:
    """One character, safe inside and outside of a class."""
    return re.escape(chr(code)) if 0x20 < code < 0x7F else f"\\U{code:08x}"


def _members(ranges: Ranges) -> str:
    return "".join(_char(low) if low == high else f"{_char(low)}-{_char(high)}" for low, high in ranges)


def _complement(ranges: Ranges) -> Ranges:
    edges = [-1, *(edge for low_high in ranges for edge in low_high), LAST + 1]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((below + 1, above - 1) for below, above in pairs if below + 1 <= above - 1)


class _Parser:
    """Reads the pattern from left to right, one method a construct; each returns its Python text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._ignore_case = False
        self._groups = 0
        self._closed: set[int] = set()
        self._names: dict[str, int] = {}
        self._repeated: set[int] = set()
        self._referred: set[int] = set()

    def whole(self) -> str:
        python = self._alternatives()
        if self._at < len(self._text):
            raise PatternRefused("a ) without its (")
        if self._repeated & self._referred:
            raise PatternRefused(
                "a back reference to a group inside a repetition: Java and Python may remember another turn"
            )
        return python

    # the text

    def _peek(self, n: int = 1) -> str:
        return self._text[self._at : self._at + n]

    def _take(self, n: int = 1) -> str:
        taken = self._peek(n)
        if len(taken) < n:
            raise PatternRefused("it ends too early")
        self._at += n
        return taken

    def _took(self, expected: str) -> bool:
        if not self._text.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def _until(self, end: str, what: str) -> str:
        stop = self._text.find(end, self._at)
        if stop < 0:
            raise PatternRefused(f"{what} without its {end}")
        taken = self._text[self._at : stop]
        self._at = stop + len(end)
        return taken

    # structure

    def _alternatives(self) -> str:
        """Up to the end, or to a ) that is left standing; flags set in it end with it."""
        case_before = self._ignore_case
        out: list[str] = []
        while self._at < len(self._text) and self._peek() != ")":
            out.append("|" if self._took("|") else self._repeatable())
        self._ignore_case = case_before
        return "".join(out)

    def _repeatable(self) -> str:
        groups_before = self._groups
        atom = self._atom()
        if atom is None:
            return ""
        times = self._times()
        if times:
            self._repeated.update(range(groups_before + 1, self._groups + 1))
        return atom + times

    def _times(self) -> str:
        if self._peek() == "{":
            count = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}").match(self._text, self._at)
            if count is None:
                raise PatternRefused("a { that begins no count such as {2,3}; write \\{ for the character")
            if any(len(number or "") > 5 for number in count.groups()):
                raise PatternRefused(f"{count[0]} is more than any name is long")
            times = self._take(len(count[0]))
        elif self._peek() in ("*", "+", "?"):
            times = self._take()
        else:
            return ""
        if self._peek() in ("?", "+"):
            times += self._take()
        if self._peek() in ("*", "+", "?", "{"):
            raise PatternRefused(
                f"{self._peek()} after {times}: one repetition of another; put a group around the first"
            )
        return times

    def _atom(self) -> str | None:
        """None for flags, which are no atom: nothing can repeat them."""
        c = self._take()
        if c == "(":
            return self._group()
        if c == "[":
            return self._class()
        if c == "\\":
            return self._escape()
        if c in "*+?":
            raise PatternRefused(f"{c} has nothing to repeat: a topic filter is a Java regular expression; write .*")
        if c == "{":
            raise PatternRefused("a { that repeats nothing; write \\{ for the character")
        if c in ".^":
            return c
        return r"\Z" if c == "$" else self._cased(_char(ord(c)))

    def _cased(self, python: str) -> str:
        return f"(?i:{python})" if self._ignore_case else python

    def _group(self) -> str | None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise PatternRefused(f"groups nested more than {DEEPEST} deep")
        case_before = self._ignore_case
        number = 0
        if not self._took("?"):
            opening, number = "(", self._next_group()
        else:
            for opening in ("?:", "?=", "?!", "?>", "?<=", "?<!"):
                if self._took(opening[1:]):
                    opening = "(" + opening
                    break
            else:
                if self._took("<"):
                    opening, number = self._named()
                elif self._flags():
                    self._depth -= 1
                    return None
                else:
                    opening = "(?:"
        body = self._alternatives()
        if not self._took(")"):
            raise PatternRefused("a ( without its )")
        self._ignore_case = case_before
        self._closed.add(number)
        self._depth -= 1
        return f"{opening}{body})"

    def _next_group(self) -> int:
        self._groups += 1
        return self._groups

    def _named(self) -> tuple[str, int]:
        name = self._until(">", "a group's <name")
        if not re.fullmatch("[a-zA-Z][a-zA-Z0-9]*", name) or name in self._names:
            raise PatternRefused(f"{name!r} cannot name a group: letters and digits, and each name once")
        self._names[name] = self._next_group()
        return f"(?P<{name}>", self._groups

    def _flags(self) -> bool:
        """`i-m)` from here to the end of the group: True; `i-m:` for the group that follows: False."""
        on = True
        while (c := self._take()) not in "):":
            if c == "-":
                on = False
            elif c == "i":
                self._ignore_case = on
            elif c in REFUSED_FLAGS:
                raise PatternRefused(f"flag (?{c}): {REFUSED_FLAGS[c]}")
            elif c not in "msd":
                raise PatternRefused(f"(?{c} begins no group that Java knows")
        return c == ")"

    # escapes

    def _escape(self) -> str:
        c = self._take()
        if c == "b" and self._peek() == "{":
            raise PatternRefused("\\b{g}: older Java does not know it")
        if c in ANCHORS:
            return ANCHORS[c]
        if c in "123456789":
            return self._reference(self._number(int(c)))
        if c == "k":
            if not self._took("<"):
                raise PatternRefused("\\k without <name>")
            name = self._until(">", "\\k<name")
            return self._reference(self._names.get(name, 0))
        ranges = self._ranges(c)
        if isinstance(ranges, str):
            return ranges
        return self._cased(f"[{_members(ranges)}]" if ranges else _char(self._code(c)))

    def _number(self, number: int) -> int:
        """Java takes a further digit only if that many groups are open by now."""
        while self._peek().isascii() and self._peek().isdigit() and number * 10 + int(self._peek()) <= self._groups:
            number = number * 10 + int(self._take())
        return number

    def _reference(self, number: int) -> str:
        if number not in self._closed or number == 0:
            raise PatternRefused("a back reference to a group that does not end before it")
        self._referred.add(number)
        return self._cased(f"(?:\\{number})")

    def _ranges(self, c: str) -> Ranges | str:
        """The characters of a class escape; text for \\d and its kin, which Python writes alike; () for all others."""
        if c in "dDsSwW":
            return "\\" + c
        if c in "hH":
            return HORIZONTAL if c == "h" else _complement(HORIZONTAL)
        if c not in "pP":
            return ()
        name = self._until("}", "\\p{") if self._took("{") else self._take()
        if name not in POSIX:
            raise PatternRefused(f"\\{c}{{{name}}}: only Java's ASCII classes are read alike; write the characters out")
        if self._ignore_case and name in ("Lower", "Upper"):
            raise PatternRefused(f"\\{c}{{{name}}} under (?i): versions of Java differ; write the characters out")
        return POSIX[name] if c == "p" else _complement(POSIX[name])

    def _code(self, c: str) -> int:
        """The character that an escape stands for, its letter being taken already."""
        if c in CONTROL:
            return ord(CONTROL[c])
        if c == "c":
            return ord(self._take()) ^ 64
        if c == "0":
            return self._octal()
        if c == "x":
            return self._hex(self._until("}", "\\x{") if self._took("{") else self._take(2))
        if c == "u":
            return self._hex(self._take(4))
        if c in REFUSED_ESCAPES:
            raise PatternRefused(f"\\{c}: {REFUSED_ESCAPES[c]}")
        if c.isascii() and c.isalpha():
            raise PatternRefused(f"\\{c} is no escape in Java")
        return ord(c)

    def _octal(self) -> int:
        digits = re.compile("[0-3][0-7]{0,2}|[4-7][0-7]?").match(self._text, self._at)
        if digits is None:
            raise PatternRefused("\\0 without octal digits")
        return int(self._take(len(digits[0])), 8)

    def _hex(self, digits: str) -> int:
        if not re.fullmatch("[0-9a-fA-F]{1,8}", digits):
            raise PatternRefused(f"{digits!r} are no hexadecimal digits")
        code = int(digits, 16)
        if code > LAST or 0xD800 <= code <= 0xDFFF:
            raise PatternRefused(f"U+{code:04X} is no character")
        return code

    # classes

    def _class(self) -> str:
        out = ["[^" if self._took("^") else "["]
        if self._peek() == "]":
            raise PatternRefused("a ] right after [: write \\]")
        while not self._took("]"):
            if self._at >= len(self._text):
                raise PatternRefused("a [ without its ]")
            out.append(self._member())
        return self._cased("".join(out) + "]")

    def _member(self) -> str:
        first = self._class_char()
        if isinstance(first, str):
            if self._peek() == "-" and self._peek(2) != "-]":
                raise PatternRefused("a range in [..] that begins with a class")
            return first
        if self._peek() != "-" or self._peek(2) == "-]":
            return _char(first)
        self._take()
        last = self._class_char()
        if isinstance(last, str) or last < first:
            raise PatternRefused("a range in [..] that ends with a class or before it begins")
        return f"{_char(first)}-{_char(last)}"

    def _class_char(self) -> int | str:
        """A character, or the text of a class escape."""
        if self._peek(2) == "&&":
            raise PatternRefused("&& in [..]: Python has no intersections; write the characters out")
        c = self._take()
        if c == "[":
            raise PatternRefused("[ inside [..]: Python has no classes in classes; write \\[ or the characters out")
        if c != "\\":
            return ord(c)
        c = self._take()
        if c in ANCHORS or c in "k123456789":
            raise PatternRefused(f"\\{c} inside [..]")
        ranges = self._ranges(c)
        if isinstance(ranges, str):
            return ranges
        return _members(ranges) if ranges else self._code(c)
