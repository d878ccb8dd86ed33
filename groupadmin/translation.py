"""Translation of a group's offsets in a source cluster to safe offsets in the target, by an offset map.  Pure.

For a source partition with committed offset p, and a target partition that it feeds:

    from     the largest low of the entries at or before p: every message from p on is there or later
    until    the smallest high of the entries at or after p that are not older: messages read before p are before it

The target partition gets the smallest `from` of all source partitions that feed it; at most the messages between there
and the largest `until` are read twice.  When nothing is left to read of a source partition (the group is at the end of
its log), later messages are sent after now, so they come after the end that the target partition had before.

The end of a source's log is where its leader's own log ends, and never before what the map says was copied: up to 2.1
a leader that was just elected tells consumers an end that is too low, and who is there has not read everything.

A target partition that no mapped source partition feeds gets the start of its log: without a committed offset the group
would start by its `auto.offset.reset`, and `largest` skips what was written since.

Refused, with the reason: an offset after the end of the map, or before its start; a source partition without an offset;
a target partition whose log is shorter than in the map.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from groupadmin.plan.resets import Bounds, Problem
from groupadmin.snapshot.model import in_order
from kafkawire.model import TopicPartition
from zkconsumer.offsetmap.records import Entry, OffsetMap, Period


@dataclass(frozen=True, slots=True)
class Safe:
    """Safe offset of a group in a target partition.

    repeats   maximum number of messages that are read twice
    apart     how many of them because source partitions that feed this one were not read equally far
    mapped    False: the map has no entry for it, and the offset is the start of its log
    """

    position: int
    repeats: int
    apart: int = 0
    mapped: bool = True

    @property
    def note(self) -> str:
        """Return a note for the operator; often empty."""
        if not self.mapped:
            return (
                f"the offset map has nothing for it, so the group starts at the beginning of its log, {self.position}"
            )
        if not self.apart:
            return ""
        return f"up to {self.apart} of them, as source partitions that feed it were not read equally far"


@dataclass(frozen=True, slots=True)
class Facts:
    """Input beside the map, in the order in which it must be read.

    target   log bounds in the target cluster
    source   log bounds in the source cluster (as its leaders have it, replicated or not), read after the target's; an
             absent partition is unknown
    read     the group's offsets in the source cluster
    """

    target: Mapping[TopicPartition, Bounds]
    source: Mapping[TopicPartition, Bounds]
    read: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Span:
    """Range in a target partition for one source partition."""

    begin: int
    until: int


class _Refused(Exception):
    """Raised when a partition has no safe offset; the text is the reason."""


def translated(
    offsets: OffsetMap, facts: Facts, topics: Mapping[str, Collection[TopicPartition]]
) -> dict[TopicPartition, Safe | Problem]:
    """Return the safe offset, or problem, of each partition of the target topics that the group's source partitions
    feed, sorted.

    topics: partitions of each topic of the target cluster.
    """
    asked = {tp.topic for tp in facts.read}
    feeds = feeding(offsets, asked, topics)
    unmapped = _unmapped(offsets, facts, asked)
    found: dict[TopicPartition, Safe | Problem] = {}
    fed = {target.topic for target in feeds} - unmapped.keys()
    for target in {*feeds, *(tp for topic in fed for tp in topics.get(topic, ()))}:
        if target.topic in unmapped:
            continue
        try:
            found[target] = _safe(offsets, facts, target, feeds.get(target, ()))
        except _Refused as why:
            found[target] = Problem(f"{target}: {why}")
    for topic, sentence in unmapped.items():
        there = {*topics.get(topic, ()), *(target for target in feeds if target.topic == topic)}
        found |= {target: Problem(f"{target}: {sentence}") for target in there}
    return dict(sorted(found.items(), key=lambda row: in_order(row[0])))


def feeding(
    offsets: OffsetMap, asked: Collection[str], topics: Mapping[str, Collection[TopicPartition]]
) -> dict[TopicPartition, list[TopicPartition]]:
    """Return, in order, the partitions of some source topics that may feed each target partition: those that did, and
    with keys those that could.  topics: partitions of each topic of the target cluster."""
    found: dict[TopicPartition, list[TopicPartition]] = {}
    for source in sorted((source for source in offsets.periods if source.topic in asked), key=in_order):
        periods = offsets.periods[source]
        sent = {target for period in periods for target in period.entries}
        routes = [period.begun.keeps for period in periods if period.begun.keeps is not None]
        today = periods[-1].begun.target or source.topic  # its name in the target
        names = {target.topic for target in sent} or {today}
        every = {target for name in names for target in topics.get(name, ())}
        to_one = bool(routes and routes[-1])
        same = {TopicPartition(today, source.partition)}
        may = sent or (same & every) or every if to_one else sent | every
        says = any(
            period.begun.target for period in periods
        )  # maps of earlier releases do not say what a topic is called
        if says and today not in names:  # renamed, and nothing was sent since
            new = set(topics.get(today, ()))
            may = may | ((same & new) or new if to_one else new)
        for target in may:
            found.setdefault(target, []).append(source)
    return found


def _unmapped(offsets: OffsetMap, facts: Facts, asked: Iterable[str]) -> dict[str, str]:
    """Return the target topics of source partitions that are not in the map: their messages may be in any partition."""
    found: dict[str, str] = {}
    for topic in sorted(asked):
        for tp in sorted((tp for tp in facts.read if tp.topic == topic), key=in_order):
            if tp not in offsets.periods and not _empty(facts, tp):
                sentence = (
                    f"source partition {tp} is not in the map; was it mirrored by another daemon (give its map, too), "
                    "or before the map was kept?"
                )
                found |= dict.fromkeys(offsets.names(topic) or {topic}, sentence)
                break
    return found


def _empty(facts: Facts, tp: TopicPartition, periods: Sequence[Period] = ()) -> bool:
    """True if the log is empty, as far as the source has answered."""
    bounds = facts.source.get(tp)
    return bounds is not None and bounds[0] == _end(bounds, periods)


def _end(bounds: Bounds, periods: Sequence[Period]) -> int:
    """Return the end of a source's log: no lower than what was copied of it."""
    return max([bounds[1], *(period.reached for period in periods)])


