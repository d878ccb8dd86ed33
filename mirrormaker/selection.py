"""Selection: which topics of a source are mirrored, and under which names in the target.  Pure.

    selected     whitelist and blacklist together (the blacklist wins), except internal topics
    renamed      by the source's topic.rename, then mirror.topic.rename: literally, without a prefix
    prefixed     all others, if the source has a topic.prefix
    fed back     a source in the target's own cluster must not select the topics that the mirror writes: such a topic
                 would feed itself, one copy after the other; it is refused, and other topics are mirrored
    held back    no rename and no prefix may lead to a name under which brokers keep their own state, or to a topic that
                 this or another mirror writes for itself (offset map, dead letters; reserved.topics): messages
                 could forge the data there
    merged       a target topic that several source topics are sent to

A group agrees on one Java pattern for each member, so the registration joins both lists in one pattern (topic_filter).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from groundwork.java import PatternRefused
from kafkawire.topicnames import INTERNAL_TOPICS, LONGEST, NEVER_WRITTEN, why_never_written, why_no_name
from zkconsumer.filters import Blacklist, TopicFilter, Whitelist

PLAIN = re.compile(r"[a-zA-Z0-9_\-]|\\[.\-]")  # one character of a pattern that matches only itself
SAMPLE = "topic"  # example for the open part of a pattern


def topic_filter(whitelist: str, blacklist: str) -> TopicFilter:
    """Return the topics of the whitelist, if there is one, without those of the blacklist.  Raises ValueError for a
    pattern that Java and Python may read differently, or for two patterns that cannot be joined."""
    if not whitelist:
        return Blacklist(blacklist)
    return Whitelist(whitelist).without(Blacklist(blacklist)) if blacklist else Whitelist(whitelist)


def renames(raw: object) -> dict[str, str]:
    """Return the renames in an option `topic.rename`: a mapping, or `source:target,…`.  Raises ValueError."""
    pairs = _pairs(raw)
    if any(len(pair) != 2 or not all(isinstance(name, str) and name for name in pair) for pair in pairs):
        raise ValueError("source topic: target topic, both texts")
    found: dict[str, str] = {}
    for source, target in pairs:
        if why := why_no_name(str(target)):
            raise ValueError(f"names that brokers take, and not {str(target)[:40]!r}: {why}")
        if why := why_never_written(str(target)):
            raise ValueError(f"another name than {target}, {why}")
        if str(source) in found:
            raise ValueError(f"each source topic once, and {source!r} is there twice")
        found[str(source)] = str(target)
    return found


def _pairs(raw: object) -> Sequence[Sequence[object]]:
    """Return the pairs of a mapping, or of `source:target,…`."""
    if isinstance(raw, Mapping):
        return list(raw.items())
    return [[part.strip() for part in entry.split(":")] for entry in str(raw).split(",") if entry.strip()]


def group_renames(raw: object) -> dict[str, str]:
    """Return the renames in an option `groups.rename`: a mapping, or `source:target,…`.  Raises ValueError."""
    found: dict[str, str] = {}
    for pair in _pairs(raw):
        if len(pair) != 2 or not all(isinstance(name, str) and name and "/" not in name for name in pair):
            raise ValueError("source group: target group, both texts without a slash")
        if str(pair[0]) in found:
            raise ValueError(f"each source group once, and {str(pair[0])!r} is there twice")
        found[str(pair[0])] = str(pair[1])
    if len(set(found.values())) < len(found):
        raise ValueError("another name for each group: two cannot share their offsets in the target")
    return found


def target_group(group: str, renames: Mapping[str, str], prefix: str) -> str:
    """Return a group's name in the target: its own in renames, else with the prefix."""
    return renames.get(group) or f"{prefix}{group}"


def groups_filter(pattern: str) -> Callable[[str], bool]:
    """Return whether a group is selected by an option `groups`; none is by an empty one."""
    return Whitelist(pattern).matches if pattern else lambda group: False


def prefix(raw: object) -> str:
    """Return the prefix in an option `topic.prefix`.  Raises ValueError."""
    text = str(raw).strip()
    if not isinstance(raw, str) or (text and why_no_name(f"{text}{SAMPLE}")):
        raise ValueError("text of ASCII letters, digits, '.', '_' and '-' (for example dc1.)")
    return text


class Override(NamedTuple):
    """Entry of `mirror.topic.overrides`: a pattern of source topics, and the options it sets, by key."""

    topics: str
    options: Mapping[str, object]


