"""Old messages and the target: how long its topics keep them, and how long its brokers remember their producer.  Pure.

Since 0.10 a broker applies retention to the timestamps of messages instead of their arrival: it uses the largest one of
a segment, and the file's time only if no message has a timestamp.  Messages older than the retention time are
acknowledged when they are copied, and deleted at the next check.  By the same timestamps brokers forget producers (0.11
and later), so that a numbered batch of old messages may be stored twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from groundwork.decimals import MAX_INT64, decimal_int
from groundwork.sentences import counted
from kafkawire.model import TopicPartition

RETENTION, POLICY, TIME_TYPE = "retention.ms", "cleanup.policy", "message.timestamp.type"
SECOND_MS, HOUR_MS, DAY_MS = 1000, 3_600_000, 86_400_000
FOR_EVER = -1
ITS_OWN, OF_BROKERS = "set for the topic", "its brokers' default"
NUMBERED_FROM, SHORTER_FROM = (0, 11), (3, 4)  # producers are remembered since 0.11, and only for a day since 3.4
NAMED = 5  # topics in a sentence
WITHOUT_TIMES = (
    "its messages have no timestamps, so the target's brokers may forget at once who sent them: a batch whose response "
    "is lost may be stored twice, though batches are numbered; delivery.guarantee: exactly-once rules that out"
)

Offsets = Mapping[TopicPartition, int | None]  # None: the log has no offset for that time


@dataclass(frozen=True, slots=True)
class Kept:
    """Retention time of a topic.  ms: FOR_EVER, or None if unknown.  whose: where the setting comes from.

    by_arrival: brokers stamp messages with their arrival time, and count from that.
    """

    ms: int | None
    whose: str = ""
    by_arrival: bool = False

    @property
    def age_ms(self) -> int | None:
        """Return the age at which a copied message is deleted, or None if it is never deleted or that is unknown."""
        return None if self.by_arrival or self.ms is None or self.ms < 0 else self.ms

    def __str__(self) -> str:
        if self.ms is None:
            return "how long it keeps messages is not known"
        for_ms = "for ever" if self.ms < 0 else f"for {span(self.ms)}"
        return f"it keeps messages {for_ms} ({self.whose})"


@dataclass(frozen=True, slots=True)
class Old:
    """Messages of a topic: how many have a timestamp, and how many of these are older than a limit."""

    older: int
    timed: int


def kept_by(own: Mapping[str, str], defaults: Mapping[str, str]) -> Kept:
    """Return how long a topic keeps messages.  own: the topic's settings; defaults: those of its brokers, as far as
    known."""
    policy, kind = (own.get(name, defaults.get(name, "")) for name in (POLICY, TIME_TYPE))
    whose = ITS_OWN if RETENTION in own else OF_BROKERS
    if policy and "delete" not in policy:
        return Kept(FOR_EVER, f"{POLICY} {policy}")
    value = own.get(RETENTION, defaults.get(RETENTION, ""))
    ms = decimal_int(value, least=-MAX_INT64)
    return Kept(None) if ms is None else Kept(ms, f"{RETENTION} {value}, {whose}", kind == "LogAppendTime")


def topic_defaults(broker: Mapping[str, str]) -> dict[str, str]:
    """Return the broker settings that apply to topics, by the topic's names; unknown ones are left out."""
    names = {POLICY: "log.cleanup.policy", TIME_TYPE: "log.message.timestamp.type"}
    found = {name: broker[theirs] for name, theirs in names.items() if theirs in broker}
    units = {"log.retention.ms": 1, "log.retention.minutes": 60_000, "log.retention.hours": HOUR_MS}
    for name, unit_ms in units.items():  # the finest unit that is set counts
        if (kept := decimal_int(broker.get(name, ""), least=-MAX_INT64)) is not None:
            found[RETENTION] = str(max(FOR_EVER, kept * unit_ms))
            break
    return found


def remembered_ms(broker: Mapping[str, str], release: tuple[int, ...]) -> int | None:
    """Return how long brokers of this release remember a producer after its messages' timestamps, or None if they do
    not."""
    if release < NUMBERED_FROM:
        return None
    name = "producer.id.expiration.ms" if release >= SHORTER_FROM else "transactional.id.expiration.ms"
    ms = decimal_int(broker.get(name, ""))
    return ms if ms is not None else DAY_MS if release >= SHORTER_FROM else 7 * DAY_MS


def old_messages(first: Offsets, young: Offsets, end: Offsets) -> dict[str, Old]:
    """Count the messages of topics that are older than some age.

    first: the offset of the first message with a timestamp; young: of the first one that is younger; end: the end of
    the log.  Partitions missing from one of them are left out, as are messages without a timestamp.  Offsets are
    counted, so messages removed by transactions and compaction count, too.
    """
    found: dict[str, Old] = {}
    for tp, begins in first.items():
        if begins is None or tp not in young or (ends := end.get(tp)) is None:
            continue
        at, counts = young[tp], found.get(tp.topic, Old(0, 0))
        older = max(0, (ends if at is None else at) - begins)
        found[tp.topic] = Old(counts.older + older, counts.timed + max(0, ends - begins))
    return found


def deleted_soon(topic: str, target: str, kept: Kept, old: Old) -> str:
    """Return the sentence about messages that the target deletes soon after the copy, or "" if there are none."""
    if not old.older:
        return ""
    return (
        f"topic {topic}: {old.older} of {counted(old.timed, 'message')} are older than target topic {target} keeps any "
        f"({kept.whose}: {span(kept.ms or 0)}): the target acknowledges them, and deletes whole segments of them at "
        f"its next check; set {RETENTION} of that topic before the copy (where it is created: target.topic.configs)"
    )


def stored_twice(old: Mapping[str, Old], age_ms: int) -> Iterator[str]:
    """Yield the sentence about messages that may be stored twice although batches are numbered, if there are any."""
    topics = {topic: one.older for topic, one in old.items() if one.older}
    if not topics:
        return
    shown = ", ".join(list(topics)[:NAMED]) + (f" and {len(topics) - NAMED} others" if len(topics) > NAMED else "")
    yield (
        f"{counted(sum(topics.values()), 'message')} of {shown} are older than the target's brokers remember a "
        f"producer ({span(age_ms)}): a batch of them whose response is lost may be stored twice, though batches are "
        "numbered; delivery.guarantee: exactly-once rules that out"
    )


def span(ms: int) -> str:
    """Return a time in its largest whole unit: 7 d, 36 h, 90 s, 1500 ms."""
    for unit, size in (("d", DAY_MS), ("h", HOUR_MS), ("s", SECOND_MS)):
        if ms >= size and not ms % size:
            return f"{ms // size} {unit}"
    return f"{ms} ms"