def _safe(offsets: OffsetMap, facts: Facts, target: TopicPartition, sources: Sequence[TopicPartition]) -> Safe:
    """Return the safe offset of one target partition.  Raises _Refused."""
    bounds = facts.target.get(target)
    if bounds is None:
        raise _Refused("where its log begins and ends is not known, no leader answered; try again when it has one")
    spans = []
    for source in sources:
        if source in facts.read:
            spans.append(_span(offsets.periods[source], facts, source, target=target, end=bounds[1]))
        elif not _empty(facts, source, offsets.periods[source]):
            raise _Refused(
                f"the group has no position of source partition {source}, which feeds it; give it one on the source "
                f"cluster first (zkconsumer offsets reset --topic {source.topic}:{source.partition})"
            )
    if not spans:  # no source partition with messages, or with an offset, feeds it
        return Safe(bounds[0], bounds[1] - bounds[0], mapped=False)
    begin = min(span.begin for span in spans)
    if begin > bounds[1]:
        raise _Refused(
            f"the map has messages from {begin} on, and its log ends at {bounds[1]}: was the topic created "
            "again, or did the target lose messages?"
        )
    until = max(begin, *(span.until for span in spans))
    return Safe(begin, until - begin, max(span.begin for span in spans) - begin)


def _span(
    periods: Sequence[Period], facts: Facts, source: TopicPartition, *, target: TopicPartition, end: int
) -> _Span:
    at = facts.read[source]
    log = facts.source.get(source)
    if log is not None and at > log[1]:
        raise _Refused(
            f"the group is at {at} of source partition {source}, and its log ends at {log[1]}: "
            "was the topic created again?"
        )
    end_of_source = None if log is None else _end(log, periods)
    period = _period_of(periods, source, at, end_of_source)
    all_read = end_of_source is not None and at >= end_of_source
    begin, number = _begin(periods, target, at)
    if begin is None:
        copied = end_of_source is not None and period.reached >= end_of_source
        if all_read or (copied and not any(target in each.entries for each in periods)):
            return _Span(end, end)  # all its messages were read, and later ones are sent after now
        raise _Refused(
            f"of source partition {source} the group has not read all, and where what it has not read lies in this one "
            "is not written down yet; try again when the mirror has copied it"
        )
    if all_read:
        return _Span(end, end)
    highs = [high for each in periods[number:] for high in _highs(each.entries.get(target, ()), at, begin)]
    return _Span(begin, min(highs, default=end))


def _highs(entries: Sequence[Entry], at: int, begin: int) -> Iterable[int]:
    """Yield the smallest known high of the entries at or after an offset, unless they are of an earlier place."""
    for entry in entries[bisect_left(entries, at, key=_position) :]:  # positions, lows and highs never fall
        if entry.low >= begin and entry.high is not None:
            yield entry.high
            return


def _position(entry: Entry) -> int:
    return entry.position


def _begin(periods: Sequence[Period], target: TopicPartition, at: int) -> tuple[int | None, int]:
    """Return the largest low that holds for the offset, and the newest ownership period with it, which repeated
    messages of earlier ones before that offset or from it on."""
    best, number = None, 0
    for n, period in enumerate(periods):
        entries = period.entries.get(target, ())
        before = bisect_right(entries, at, key=_position)
        if before and (best is None or entries[before - 1].low >= best):
            best, number = entries[before - 1].low, n
    return best, number


def _period_of(periods: Sequence[Period], source: TopicPartition, at: int, end: int | None) -> Period:
    """Return the newest ownership period that sent the messages before the offset.  Raises _Refused when the map ends
    before."""
    number = max((n for n, period in enumerate(periods) if period.begun.position <= at), default=None)
    if number is None:
        raise _Refused(
            f"the group is at {at} of source partition {source}, and the map begins at {periods[0].begun.position}: "
            "what was mirrored before is not in it"
        )
    period = periods[number]
    if at > period.reached and number == len(periods) - 1:
        log = "" if end is None else f" (its log ends at {end})"
        raise _Refused(
            f"the group is at {at} of source partition {source}{log}, and the map is written up to {period.reached}: "
            "let the mirror run until it has copied that, then try again"
        )
    return period
