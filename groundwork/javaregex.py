"""Translation of a Java regular expression for topic names to a Python one that matches the same names.

All members of a group evaluate each other's filters.  If this member matched other topics than the JVM members do, two
members would read a partition, or none would.  So whatever cannot be translated with certainty is refused by name.

    translated   what both write alike; quoting, octal, \\xhh, \\x{h..h}, \\uhhhh, \\cX, \\a, \\e, \\h, \\z, \\Z;
                 (?<name>..) and \\k<name>; POSIX classes \\p{Alpha} and so on (ASCII, as in Java); flags in the
                 middle
    refused      Unicode classes, [..&&..], [..[..]..], \\G, \\R, \\X, \\N, \\v, \\V, \\b{g}, the flags u, U, x, and
                 what Java itself refuses, such as `*` with nothing before it

This holds for every name that Kafka 0.8 allows: ASCII, not empty, no line ends.  So the flags m, s and d have no effect
and are left out; \\b next to a letter outside of ASCII is the one place where releases of Java differ.
"""

from __future__ import annotations

import re

from groundwork.javachars import ANCHORS, PatternRefused, Text, bracketed, char, class_escape, members, one_char
from groundwork.javamatch import (
    UNBOUNDED,
    Alternatives,
    Back,
    Chars,
    Condition,
    Following,
    Group,
    Look,
    Part,
    Plain,
    Repetition,
    TopicPattern,
)
from groundwork.pauses import Pace

DEEPEST = 50  # nested groups; another member's registration must not exhaust our stack
LONGEST = 1 << 16  # characters; another member's registration must not hold us up
PAUSE_CHARACTERS = 1 << 10  # translated between pauses: some milliseconds
REFUSED_FLAGS = {
    "u": "Unicode case folding differs between Java and Python",
    "U": "Unicode classes differ between Java and Python",
    "x": "Java and Python leave out different blanks",
}


def to_python(java: str) -> TopicPattern:
    """Translate a pattern, for .matches(name).  Raises PatternRefused."""
    if len(java) > LONGEST:
        raise PatternRefused(f"topic filter {java[:200]!r}: its {len(java)} characters are more than {LONGEST}")
    parser = _Parser(_without_quoting(java))
    try:
        return TopicPattern(java, parser.whole())
    except PatternRefused as exc:
        raise PatternRefused(f"topic filter {java[:200]!r}: {exc}") from None
    except (re.error, OverflowError, RecursionError) as exc:
        raise PatternRefused(f"topic filter {java[:200]!r}: Python cannot read it as Java does: {exc}") from exc


def _without_quoting(java: str) -> str:
    r"""Return the pattern with \Q..\E as escaped characters, as Java does before it parses."""
    out: list[str] = []
    at = 0
    pace = Pace(PAUSE_CHARACTERS)
    while at < len(java):
        pace.reached(at)
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


