"""Which route a topic takes, and why: the sentence `topics --explain` prints.  Pure.

    choose(facts)       pass-through or re-encode, with the partition kept or chosen by key

What the routes do to a fetched set is producer.steps: its names are here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from producer.steps import HandlerFailed as HandlerFailed
from producer.steps import Output as Output
from producer.steps import Step as Step
from producer.steps import pass_through as pass_through
from producer.steps import reencode as reencode


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """All that decides about a topic's route."""

    topic: str
    source_partitions: int
    target_partitions: int
    partitioning: str = "auto"  # auto | identity | key
    handler: str = ""  # message.handler as configured; "": none
    codec: str = ""  # compression.codec asked for at the target; "": as the source has it
    same_generation: bool = True  # 0.7 and 0.8+ are two: their entries do not mix


class Choice(NamedTuple):
    route: str  # "pass-through" | "re-encode"
    partitioning: str  # "identity" | "key"
    reason: str

    def __str__(self) -> str:
        return f"{self.route}: {self.reason}"


def choose(facts: RouteFacts) -> Choice:
    """The route a topic takes, and why, in words for an operator."""
    kept = facts.partitioning != "key" and (
        facts.partitioning == "identity" or facts.target_partitions >= facts.source_partitions
    )
    partitioning = "identity" if kept else "key"
    if facts.handler:
        return Choice("re-encode", partitioning, f"message.handler {facts.handler} sees every message")
    if not facts.same_generation:
        return Choice("re-encode", partitioning, "source and target do not share a message format")
    if facts.codec:
        return Choice("re-encode", partitioning, f"compression.codec {facts.codec} is asked for")
    if kept:
        return Choice("pass-through", partitioning, "same format, partition kept")
    if facts.partitioning == "key":
        return Choice("re-encode", partitioning, "partitioning key is asked for")
    counts = f"the target has {facts.target_partitions} partitions, the source {facts.source_partitions}"
    return Choice("re-encode", partitioning, f"partition chosen by key, as {counts}")
