"""Which route a topic takes, and why: the sentence `topics --explain` prints.  Pure.

    choose(facts)       pass-through or re-encode, with the partition kept, chosen by key, or by the source partition

What the routes do to a fetched set is producer.conversion: its names are here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kafkawire.dialects import Dialect
from mirrormaker.partitioning import Numbering
from producer.conversion import MessageHandlerFailed
from producer.conversion import Output as Output
from producer.conversion import Step as Step
from producer.conversion import pass_through as pass_through
from producer.conversion import reencode as reencode

HandlerFailed = MessageHandlerFailed


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """All that decides about a topic's route."""

    topic: str
    source_partitions: int
    target_partitions: int
    partitioning: str = "auto"  # auto | identity | key
    handler: str = ""  # message.handler as configured; "": none
    codec: str = ""  # compression.codec asked for at the target; "": as the source has it
    shared_format: bool = True  # the target stores a format of the source: 0.7 and 0.8+ share none
    by_broker: bool = False  # source partitions belong to brokers and have no number (0.7)
    numbering: str = ""  # broker.partitions, which gives them one


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and the target, as far as they decide about routes."""

    source: Dialect
    target: Dialect
    numbering: Numbering

    def facts(
        self, topic: str, here: int, there: int, partitioning: str, handler: str = "", codec: str = ""
    ) -> RouteFacts:
        """Of a topic with so many partitions at the source, and at the target."""
        return RouteFacts(
            topic,
            here,
            there,
            partitioning,
            handler,
            codec,
            shared_format=not self.source.formats.isdisjoint(self.target.formats),
            by_broker=self.source.partitions_by_broker,
            numbering=str(self.numbering),
        )


class Choice(NamedTuple):
    route: str  # "pass-through" | "re-encode"
    partitioning: str  # "identity" | "key" | "source"
    reason: str

    def __str__(self) -> str:
        return f"{self.route}: {self.reason}"


def choose(facts: RouteFacts) -> Choice:
    """The route a topic takes, and why, in words for an operator."""
    partitioning = _partitioning(facts)
    where = _where(facts, partitioning)
    if facts.handler:
        return Choice("re-encode", partitioning, f"message.handler {facts.handler} sees every message{where}")
    if not facts.shared_format:
        return Choice("re-encode", partitioning, f"source and target do not share a message format{where}")
    if facts.codec:
        return Choice("re-encode", partitioning, f"compression.codec {facts.codec} is asked for{where}")
    if partitioning == "identity":
        return Choice("pass-through", partitioning, "same format, partition kept")
    if partitioning == "source":
        return Choice("pass-through", partitioning, f"same format{where}")
    if facts.partitioning == "key":
        return Choice("re-encode", partitioning, f"partitioning key is asked for{where}")
    counts = f"the target has {facts.target_partitions} partitions, the source {facts.source_partitions}"
    return Choice("re-encode", partitioning, f"partition chosen by key, as {counts}")


def _partitioning(facts: RouteFacts) -> str:
    if facts.partitioning == "key":
        return "key"
    if facts.by_broker:
        return "identity" if facts.numbering else "source"
    enough = facts.partitioning == "identity" or facts.target_partitions >= facts.source_partitions
    return "identity" if enough else "key"


def _where(facts: RouteFacts, partitioning: str) -> str:
    """What has to be said of partitions that have no number of their own."""
    if not facts.by_broker:
        return ""
    if partitioning == "identity":
        return f"; partitions are numbered by broker.partitions {facts.numbering}"
    if partitioning == "key":
        return "; a key decides where message.handler makes one, else all of a source partition goes to one partition"
    return "; all of a source partition goes to one partition, which follows from its name"
