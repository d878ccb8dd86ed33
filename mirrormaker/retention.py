"""Old messages and the target: how long its topics keep them, and how long its brokers remember who sent them.  Pure.

From 0.10 on a broker counts retention by the timestamps of messages and not by when they came: the largest one of a
segment, and the time of the file only where no message has any.  What a mirror copies from before that time is
acknowledged, and deleted at the next check.  By the same timestamps brokers forget producers (0.11 and later), so that
a numbered batch of old messages may be stored twice.
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
NUMBERED_FROM, SHORTER_FROM = (0, 11), (3, 4)  # producers are remembered, and only for a day
NAMED = 5  # topics in a sentence
WITHOUT_TIMES = (
    "its messages have no timestamps, so the target's brokers may forget at once who sent them: a batch whose response "
    "is lost may be stored twice, though batches are numbered; delivery.guarantee: exactly-once rules that out"
)

Offsets = Mapping[TopicPartition, int | None]  # None: the log has none for that time


@dataclass(frozen=True, slots=True)
class Kept:
    """How long a topic keeps messages.  ms: FOR_EVER, or None: it is not known.  whose: who sets it.

    by_arrival: brokers give messages the time at which they come, and count from that.
    """

    ms: int | None
    whose: str = ""
    by_arrival: bool = False

    @property
    def age_ms(self) -> int | None:
        """The age from which on a copied message is deleted; None: it is not, or that is not known."""
        return None if self.by_arrival or self.ms is None or self.ms < 0 else self.ms

    def __str__(self) -> str:
        if self.ms is None:
            return "how long it keeps messages is not known"
        for_ms = "for ever" if self.ms < 0 else f"for {span(self.ms)}"
        return f"it keeps messages {for_ms} ({self.whose})"


@dataclass(frozen=True, slots=True)
class Old:
    """Messages of a topic: with a timestamp, and those of them that are older than asked for."""

    older: int
    timed: int


def kept_by(own: Mapping[str, str], defaults: Mapping[str, str]) -> Kept:
    """How long a topic keeps messages.  own: what it has set; defaults: what it has of its brokers, as far as known."""
    policy, kind = (own.get(name, defaults.get(name, "")) for name in (POLICY, TIME_TYPE))
    whose = ITS_OWN if RETENTION in own else OF_BROKERS
    if policy and "delete" not in policy:
        return Kept(FOR_EVER, f"{POLICY} {policy}")
    value = own.get(RETENTION, defaults.get(RETENTION, ""))
    ms = decimal_int(value, least=-MAX_INT64)
    return Kept(None) if ms is None else Kept(ms, f"{RETENTION} {value}, {whose}", kind == "LogAppendTime")


def topic_defaults(broker: Mapping[str, str]) -> dict[str, str]:
    """What a topic has of the settings of its brokers, by the names of topics; what they do not tell is left out."""
    names = {POLICY: "log.cleanup.policy", TIME_TYPE: "log.message.timestamp.type"}
    found = {name: broker[theirs] for name, theirs in names.items() if theirs in broker}
    units = {"log.retention.ms": 1, "log.retention.minutes": 60_000, "log.retention.hours": HOUR_MS}
    for name, unit_ms in units.items():  # the finest one that is set counts
        if (kept := decimal_int(broker.get(name, ""), least=-MAX_INT64)) is not None:
            found[RETENTION] = str(max(FOR_EVER, kept * unit_ms))
            break
    return found


def remembered_ms(broker: Mapping[str, str], release: tuple[int, ...]) -> int | None:
    """How long brokers of this release remember a producer, from its messages' timestamps on; None: they do not."""
    if release < NUMBERED_FROM:
        return None
    name = "producer.id.expiration.ms" if release >= SHORTER_FROM else "transactional.id.expiration.ms"
    ms = decimal_int(broker.get(name, ""))
    return ms if ms is not None else DAY_MS if release >= SHORTER_FROM else 7 * DAY_MS


def old_messages(first: Offsets, young: Offsets, end: Offsets) -> dict[str, Old]:
    """Count the messages of topics that are older than some age.

    first: the offset of the first message that has a timestamp; young: of the first one that is younger; end: the end
    of the log.  Partitions that one of them leaves out are left out, as are messages without a timestamp.  Offsets are
    counted, so what transactions and compaction left out counts, too.
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
    """The sentence about messages that the target deletes as soon as it has them; "": there are none."""
    if not old.older:
        return ""
    return (
        f"topic {topic}: {old.older} of {counted(old.timed, 'message')} are older than target topic {target} keeps any "
        f"({kept.whose}: {span(kept.ms or 0)}): the target acknowledges them, and deletes whole segments of them at "
        f"its next check; set {RETENTION} of that topic before the copy (where it is created: target.topic.configs)"
    )


def stored_twice(old: Mapping[str, Old], age_ms: int) -> Iterator[str]:
    """The sentence about messages that numbers do not keep from being stored twice, where there are any."""
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
    """A time in its largest whole unit: 7 d, 36 h, 90 s, 1500 ms."""
    for unit, size in (("d", DAY_MS), ("h", HOUR_MS), ("s", SECOND_MS)):
        if ms >= size and not ms % size:
            return f"{ms // size} {unit}"
    return f"{ms} ms"