class Explanation(NamedTuple):
    """Decision about a topic of a source, with the rule behind it.

    rule      why it is mirrored, or why not
    target    its target name, "" if it is not mirrored; naming: the rule that names it, "" if it keeps its name
    overrides options that differ for it: a sentence each
    refused   why it is held back although it is selected, or ""
    """

    topic: str
    mirrored: bool
    rule: str
    target: str = ""
    naming: str = ""
    overrides: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Topics of one source that are mirrored, and their names in the target.

    rename: the source's own; shared_rename: that of all sources.  own: topics of the target that the mirror writes for
    itself, each with the option that names it; reserved: a pattern of topics that others write for themselves.  Raises
    ValueError if the lists are not valid patterns.
    """

    source: str
    whitelist: str = ""
    blacklist: str = ""
    reserved: str = ""
    exclude_internal: bool = True
    rename: Mapping[str, str] = field(default_factory=dict)
    shared_rename: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    overrides: tuple[Override, ...] = ()
    own: Mapping[str, str] = field(default_factory=dict)
    filter: TopicFilter = field(init=False, repr=False, compare=False)
    _reserved: Whitelist | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_reserved", Whitelist(self.reserved) if self.reserved else None)
        object.__setattr__(self, "filter", topic_filter(self.whitelist, self.blacklist))

    def __hash__(self) -> int:
        return hash((self.source, self.whitelist, self.blacklist, self.prefix))

    # which -----------------------------------------------------------------------------------------------------------

    def selects(self, topic: str) -> bool:
        """True if a topic of the source is mirrored."""
        return self.filter.matches(topic, self.exclude_internal)

    def rule(self, topic: str) -> str:
        """Return why a topic is mirrored, or why not."""
        if self.exclude_internal and topic in INTERNAL_TOPICS:
            return "internal topic: exclude.internal.topics leaves it out"
        if self.whitelist and not Whitelist(self.whitelist).matches(topic, False):
            return f"whitelist {self.whitelist!r} does not match"
        if self.blacklist and not Blacklist(self.blacklist).matches(topic, False):
            return f"blacklist {self.blacklist!r} matches"
        if not self.whitelist:
            return f"blacklist {self.blacklist!r} does not match"
        return f"whitelist {self.whitelist!r} matches{', the blacklist does not' if self.blacklist else ''}"

    # under which name ------------------------------------------------------------------------------------------------

    def target(self, topic: str) -> str:
        """Return the name of a source topic in the target."""
        literal = self.rename.get(topic) or self.shared_rename.get(topic)
        return literal if literal is not None else f"{self.prefix}{topic}"

    def naming(self, topic: str) -> str:
        """Return the rule that names a topic in the target; "" if it keeps its name."""
        if topic in self.rename:
            return f"topic.rename of source {self.source}"
        if topic in self.shared_rename:
            return "mirror.topic.rename"
        return f"topic.prefix {self.prefix} of source {self.source}" if self.prefix else ""

    @property
    def changes_names(self) -> bool:
        """True if any topic may have another name in the target."""
        return bool(self.prefix or self.rename or self.shared_rename)

    def sent_to(self, target: str) -> tuple[str, ...]:
        """Return the topics, whether the source has them or not, that would be written to a target topic."""
        renamed = (*self.rename, *self.shared_rename)
        found = {topic for topic in (*renamed, target.removeprefix(self.prefix)) if topic}
        return tuple(sorted(topic for topic in found if self.target(topic) == target and self.selects(topic)))

    # held back -------------------------------------------------------------------------------------------------------

    def refusal(self, topic: str, target_is_source: bool = False) -> str:
        """Return a sentence saying why a selected topic is held back, or ""."""
        target = self.target(topic)
        if why := self.why_not_written(target):
            return (
                f"topic {topic} would be written to {target}, {why}; blacklist it, or give it another name "
                "(topic.rename, topic.prefix)"
            )
        return self.fed_back(topic) if target_is_source else ""

    def certainly_held_back(self) -> Iterator[str]:
        """Yield topics that would be held back if the source has them, as far as the configuration alone shows it.

        A topic that keeps an internal name counts only if the whitelist names it: every source may have such topics.
        """
        named = set(_literals(self.whitelist))
        others = self.own.keys() | _literals(self.reserved)
        for name in sorted(NEVER_WRITTEN | others):
            yield from (t for t in self.sent_to(name) if name in others or t != name or t in named)
        yield from (t for t in sorted(named) if len(self.target(t)) > LONGEST)

    def renamed(self, topic: str) -> bool:
        """True if an option gives the topic its target name literally."""
        return topic in self.rename or topic in self.shared_rename

    def why_not_written(self, target: str) -> str:
        """Return a clause saying why no message is written to a topic of the target, or "" if messages may be."""
        if option := self.own.get(target):
            return f"which the mirror itself writes ({option})"
        if self._is_reserved(target):
            return f"which reserved.topics {self.reserved!r} keeps for others"
        return why_never_written(target)

    def _is_reserved(self, target: str) -> bool:
        try:
            return self._reserved is not None and self._reserved.matches(target, False)
        except PatternRefused:
            return True  # unknown: the check would take too long

    # fed back --------------------------------------------------------------------------------------------------------

    def fed_back(self, topic: str) -> str:
        """Return a sentence saying why a topic would feed itself if source and target are one cluster, or ""."""
        return self.selected_again(self.target(topic), topic)

    def selected_again(self, target: str, topic: str) -> str:
        """Return a sentence saying why a topic would feed itself if its messages go to that name, or ""."""
        if not self.selects(target):
            return ""
        goes = "keeps its name" if target == topic else f"goes to {target}"
        return (
            f"topic {topic} {goes} in the cluster that it comes from, and {target} is mirrored as well "
            f"({self.rule(target)}): it would feed itself; give it another name (topic.rename, topic.prefix) that "
            "whitelist and blacklist leave out"
        )

    def certainly_fed_back(self) -> str:
        """Return a sentence about a topic that would feed itself, as far as the configuration alone shows it.

        It checks the topics that the configuration names, and examples of what its patterns leave open.
        """
        for topic in self._known_topics():
            if self.selects(topic) and (sentence := self.fed_back(topic)):
                return sentence
        if not self.prefix and not self._only_literals():
            return (
                "source and target are one cluster, and a topic without an entry in topic.rename keeps its name: it "
                "would feed itself; give the source a topic.prefix, or list the topics one by one in the whitelist"
            )
        return ""

    def _known_topics(self) -> Iterator[str]:
        yield from (*self.rename, *self.shared_rename)
        yield from _literals(self.whitelist)
        yield from _samples(self.whitelist)
        yield from (SAMPLE, f"{self.prefix}{SAMPLE}")

    def _only_literals(self) -> bool:
        return bool(self.whitelist) and len(_literals(self.whitelist)) == len(_alternatives(self.whitelist))

    # all of it -------------------------------------------------------------------------------------------------------

    def explain(self, topic: str, target_is_source: bool = False) -> Explanation:
        """Return what happens to a topic.  target_is_source: the topic is in the target's own cluster."""
        rule = self.rule(topic)
        if not self.selects(topic):
            return Explanation(topic, False, rule)
        return Explanation(
            topic,
            mirrored=True,
            rule=rule,
            target=self.target(topic),
            naming=self.naming(topic),
            overrides=tuple(self._overridden(topic)),
            refused=self.refusal(topic, target_is_source),
        )

    def _overridden(self, topic: str) -> Iterator[str]:
        """Yield the options that differ for a topic; for each option, the first entry that sets it counts."""
        seen: set[str] = set()
        for number, override in enumerate(self.overrides):
            if Whitelist(override.topics).matches(topic, False):
                for key, value in override.options.items():
                    if key not in seen:
                        seen.add(key)
                        yield f"{key}: {value} (mirror.topic.overrides[{number}], {override.topics!r})"

    def idle_overrides(self, topics: Iterable[str]) -> list[str]:
        """Return a sentence for each entry of topic.overrides that matches none of these topics."""
        names = [topic for topic in topics if self.selects(topic)]
        return [
            f"mirror.topic.overrides[{number}]: no topic matches {override.topics!r}"
            for number, override in enumerate(self.overrides)
            if not any(Whitelist(override.topics).matches(topic, False) for topic in names)
        ]