class _Parser:
    """Recursive descent parser of the pattern, one method a construct."""

    def __init__(self, text: str) -> None:
        self._text = Text(text)
        self._pace = Pace(PAUSE_CHARACTERS)
        self._depth = 0
        self._ignore_case = False
        self._groups = 0
        self._closed: set[int] = set()
        self._names: dict[str, int] = {}
        self._repeated: set[int] = set()
        self._referred: set[int] = set()

    def whole(self) -> Part:
        part = self._alternatives()
        if not self._text.ended:
            raise PatternRefused("a ) without its (")
        if self._repeated & self._referred:
            raise PatternRefused(
                "a back reference to a group inside a repetition: Java and Python may keep different repetitions"
            )
        return part

    # structure

    def _alternatives(self) -> Part:
        """Parse alternatives up to the end, or to a ) that is not consumed; flags set in them end there."""
        case_before = self._ignore_case
        found: list[list[Part]] = [[]]
        while not self._text.ended and self._text.peek() != ")":
            self._pace.reached(self._text.at)
            if self._text.took("|"):
                found.append([])
            elif (part := self._plain() or self._repeatable()) is not None:
                found[-1].append(part)
        self._ignore_case = case_before
        pace = Pace(PAUSE_CHARACTERS)
        branches: list[Part] = []
        for parts in found:
            pace.reached(len(branches))
            branches.append(Following(parts))
        return branches[0] if len(branches) == 1 else Alternatives(branches)

    def _plain(self) -> Part | None:
        """Parse letters and digits up to the last one before a repetition."""
        if self._ignore_case:
            return None
        text = self._text.word()
        return Plain(text) if text else None

    def _repeatable(self) -> Part | None:
        groups_before = self._groups
        atom = self._atom()
        if atom is None:
            return None
        repetition = self._repetition(atom)
        if repetition is not atom:
            self._repeated.update(range(groups_before + 1, self._groups + 1))
        return repetition

    def _repetition(self, atom: Part) -> Part:
        if self._text.peek() == "{":
            count = self._text.match(r"\{([0-9]+)(?:,([0-9]*))?\}")
            if count is None:
                raise PatternRefused("a { that begins no count such as {2,3}; write \\{ for the character")
            if any(len(number or "") > 5 for number in count.groups()):
                raise PatternRefused(f"{count[0]} is more than any name is long")
            times = self._text.take(len(count[0]))
            low = int(count[1])
            high = low if count[2] is None else int(count[2] or UNBOUNDED)
            if low > high:
                raise PatternRefused(f"{count[0]} is at least more often than at most")
        elif self._text.peek() in ("*", "+", "?"):
            times = self._text.take()
            low, high = int(times == "+"), 1 if times == "?" else UNBOUNDED
        else:
            return atom
        how = self._text.take() if self._text.peek() in ("?", "+") else ""
        if self._text.peek() in ("*", "+", "?", "{"):
            raise PatternRefused(
                f"{self._text.peek()} after {times}{how}: one repetition of another; put a group around the first"
            )
        return Repetition(atom, times, low, high, how)

    def _atom(self) -> Part | None:
        """Parse one atom; return None for flags, which cannot be repeated."""
        c = self._text.take()
        if c == "(":
            return self._group()
        if c == "[":
            return Chars(self._cased(bracketed(self._text, self._ignore_case)))
        if c == "\\":
            return self._escape()
        if c in "*+?":
            raise PatternRefused(f"{c} has nothing to repeat: a topic filter is a Java regular expression; write .*")
        if c == "{":
            raise PatternRefused("a { that repeats nothing; write \\{ for the character")
        if c in "^$":
            return Condition(r"\Z" if c == "$" else c)
        return Chars(c if c == "." else self._cased(char(ord(c))))

    def _cased(self, python: str) -> str:
        return f"(?i:{python})" if self._ignore_case else python

    def _group(self) -> Part | None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise PatternRefused(f"groups nested more than {DEEPEST} deep")
        case_before = self._ignore_case
        number = 0
        if not self._text.took("?"):
            opening, number = "(", self._next_group()
        else:
            for opening in ("?:", "?=", "?!", "?>", "?<=", "?<!"):
                if self._text.took(opening[1:]):
                    opening = "(" + opening
                    break
            else:
                if self._text.took("<"):
                    opening, number = self._named()
                elif self._flags():
                    self._depth -= 1
                    return None
                else:
                    opening = "(?:"
        body = self._alternatives()
        if not self._text.took(")"):
            raise PatternRefused("a ( without its )")
        self._ignore_case = case_before
        self._closed.add(number)
        self._depth -= 1
        if opening in ("(?<=", "(?<!") and body.shortest != body.longest:
            raise PatternRefused("it looks behind for texts of different lengths, which Python does not")
        if opening in ("(?=", "(?!", "(?<=", "(?<!"):
            return Look(opening, body)
        return Group(opening, body, once=opening == "(?>")

    def _next_group(self) -> int:
        self._groups += 1
        return self._groups

    def _named(self) -> tuple[str, int]:
        name = self._text.until(">", "a group's <name")
        if not re.fullmatch("[a-zA-Z][a-zA-Z0-9]*", name) or name in self._names:
            raise PatternRefused(f"{name!r} cannot name a group: letters and digits, and each name once")
        self._names[name] = self._next_group()
        return f"(?P<{name}>", self._groups

    def _flags(self) -> bool:
        """Read flags: True for `i-m)`, which hold to the end of the group; False for `i-m:`, which have their own
        group."""
        on = True
        while (c := self._text.take()) not in "):":
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

    def _escape(self) -> Part:
        c = self._text.take()
        if c == "b" and self._text.peek() == "{":
            raise PatternRefused("\\b{g}: older Java does not know it")
        if c in ANCHORS:
            return Condition(ANCHORS[c])
        if c in "123456789":
            return self._reference(self._number(int(c)))
        if c == "k":
            if not self._text.took("<"):
                raise PatternRefused("\\k without <name>")
            name = self._text.until(">", "\\k<name")
            return self._reference(self._names.get(name, 0))
        ranges = class_escape(self._text, c, self._ignore_case)
        if isinstance(ranges, str):
            return Chars(ranges)
        return Chars(self._cased(f"[{members(ranges)}]" if ranges else char(one_char(self._text, c))))

    def _number(self, number: int) -> int:
        """Return the number of a back reference: Java takes a further digit only if that many groups are open by
        now."""
        while "0" <= (c := self._text.peek()) <= "9" and number * 10 + int(c) <= self._groups:
            number = number * 10 + int(self._text.take())
        return number

    def _reference(self, number: int) -> Part:
        if number not in self._closed or number == 0:
            raise PatternRefused("a back reference to a group that does not end before it")
        self._referred.add(number)
        return Back(self._cased(f"(?:\\{number})"))
