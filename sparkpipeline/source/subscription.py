"""Subscription of a query: assign, subscribe or subscribePattern, as in Spark's kafka format.  Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from groundwork.java import PatternRefused
from groundwork.javamatch import TopicPattern
from groundwork.javaregex import to_python
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import error_info
from kafkawire.model import PartitionId, TopicPartition
from kafkawire.topicnames import INTERNAL_TOPICS
from sparkpipeline.errors import NoLeader, OptionRefused, UnknownPartition
from sparkpipeline.source.offsetbounds import in_order, parse_partitions

UNKNOWN_TOPIC = 3  # a broker's code


@dataclass(frozen=True, slots=True)
class Subscription:
    """One of the three; the others are empty."""

    assigned: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: TopicPattern | None = None

    @staticmethod
    def of(assign: str | None, subscribe: str | None, pattern: str | None) -> Subscription:
        """Return the subscription in the options.  Raises OptionRefused for none, several, or an empty one."""
        found = {"assign": assign, "subscribe": subscribe, "subscribePattern": pattern}
        named = {name: text for name, text in found.items() if text is not None}
        if len(named) != 1:
            what = f"not {' and '.join(named)} together" if named else "none is given, nor offsetRanges"
            raise OptionRefused(
                f"one of {', '.join(found)} says what is read: {what}", option=next(iter(named or found))
            )
        if assign is not None:
            return Subscription(assigned=_assigned(assign))
        if subscribe is not None:
            return Subscription(topics=_topics(subscribe))
        assert pattern is not None
        return Subscription(pattern=_pattern(pattern))

    def partitions(self, view: ClusterView) -> list[TopicPartition]:
        """Return its existing partitions, sorted.  Raises UnknownPartition if a named one does not exist."""
        if self.assigned:
            return _there(self.assigned, view)
        names = self.topics if self.pattern is None else self._matching(view)
        found = [TopicPartition(topic, partition) for topic in names for partition in _of(topic, view)]
        return in_order(found)

    def covers(self, tp: TopicPartition) -> bool:
        """True if it would be read if it existed."""
        if self.assigned:
            return tp in self.assigned
        return self._chooses(tp.topic) if self.pattern is not None else tp.topic in self.topics

    def _matching(self, view: ClusterView) -> list[str]:
        return [topic for topic, partitions in view.topics.items() if partitions and self._chooses(topic)]

    def _chooses(self, topic: str) -> bool:
        assert self.pattern is not None
        return topic not in INTERNAL_TOPICS and self.pattern.found_in(topic)

    def __str__(self) -> str:
        if self.assigned:
            return ", ".join(str(tp) for tp in self.assigned)
        return ", ".join(self.topics) if self.pattern is None else f"topics like {self.pattern.java}"


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    found = tuple(parse_partitions(text, "assign"))
    if not found:
        raise OptionRefused(f"has no partition: {text!r}", option="assign")
    return found


def _topics(text: str) -> tuple[str, ...]:
    names = dict.fromkeys(name for name in (part.strip() for part in text.split(",")) if name)
    if not names:
        raise OptionRefused(f"has no topic: {text!r}", option="subscribe")
    return tuple(names)


def _pattern(text: str) -> TopicPattern:
    if not text.strip():
        raise OptionRefused("is empty", option="subscribePattern")
    try:
        return to_python(text.strip())
    except PatternRefused as exc:
        raise OptionRefused(str(exc), option="subscribePattern") from None


def _there(wanted: Collection[TopicPartition], view: ClusterView) -> list[TopicPartition]:
    for tp in wanted:
        if tp.partition not in _of(tp.topic, view):
            raise UnknownPartition(
                f"topic {tp.topic} has {len(view.topics[tp.topic])} partitions", topic=tp.topic, partition=tp.partition
            )
    return in_order(wanted)


def _of(topic: str, view: ClusterView) -> Collection[PartitionId]:
    found = view.topics.get(topic)
    code = view.errors.get(topic)
    if not found and code is not None and code != UNKNOWN_TOPIC:
        raise NoLeader(f"the brokers say {error_info(code).name} of it: is it just being made or deleted?", topic=topic)
    if found is not None and not found:
        raise NoLeader("no broker that has it is registered now: are they down?", topic=topic)
    if not found:
        raise UnknownPartition("the cluster does not have the topic", topic=topic)
    return found
