"""Differences between topics of the sources and of the target, for `mirrormaker diff`.  Pure.

Each comparison of one thing (the topic, its partitions, its replication, one setting, the offsets of one group) is a
row with one of these results:

    same            both clusters have it alike
    expected        they differ as the configuration says (NAME=VALUE of target.topic.configs,
                    target.replication.factor, broker.partitions), or as they must: the target has fewer brokers than
                    replicas, brokers of 0.7 decide their partitions
    unsupported     the brokers of one side do not have this setting
    only at target  a topic that the mirror would write and that no source has; offsets that the group has only there
    differs, missing
    unknown         a cluster did not tell it: never taken for "same"

A cluster tells the settings of a topic in one of two ways.  Brokers of 0.11 and later tell every setting in effect; the
values that hold are compared.  ZooKeeper has only what was set for the topic: a setting that is not set there differs
from one that is set on the other side, since the default of the brokers is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Result = Literal["same", "expected", "unsupported", "only at target", "differs", "missing", "unknown"]
DIFFERENCES: tuple[Result, ...] = ("differs", "missing")
QUIET: tuple[Result, ...] = ("same", "expected", "unsupported")  # printed only if everything is
COLUMNS = ("source", "topic", "target_topic", "what", "at_source", "at_target", "result")
TOPIC, PARTITIONS, REPLICATION, SETTINGS = "topic", "partitions", "replication", "settings"
NOT_SET, NO_SUCH = "not set", "no such setting"
NAMES_BROKERS = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
LISTS = frozenset({"cleanup.policy"})  # settings whose value is a list without an order

Offsets = dict[str, dict[str, frozenset[str] | None]]  # by group and topic: partitions with an offset; None: unknown


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a topic.  own: set for the topic.  defaults: all others in effect; None if the cluster does not tell
    them."""

    own: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] | None = None

    def value(self, name: str) -> str | None:
        """Return the value that holds; None if it is not set and its default is not known, or if it does not exist."""
        return self.own.get(name, (self.defaults or {}).get(name))

    def has(self, name: str) -> bool:
        """False if the brokers do not have this setting, as far as they tell."""
        return self.defaults is None or name in self.own or name in self.defaults

    def shown(self, name: str) -> str:
        """Return the value for a reader."""
        if name in self.own:
            return self.own[name]
        if self.defaults is None:
            return NOT_SET
        return f"{self.defaults[name]} (default)" if name in self.defaults else NO_SUCH


