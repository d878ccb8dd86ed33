"""Nodes of a consumer group in ZooKeeper: paths and member names, the same in every generation.

    /consumers/G/ids/C          a member and its subscription (ephemeral); its text depends on the generation
    /consumers/G/owners/T/P     the thread that reads the partition (ephemeral, plain text)
    /consumers/G/offsets/T/P    the next offset to read (persistent, decimal text)

P is the partition's name: a number, or `B-P` in 0.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkawire.errors import RegistrationError
from kafkawire.model import TopicPartition
from kafkawire.znodes.text import is_int

CONSUMERS = "/consumers"
MAX_STREAMS = 10_000  # of a member for one topic; its process has a thread per stream, and so never has more

STATIC, WHITE_LIST, BLACK_LIST = "static", "white_list", "black_list"


@dataclass(frozen=True, slots=True)
class Registration:
    """Subscription of a member.

    pattern is static, white_list or black_list; subscription is streams by topic (static), or one regular expression
    with its streams.  A member without subscription is static with no topics.
    """

    pattern: str
    subscription: Mapping[str, int]


def check_streams(name: str, count: object) -> None:
    """Raise RegistrationError unless the count is a number of streams, from 1 to MAX_STREAMS."""
    if not is_int(count) or not 1 <= count < 2**31:
        raise RegistrationError(f"registration: {repr(count)[:40]} streams for {name[:255]!r}")
    if count > MAX_STREAMS:
        raise RegistrationError(
            f"registration: {count} streams for {name[:255]!r}, more than the limit of {MAX_STREAMS}"
        )


def ids(group: str) -> str:
    """Return the folder of the members' id nodes."""
    return f"{CONSUMERS}/{group}/ids"


def member(group: str, consumer_id: str) -> str:
    return f"{CONSUMERS}/{group}/ids/{consumer_id}"


def owners(group: str, topic: str) -> str:
    """Return the folder of a topic's owner nodes."""
    return f"{CONSUMERS}/{group}/owners/{topic}"


def owner(group: str, tp: TopicPartition) -> str:
    return f"{CONSUMERS}/{group}/owners/{tp.topic}/{tp.partition}"


def offsets(group: str, topic: str) -> str:
    """Return the folder of a topic's offset nodes."""
    return f"{CONSUMERS}/{group}/offsets/{topic}"


def offset(group: str, tp: TopicPartition) -> str:
    return f"{CONSUMERS}/{group}/offsets/{tp.topic}/{tp.partition}"


def consumer_id(group: str, host: str, epoch_ms: int, random: int) -> str:
    """Return a new member's id as the JVM makes it, `g1_host7-1394154511599-60744496`; only the low 32 bits of random
    are used."""
    return f"{group}_{host}-{epoch_ms}-{random & 0xFFFFFFFF:08x}"


def named_consumer_id(group: str, name: str) -> str:
    """Return the id of a member whose `consumer.id` is set."""
    return f"{group}_{name}"


def thread_ids(consumer: str, count: int) -> list[str]:
    """Return the names of a member's `count` streams: the units of assignment, and the content of owner nodes."""
    return [f"{consumer}-{n}" for n in range(count)]
