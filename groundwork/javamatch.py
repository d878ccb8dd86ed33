"""Parts of a translated pattern, and whether a name matches them, in bounded time.

Python's `re` backtracks: `(.|.)*!` takes twice as long for each further character, in one C call that nothing can end.
The patterns are other members' too, and names are of whoever creates topics.  So each part knows the most steps that
backtracking takes, by the length of the name.  What takes few goes to `re`; everything else follows all places of the
name at once (bits of an int, place 0 the lowest), in a number of steps that is counted.

    matches   quick by the bound               re
              slower                           all places at once; if that takes too many steps, re up to ten times
                                               as long, else refused
              slower, with a back reference,   refused where the pattern is translated: what they match depends on
              an atomic group or possessive    the way that led to them
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from groundwork.javachars import PatternRefused

LONGEST_NAME = 255  # characters; Kafka has no longer names of topics
LENGTHS = (31, 63, 127, LONGEST_NAME)  # for which the steps of backtracking are computed
QUICK = 200_000  # most steps of `re` for a name where there is another way: 2 ms
PATIENT = 1_000_000  # and where there is none, or it took too many steps: 10 ms
NAME_STEPS = 50_000  # most steps of following all places of a name: 20 ms
COMPILED_MOST = 12_000  # characters of a pattern that is given to `re`: 40 ms
UNBOUNDED = 1 << 30  # repetitions
MANY = 1 << 50  # of ways and steps: more are not told apart
Cost = tuple[int, int]  # ways to match from a given place, and steps to try them all


class _Places:
    """A name, and the places of it that characters and conditions hold at."""

    __slots__ = ("_found", "behind", "last", "left", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.last = 1 << len(name)
        self.left = NAME_STEPS
        self.behind: dict[int, list[int]] = {}  # by a Look: places that were looked at, and those where it holds
        self._found: dict[str, int] = {}

    def step(self, steps: int = 1) -> None:
        """Count steps.  Raises PatternRefused when there were too many."""
        self.left -= steps
        if self.left < 0:
            raise PatternRefused(f"it takes too many steps to tell whether {self.name!r} matches")

    def where(self, python: str) -> int:
        """Return the places at which a character or a condition matches."""
        found = self._found.get(python)
        if found is None:
            self.step(50 + len(self.name) // 2)  # as long as so many others
            match = re.compile(python, re.ASCII).match
            found = sum(1 << at for at in range(len(self.name) + 1) if match(self.name, at))
            self._found[python] = found
        return found


class Part(ABC):
    """A part of a pattern.  python: its text; shortest and longest: characters that it matches; followed: whether all
    places can be followed at once; fixed: its cost, where the name's length has no influence."""

    __slots__ = ("fixed", "followed", "longest", "python", "shortest")

    def __init__(self, python: str, shortest: int, longest: int, followed: bool, fixed: Cost | None) -> None:
        self.python = python
        self.shortest = shortest
        self.longest = longest
        self.followed = followed
        self.fixed = fixed

    @abstractmethod
    def cost(self, length: int) -> Cost:
        """Return bounds of the ways and steps of `re` in a name of that length."""

    @abstractmethod
    def ends(self, places: _Places, starts: int) -> int:
        """Return the places where matches end that begin at one of the starts.  Raises PatternRefused."""


class Chars(Part):
    """One character of some."""

    __slots__ = ()

    def __init__(self, python: str) -> None:
        super().__init__(python, 1, 1, True, (1, 1))

    def cost(self, length: int) -> Cost:
        return 1, 1

    def ends(self, places: _Places, starts: int) -> int:
        return (starts & places.where(self.python)) << 1