@dataclass(frozen=True, slots=True)
class Topic:
    """Topic as its cluster shows it.  partitions: their number.  replicas: of a partition; 0: its release has none.

    settings: None if this topic's are not known.
    """

    partitions: int
    replicas: int = 0
    settings: Settings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a target topic is to be like, where that is not what its source topic is like.

    partitions, replicas: as the mirror would create it; partitions None: the target's brokers decide.  fixed: settings
    with a value of their own.  settings: False if one of the clusters never tells settings.  defaults: also compare
    settings that neither topic sets.
    """

    partitions: int | None
    replicas: int
    fixed: Mapping[str, str] = field(default_factory=dict)
    settings: bool = True
    defaults: bool = False


class Row(NamedTuple):
    """Comparison of one thing.  at_source, at_target: None if there is none, or if it is not known (result unknown)."""

    source: str
    topic: str | None
    target_topic: str
    what: str
    at_source: int | str | None
    at_target: int | str | None
    result: Result

    @property
    def differs(self) -> bool:
        return self.result in DIFFERENCES


def topic_rows(
    source: str, topic: str, target_topic: str, here: Topic, there: Topic | None, wanted: Wanted
) -> Iterator[Row]:
    """Yield the rows of one source topic: partitions, replication, settings by name; one row if the target lacks it.

    source: name of the source.  here, there: the topic in the source, and its target topic; None: it does not exist.
    """

    def row(what: str, at_source: int | str | None, at_target: int | str | None, result: Result) -> Row:
        return Row(source, topic, target_topic, what, at_source, at_target, result)

    if there is None:
        yield row(TOPIC, "there", None, "missing")
        return
    yield row(PARTITIONS, here.partitions, there.partitions, _partitions(here, there, wanted))
    if here.replicas and there.replicas:
        yield row(REPLICATION, here.replicas, there.replicas, _count(here.replicas, there.replicas, wanted.replicas))
    if not wanted.settings:
        return
    if here.settings is None or there.settings is None:
        at_source, at_target = (None if one.settings is None else "known" for one in (here, there))
        yield row(SETTINGS, at_source, at_target, "unknown")
        return
    for name in sorted(_names(here.settings, there.settings, wanted)):
        result = _setting(name, here.settings, there.settings, wanted.fixed.get(name))
        yield row(name, here.settings.shown(name), there.settings.shown(name), result)


def group_rows(
    source: str, names: Mapping[str, str], partitions: Mapping[str, int], here: Offsets, there: Offsets
) -> Iterator[Row]:
    """Yield a row for each group and topic with a committed offset in one of the clusters: the number of partitions
    that have one.

    names: target topic by topic of the source.  partitions: of the target topics that exist.  here, there: offsets in
    the source and in the target.  The target needs an offset of as many partitions as the source has, or of all its
    own: merging and keys change which partitions these are.
    """
    nothing: frozenset[str] = frozenset()
    for group in sorted({*here, *there}):
        for topic, target_topic in names.items():
            ours = here.get(group, {}).get(topic, nothing)
            theirs = there.get(group, {}).get(target_topic, nothing)
            if ours == theirs == nothing:
                continue
            counts = (None if ours is None else len(ours), None if theirs is None else len(theirs))
            result = _offsets(*counts, partitions.get(target_topic, 0))
            yield Row(source, topic, target_topic, f"offsets of group {group}", *counts, result)


def _offsets(here: int | None, there: int | None, partitions: int) -> Result:
    if here is None or there is None:
        return "unknown"
    if not here:
        return "only at target"
    if not there:
        return "missing"
    return "same" if there == here else "expected" if there >= min(here, partitions) else "differs"


def unknown_topic(source: str, topic: str, target_topic: str) -> Row:
    """Return the row of a topic of which the target's brokers report an error in place of partitions."""
    return Row(source, topic, target_topic, TOPIC, "there", None, "unknown")


def only_at_target(target_topics: Iterable[str]) -> Iterator[Row]:
    """Yield a row for each of these target topics, which no source topic is written to."""
    for topic in sorted(target_topics):
        yield Row("", None, topic, TOPIC, None, "there", "only at target")


def summary(rows: Iterable[Row]) -> str:
    """Return the sentence that ends the output: how many topics were compared, and the rows by result."""
    found = list(rows)
    topics = len({(row.source, row.topic) for row in found if row.topic is not None})
    counts = Counter[str](row.result for row in found)
    order: tuple[Result, ...] = (
        *DIFFERENCES, "unknown", "only at target", "unsupported", "expected", "same",
    )  # fmt: skip
    listed = ", ".join(f"{counts[result]:,} {result}" for result in order if counts[result])
    return f"{topics:,} topic{'' if topics == 1 else 's'} compared: {listed or 'nothing to compare'}"


def _partitions(here: Topic, there: Topic, wanted: Wanted) -> Result:
    if wanted.partitions is None:
        return "same" if here.partitions == there.partitions else "expected"
    return _count(here.partitions, there.partitions, wanted.partitions)


def _count(here: int, there: int, wanted: int) -> Result:
    if there == wanted:
        return "same" if there == here else "expected"
    return "differs"


def _names(here: Settings, there: Settings, wanted: Wanted) -> set[str]:
    """Return the settings to compare."""
    names = {*here.own, *there.own, *wanted.fixed}
    if wanted.defaults and here.defaults is not None and there.defaults is not None:
        names |= {*here.defaults, *there.defaults}
    return names - NAMES_BROKERS


def _setting(name: str, here: Settings, there: Settings, fixed: str | None) -> Result:
    source, target = here.value(name), there.value(name)
    if fixed is not None:
        if not there.has(name):
            return "unsupported"
        if not _equal(name, target, fixed):
            return "differs"
        return "same" if _equal(name, source, fixed) else "expected"
    if not here.has(name) or not there.has(name):
        return "unsupported"
    return "same" if _equal(name, source, target) else "differs"


def _equal(name: str, one: str | None, other: str | None) -> bool:
    """True if two values are known and mean the same."""
    if one is None or other is None:
        return False
    return _normal(name, one) == _normal(name, other)


def _normal(name: str, value: str) -> object:
    return frozenset(part.strip() for part in value.split(",")) if name in LISTS else value.strip()
