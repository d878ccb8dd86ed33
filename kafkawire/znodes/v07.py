"""ZooKeeper nodes of Kafka 0.7: paths and content.  Handles text only, without a ZooKeeper client.

    /brokers/ids/B          a broker: creatorId:host:port (ephemeral)
    /brokers/topics/T       nothing; its children are the brokers that have a log of the topic
    /brokers/topics/T/B     number of partitions of T on broker B, decimal (ephemeral)
    /consumers/...          as in every generation (kafkawire.znodes.group); an id node holds

        { "t1": 4,"t2": 1 }     streams by topic
        *4*white.*              white list: streams, regular expression
        !2!_.*                  black list

Content that cannot be parsed is a NodeError.  Texts are written as the original writes them.
"""

from __future__ import annotations

from typing import Literal

from groundwork.decimals import decimal_int
from kafkawire.errors import NodeError as NodeError
from kafkawire.errors import OtherGeneration
from kafkawire.errors import RegistrationError as RegistrationError
from kafkawire.model import Broker, BrokerPartition, broker_named
from kafkawire.znodes.group import BLACK_LIST as BLACK_LIST
from kafkawire.znodes.group import CONSUMERS as CONSUMERS
from kafkawire.znodes.group import MAX_STREAMS as MAX_STREAMS
from kafkawire.znodes.group import STATIC as STATIC
from kafkawire.znodes.group import WHITE_LIST as WHITE_LIST
from kafkawire.znodes.group import Registration as Registration
from kafkawire.znodes.group import check_streams as check_streams
from kafkawire.znodes.group import consumer_id as consumer_id
from kafkawire.znodes.group import ids as ids
from kafkawire.znodes.group import member as member
from kafkawire.znodes.group import named_consumer_id as named_consumer_id
from kafkawire.znodes.group import offset as offset
from kafkawire.znodes.group import offsets as offsets
from kafkawire.znodes.group import owner as owner
from kafkawire.znodes.group import owners as owners
from kafkawire.znodes.group import thread_ids as thread_ids
from kafkawire.znodes.text import broker_text, host_and_port, json_object, text_of

PARTITIONS_BY_BROKER: Literal[True] = True  # a topic's partitions are counted by its brokers, not listed by the topic
BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
MARKERS = {WHITE_LIST: "*", BLACK_LIST: "!"}

MAX_COUNT = 10_000  # maximum partitions of a topic on one broker; each becomes an object when the node is read


# Paths ---------------------------------------------------------------------------------------------------------------


def broker_path(broker_id: int) -> str:
    return f"{BROKERS}/{broker_id}"


def topic_path(topic: str) -> str:
    """Return the folder of a topic's brokers."""
    return f"{TOPICS}/{topic}"


def count_path(topic: str, broker_id: int) -> str:
    """Return the path of the node with a broker's number of partitions of the topic."""
    return f"{TOPICS}/{topic}/{broker_id}"


_NEWER = "is this a cluster of 0.8 or later? Then name its release."  # the option that names it has several names

# Brokers, partitions -------------------------------------------------------------------------------------------------


def broker(broker_id: int, text: str | bytes) -> Broker:
    """Return a live broker's address.  Raises NodeError; an IPv6 host cannot be separated from the colons."""
    where = f"broker {broker_id}"
    said = broker_text(text, where)
    if said.startswith("{"):
        raise OtherGeneration(f"{where}: its node holds {said[:30]!r}..", _NEWER)
    parts = said.split(":")
    address = host_and_port(*parts[1:]) if len(parts) == 3 else None
    if address is None:
        raise NodeError(f"{where}: {said[:60]!r} in its node is not creatorId:host:port, as 0.7 writes it")
    return Broker(broker_id, *address)


def broker_id(name: str, where: str = "topic") -> int:
    """Return the broker of a child of a topic's node.  Raises NodeError: 0.8 and later have "partitions" there."""
    found = broker_named(name)
    if found is None:
        raise OtherGeneration(f"{where}: {name[:60]!r} under its node is not a broker id", _NEWER)
    return found


def count(text: str | bytes, where: str = "topic") -> int:
    """Return a broker's number of partitions, up to MAX_COUNT. Raises NodeError."""
    said = text_of(text, where).strip()
    found = decimal_int(said)
    if found is None:
        raise NodeError(f"{where}: {said[:60]!r} in its node is not a number of partitions")
    if found > MAX_COUNT:
        raise NodeError(f"{where}: {found} partitions in its node, more than the limit of {MAX_COUNT}")
    return found


def partitions(broker_id: int, count: int) -> list[BrokerPartition]:
    """Return the partition ids of a broker with `count` partitions."""
    return [BrokerPartition(broker_id, index) for index in range(count)]


# Members -------------------------------------------------------------------------------------------------------------


def registration_text(registration: Registration, timestamp_ms: int = 0) -> str:
    """Return the id node as 0.7.2's consumer writes it: equal byte for byte for up to four topics, and for filters.

    It has no timestamp.  (0.7.0 knows only streams by topic: a filter in the group stops its members.)
    """
    entries = list(registration.subscription.items())
    if registration.pattern in MARKERS:
        marker, (regex, streams) = MARKERS[registration.pattern], entries[0]
        return f"{marker}{streams}{marker}{regex}"
    return "{ " + ",".join(f'"{topic}": {streams}' for topic, streams in entries) + " }"


def registration(text: str | bytes) -> Registration:
    """Return a member's subscription, read as the original reads it.  Raises RegistrationError if the original fails
    too (no text yet, no number, a count below 1): the caller retries, because the node may be incomplete."""
    try:
        said = text_of(text, "registration")
        found = _filter(said) if said[:1] in MARKERS.values() else _static(said)
    except RegistrationError:
        raise
    except NodeError as e:
        raise RegistrationError(str(e)) from None
    for name, streams in found.subscription.items():
        check_streams(name, streams)
    return found


def _filter(said: str) -> Registration:
    number, marker, regex = said[1:].partition(said[0])
    streams = decimal_int(number)
    if streams is None or not marker or "\n" in regex:
        raise RegistrationError(
            f"registration: {said[:60]!r} is not a filter: expected a number between two {said[0]!r}"
        )
    pattern = WHITE_LIST if marker == MARKERS[WHITE_LIST] else BLACK_LIST
    return Registration(pattern, {regex: streams})


def _static(said: str) -> Registration:
    return Registration(STATIC, json_object(said, "registration"))