class Plain(Part):
    """Letters and digits that match themselves, one behind the other."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        super().__init__(text, len(text), len(text), True, (1, len(text)))

    def cost(self, length: int) -> Cost:
        return 1, len(self.python)

    def ends(self, places: _Places, starts: int) -> int:
        read = 0
        for c in self.python:
            starts = (starts & places.where(c)) << 1
            read += 1
            if not starts:
                break
        places.step(read // 4)  # a character takes a quarter of what a part takes
        return starts


class Condition(Part):
    """A place, such as ^ and \\b."""

    __slots__ = ()

    def __init__(self, python: str) -> None:
        super().__init__(python, 0, 0, True, (1, 1))

    def cost(self, length: int) -> Cost:
        return 1, 1

    def ends(self, places: _Places, starts: int) -> int:
        return starts & places.where(self.python)


class Back(Part):
    """A back reference: what it matches depends on the way that led to it."""

    __slots__ = ()

    def __init__(self, python: str) -> None:
        super().__init__(python, 0, UNBOUNDED, False, (1, 1))

    def cost(self, length: int) -> Cost:
        return 1, 1

    def ends(self, places: _Places, starts: int) -> int:
        raise PatternRefused("a back reference cannot be followed from all places at once")


class Following(Part):
    """Parts behind each other."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        super().__init__(
            "".join(part.python for part in parts),
            min(sum(part.shortest for part in parts), UNBOUNDED),
            min(sum(part.longest for part in parts), UNBOUNDED),
            all(part.followed for part in parts),
            self.cost(0) if all(part.fixed is not None for part in parts) else None,
        )

    def cost(self, length: int) -> Cost:
        ways, steps = 1, 1
        for part in self._parts:
            more_ways, more_steps = part.fixed or part.cost(length)
            steps = min(steps + ways * more_steps, MANY)
            ways = min(ways * more_ways, MANY)
        return ways, steps

    def ends(self, places: _Places, starts: int) -> int:
        for part in self._parts:
            if not starts:
                break
            places.step()
            starts = part.ends(places, starts)
        return starts