def never_ends(selection: Selection, topics: Iterable[str]) -> str:
    """Return a sentence saying why nothing of a source can be mirrored into its own cluster, which has these topics; ""
    if some can, or if there are no topics yet."""
    if not selection.changes_names:
        return "it would never end; topic.prefix or topic.rename gives topics another name"
    sentences = [selection.fed_back(topic) for topic in topics if selection.selects(topic)]
    return sentences[0] if sentences and all(sentences) else ""


def merged_topics(found: Iterable[tuple[Selection, Iterable[str]]]) -> dict[str, tuple[str, ...]]:
    """Return the target topics with several source topics, and for each of these `SOURCE/TOPIC`, sorted.

    found: for each source, its selection and its topics, whether mirrored or not.
    """
    writers: dict[str, set[str]] = {}
    for selection, topics in found:
        for topic in topics:
            if selection.selects(topic):
                writers.setdefault(selection.target(topic), set()).add(f"{selection.source}/{topic}")
    return {target: tuple(sorted(names)) for target, names in sorted(writers.items()) if len(names) > 1}


def merged_sentence(target: str, writers: Sequence[str]) -> str:
    """Return the sentence of check and status about a target topic that several source topics are sent to."""
    listed = f"{', '.join(writers[:-1])} and {writers[-1]}"
    return f"target topic {target} is fed by {listed}: their messages are merged"


# ---- patterns, as far as they can be analysed ------------------------------------------------------------------------


def _alternatives(pattern: str) -> list[str]:
    """Return the parts of a list that are separated by commas or |, unless a bracket may contain the separator."""
    if not pattern or re.search(r"[()\[\]{}]|\\[QE]", pattern):
        return [pattern]
    return [part for part in re.split(r"[|,]", pattern.strip().strip("\"'").replace(" ", "")) if part]


def _literals(pattern: str) -> list[str]:
    """Return the alternatives that match only one topic."""
    return [
        re.sub(r"\\(.)", r"\1", one) for one in _alternatives(pattern) if re.fullmatch(f"(?:{PLAIN.pattern})+", one)
    ]


def _samples(pattern: str) -> Iterator[str]:
    """Yield a topic for each alternative, with some text in place of .* and .+."""
    for one in _alternatives(pattern):
        yield re.sub(r"\\(.)", r"\1", re.sub(r"\.[*+]", SAMPLE, one))
