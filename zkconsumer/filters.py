"""Topic filters: the topics of a member that subscribes by regular expression.  Pure.

Every member evaluates its own filter and those of all others, so all must agree: the text rules (blanks are removed, a
comma means `|`, quotes around it are removed) and the regular expression are Java's, and the whole name of a topic must
match.  Internal topics of the brokers are excluded by the option of the member that evaluates a filter, even in another
member's filter (TopicFilter of 0.8.2.2).  kafkawire.topicnames lists them, and what members of other releases do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from groundwork.java import PatternRefused, filter_text, topic_filter
from groundwork.javamatch import LONGEST_NAME
from kafkawire.topicnames import INTERNAL_TOPICS
from kafkawire.znodes.group import BLACK_LIST, WHITE_LIST, Registration

BACK_REFERENCE = r"\\[1-9k]"


class _Expression:
    """Topic expression.  text: as the user wrote it; regex: as a registration holds it."""

    pattern: str
    _named: bool  # True if matching topics are read, False if they are excluded

    def __init__(self, text: str) -> None:
        self.text = text
        self.regex = filter_text(text)
        self._compiled = topic_filter(text)

    def matches(self, topic: str, exclude_internal: bool = True) -> bool:
        """True if the topic is read.  exclude_internal: the option exclude.internal.topics.  A name that is longer than
        Kafka allows is not a topic.  Raises PatternRefused if the evaluation takes too many steps."""
        if (exclude_internal and topic in INTERNAL_TOPICS) or len(topic) > LONGEST_NAME:
            return False
        return self._compiled.matches(topic) is self._named

    def registration(self, streams: int) -> Registration:
        """Return the registration of a member with this number of streams."""
        return Registration(self.pattern, {self.regex: streams})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


class Blacklist(_Expression):
    """Topics whose whole name does not match.  Raises PatternRefused (a ValueError), like Whitelist."""

    pattern = BLACK_LIST
    _named = False


class Whitelist(_Expression):
    """Topics whose whole name matches.  Raises PatternRefused (a ValueError) if Java and Python may differ."""

    pattern = WHITE_LIST
    _named = True

    def without(self, black: Blacklist) -> Whitelist:
        r"""Return the topics that this list selects and the other does not, as one Java pattern: a registration holds
        only one.

        Raises PatternRefused if the two cannot be combined in one pattern: \1 counts groups from its beginning, and a
        group name may occur only once.
        """
        if re.search(BACK_REFERENCE, self.regex) and "(" in black.regex:
            raise PatternRefused(
                f"topic filter {self.regex!r} refers to a group of its own by \\1 or by name, which may be another one "
                f"behind the groups of {black.regex!r}: write one pattern that says both, (?!(?:black)$)(?:white)"
            )
        return Whitelist(f"(?!(?:{_closed(black.regex)})$)(?:{_closed(self.regex)})")


def _closed(regex: str) -> str:
    r"""Close a quotation that runs to the end (\Q without \E): it would quote what is appended."""
    return regex + "\\E" if regex.rfind("\\Q") > regex.rfind("\\E") else regex


TopicFilter = Whitelist | Blacklist


LeaveOut = Callable[[str, str, PatternRefused], bool]  # regex, topic and why; True: the topic is left out


def never(regex: str, topic: str, why: PatternRefused) -> bool:
    """Leave no topic out: a filter that cannot be evaluated is an error."""
    return False


class LeftOut:
    """Rule that leaves topics out of a member's own filter if their evaluation takes too many steps: otherwise anyone
    who creates a topic with a long name could end the member.  say: called once for each.

    Members whose program can evaluate the filter count this one as a reader if the topic matches.  No member reads the
    partitions that they give it: claiming them would be a guess, and if the topic does not match, another member reads
    them.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self.own: str | None = None  # the regex of the member's own filter; None: any filter
        self._say = say
        self._topics: set[str] = set()

    def __call__(self, regex: str, topic: str, why: PatternRefused) -> bool:
        if self.own is not None and regex != self.own:
            return False
        if topic not in self._topics:
            self._topics.add(topic)
            self._say(f"a topic is left out, also partitions of it that other members count as this member's: {why}")
        return True


def streams_by_topic(
    registration: Registration, topics: Iterable[str], exclude_internal: bool = True, leave_out: LeaveOut = never
) -> Mapping[str, int]:
    """Return a member's streams for each topic it reads, of the existing topics; a static registration names its own.

    For leave_out, see Selection.  Raises PatternRefused if it is not certain which topics its expression selects in the
    JVM.
    """
    return Selection(topics, exclude_internal, leave_out=leave_out).streams(registration)


class Selection:
    """Topics that the members of a group read, of the existing topics.  Each expression is evaluated once.

    more_time(): called before each step of some milliseconds; returns False when the time is over. leave_out(): True if
    a topic is left out of a filter that takes too many steps to evaluate for it.
    """

    def __init__(
        self,
        topics: Iterable[str],
        exclude_internal: bool = True,
        more_time: Callable[[], bool] = lambda: True,
        leave_out: LeaveOut = never,
    ) -> None:
        self._leave_out = leave_out
        self._topics = list(topics)
        self._exclude_internal = exclude_internal
        self._more_time = more_time
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}
        self._streams: dict[tuple[tuple[str, ...], int], Mapping[str, int]] = {}

    def streams(self, registration: Registration) -> Mapping[str, int]:
        """Return the streams of a member by topic, as streams_by_topic() does; members with equal subscriptions share
        one object.  Raises PatternRefused."""
        if registration.pattern not in (WHITE_LIST, BLACK_LIST):
            return dict(registration.subscription)
        ((regex, streams),) = registration.subscription.items()
        of = registration.pattern, regex
        if of not in self._known:
            self._known[of] = self._selected(*of)
        chosen = self._known[of], streams
        if chosen not in self._streams:
            self._streams[chosen] = dict.fromkeys(*chosen)
        return self._streams[chosen]

    def _selected(self, pattern: str, regex: str) -> tuple[str, ...]:
        self._go_on(regex)
        chosen = Whitelist(regex) if pattern == WHITE_LIST else Blacklist(regex)
        found = []
        for topic in self._topics:
            self._go_on(regex)
            try:
                selected = chosen.matches(topic, self._exclude_internal)
            except PatternRefused as why:
                if not self._leave_out(regex, topic, why):
                    raise
                selected = False
            if selected:
                found.append(topic)
        return tuple(found)

    def _go_on(self, regex: str) -> None:
        if not self._more_time():
            raise PatternRefused(f"topic filter {regex[:200]!r}: all filters of the group take too long to evaluate")