class Alternatives(Part):
    """One part of several."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        super().__init__(
            "|".join(part.python for part in parts),
            min(part.shortest for part in parts),
            max(part.longest for part in parts),
            all(part.followed for part in parts),
            self.cost(0) if all(part.fixed is not None for part in parts) else None,
        )

    def cost(self, length: int) -> Cost:
        costs = [part.fixed or part.cost(length) for part in self._parts]
        return min(sum(ways for ways, _ in costs), MANY), min(sum(steps for _, steps in costs), MANY)

    def ends(self, places: _Places, starts: int) -> int:
        found = 0
        places.step(len(self._parts))  # also those that match nothing, and so count no steps themselves
        for part in self._parts:
            found |= part.ends(places, starts)
        return found


class Group(Part):
    """A part in brackets.  once: an atomic group, which `re` leaves for good once it has matched."""

    __slots__ = ("_once", "_part")

    def __init__(self, opening: str, part: Part, once: bool = False) -> None:
        self._part = part
        self._once = once
        fixed = self.cost(0) if part.fixed is not None else None
        super().__init__(f"{opening}{part.python})", part.shortest, part.longest, part.followed and not once, fixed)

    def cost(self, length: int) -> Cost:
        ways, steps = self._part.cost(length)
        return (1 if self._once else ways), steps

    def ends(self, places: _Places, starts: int) -> int:
        places.step()
        return self._part.ends(places, starts)


class Look(Part):
    """A part that has to match, or must not, before or behind a place."""

    __slots__ = ("_back", "_not", "_part")

    def __init__(self, opening: str, part: Part) -> None:
        self._part = part
        self._back = "<" in opening
        self._not = "!" in opening
        fixed = (1, part.fixed[1]) if part.fixed is not None else None
        super().__init__(f"{opening}{part.python})", 0, 0, part.followed, fixed)

    def cost(self, length: int) -> Cost:
        return 1, self._part.cost(length)[1]

    def ends(self, places: _Places, starts: int) -> int:
        known = places.behind.setdefault(id(self), [0, 0])
        ask = starts & ~known[0]
        while ask:
            place = ask & -ask
            ask ^= place
            places.step()
            if self._back:
                found = self._part.ends(places, place >> self._part.shortest) & place
            else:
                found = self._part.ends(places, place)
            known[0] |= place
            if bool(found) is not self._not:
                known[1] |= place
        return starts & known[1]


class Repetition(Part):
    """A part, at least `low` and at most `high` times.  how: "" or "?", or "+" for a possessive one."""

    __slots__ = ("_high", "_how", "_low", "_part")

    def __init__(self, part: Part, times: str, low: int, high: int, how: str) -> None:
        self._part, self._low, self._high, self._how = part, low, high, how
        super().__init__(
            f"{part.python}{times}{how}",
            min(part.shortest * low, UNBOUNDED),
            min(part.longest * high, UNBOUNDED),
            part.followed and how != "+",
            self.cost(0) if high <= 1 and part.fixed is not None else None,
        )

    def cost(self, length: int) -> Cost:
        ways, steps = self._part.cost(length)
        shortest = self._part.shortest
        times = min(self._high, length // shortest if shortest and self._high > 1 else self._low + length + 1)
        if ways == 1:
            all_ways, tries = max(times - self._low, 0) + 1, times + 1
        else:
            all_ways = tries = power = 1
            for _ in range(times):
                power *= ways
                tries += power
                if tries > MANY:
                    break
            all_ways = tries
        return (1 if self._how == "+" else min(all_ways, MANY)), min(tries * (steps + 1), MANY)

    def ends(self, places: _Places, starts: int) -> int:
        for _ in range(self._low):
            places.step()
            before, starts = starts, self._part.ends(places, starts)
            if starts in (0, before):
                break
        if self._high == UNBOUNDED and isinstance(self._part, Chars):
            here = places.where(self._part.python)
            return (((starts & here) + here) ^ here) | starts  # a carry runs through the characters that match
        found = added = starts
        for _ in range(self._high - self._low):
            if not added:
                break
            places.step()
            added = self._part.ends(places, added) & ~found
            found |= added
        return found


class TopicPattern:
    """A Java pattern for names of topics.  Raises PatternRefused where it could take too long, and re.error for what
    Python does not take."""

    def __init__(self, java: str, part: Part) -> None:
        self.java = java
        self.python = part.python
        self._part = part
        long = len(part.python) > COMPILED_MOST
        self._compiled = None if long else re.compile(part.python, re.ASCII)
        self._costs: dict[int, int] = {}
        if not part.followed and (long or self._cost(LONGEST_NAME) > PATIENT):
            raise PatternRefused(
                "its back references, atomic groups or possessive repetitions can take more steps than there is time"
                " for; write it without them, or with fewer repetitions"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPattern) and other.java == self.java

    def __hash__(self) -> int:
        return hash(self.java)

    def matches(self, name: str) -> bool:
        """True if the whole name matches.  A name that is longer than Kafka's does not.

        Raises PatternRefused where that takes too many steps.
        """
        if len(name) > LONGEST_NAME:
            return False
        length = next(length for length in LENGTHS if length >= len(name))
        cost = self._cost(length)
        compiled = self._compiled
        if compiled is not None and (not self._part.followed or cost <= QUICK):
            return compiled.fullmatch(name) is not None
        places = _Places(name)
        try:
            return self._ends(places, 1) & places.last != 0
        except PatternRefused:
            if compiled is None or cost > PATIENT:
                raise
            return compiled.fullmatch(name) is not None

    def found_in(self, name: str) -> bool:
        """True if a part of the name matches.  Raises PatternRefused as matches()."""
        if len(name) > LONGEST_NAME:
            return False
        cost = self._cost(LONGEST_NAME) * (len(name) + 1)
        compiled = self._compiled
        if compiled is not None and (not self._part.followed or cost <= QUICK):
            return compiled.search(name) is not None
        places = _Places(name)
        try:
            return self._ends(places, 2 * places.last - 1) != 0
        except PatternRefused:
            if compiled is None or cost > PATIENT:
                raise
            return compiled.search(name) is not None

    def _ends(self, places: _Places, starts: int) -> int:
        try:
            return self._part.ends(places, starts)
        except PatternRefused as exc:
            raise PatternRefused(f"topic filter {self.java[:200]!r}: {exc}") from None

    def _cost(self, length: int) -> int:
        found = self._costs.get(length)
        if found is None:
            found = self._costs[length] = sum(self._part.cost(length))
        return found
