"""ZooKeeper nodes of Kafka 0.8 (to 0.10): paths and content.  Handles text only, without a ZooKeeper client.

    /brokers/ids/B                          a broker: JSON, versions 1 to 4
    /brokers/topics/T                       its replicas: {"version":1,"partitions":{"0":[1,2]}}
    /brokers/topics/T/partitions/P/state    its leader and in-sync replicas
    /controller                             the controller's broker id
    /consumers/G/ids/C                      a member and its subscription (ephemeral)
    /consumers/G/owners/T/P                 the thread that reads the partition (ephemeral, plain text)
    /consumers/G/offsets/T/P                the next offset to read (persistent, decimal text)

Readers accept the texts of all releases: 0.8.0's hand-made JSON with blanks and its own order of fields, maps in hash
order, and the regular expressions that 0.8.0 and 0.8.1 did not escape.  Content that cannot be parsed is a NodeError.
Texts are written as the JVM writes them.  Data may be text or the bytes that a ZooKeeper client returns.  The group's
paths and names are the same in every generation (kafkawire.znodes.group).
"""

from __future__ import annotations

import sys
from typing import Literal

from groundwork.decimals import MAX_INT32, decimal_int
from groundwork.pauses import Pace
from kafkawire.errors import NodeError as NodeError
from kafkawire.errors import NoListener, OtherGeneration
from kafkawire.errors import RegistrationError as RegistrationError
from kafkawire.model import Broker
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
from kafkawire.znodes.text import (
    MAX_HOST,
    PAUSE_PARTITIONS,
    broker_text,
    document,
    host_and_port,
    is_int,
    json_object,
    of_counting_broker,
)

PARTITIONS_BY_BROKER: Literal[False] = False  # a topic lists its own partitions
BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"

# Paths ---------------------------------------------------------------------------------------------------------------


def broker_path(broker_id: int) -> str:
    return f"{BROKERS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


_OLDER = "is this a cluster of 0.7? Then name that release."  # the option that names it has several names

# Brokers, topics, partitions -----------------------------------------------------------------------------------------


PLAINTEXT = "PLAINTEXT"
MAX_ENDPOINT = 2 * MAX_HOST  # maximum characters of a listener's name with an address
_SHOWN = 20  # endpoints in an error


def broker(broker_id: int, text: str | bytes, protocol: str = PLAINTEXT) -> Broker:
    """Return a live broker's address, of its first listener with this security protocol.

    Raises NoListener if there is none, NodeError for a node without any address.
    """
    where = f"broker {broker_id}"
    said = broker_text(text, where)
    if of_counting_broker(said):
        raise OtherGeneration(f"{where}: its node holds creatorId:host:port", _OLDER)
    node = json_object(said, where)
    host, port = node.get("host"), node.get("port")
    plain = host_and_port(host, port) if isinstance(host, str) and is_int(port) else None
    if protocol == PLAINTEXT and plain is not None:
        return Broker(broker_id, *plain)  # the plain listener, whatever its name
    listed = node.get("endpoints")
    endpoints = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    protocols = node.get("listener_security_protocol_map")  # since 0.10.2; before, names are protocols
    named = protocols if isinstance(protocols, dict) else {}
    for endpoint in endpoints:
        listener, address = _endpoint(endpoint)
        if address is not None and named.get(listener, listener) == protocol:
            return Broker(broker_id, *address)
    shown = tuple(one[:MAX_ENDPOINT] for one in endpoints[:_SHOWN])
    why = (
        f"{where} has no {protocol} address: host {str(host)[:MAX_HOST]!r}, port {str(port)[:10]}, endpoints {[*shown]}"
    )
    if shown:
        raise NoListener(why, shown)
    if protocol != PLAINTEXT and isinstance(host, str) and host:
        raise NoListener(why, (f"{PLAINTEXT}://{host[:MAX_HOST]}:{str(port)[:10]}",))  # 0.8 has only this one
    raise NodeError(why)


def _endpoint(text: str) -> tuple[str, tuple[str, int] | None]:
    """Return the listener's name of NAME://host:port, and its address; None if that is invalid.

    It is split from its ends: a regular expression took seconds for 48 KB of "a://://...", and the lease expired.
    """
    listener, slashes, rest = text.partition("://")
    host, colon, port = rest.rpartition(":")
    sensible = listener and slashes and colon and len(text) <= MAX_ENDPOINT
    return listener, host_and_port(host.removeprefix("[").removesuffix("]"), port) if sensible else None


class OfListener:
    """This module, with brokers' addresses for another security protocol (Dialect.through)."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol

    def broker(self, broker_id: int, text: str | bytes) -> Broker:
        """Return a live broker's address, of its listener with this protocol."""
        return broker(broker_id, text, self.protocol)

    def __getattr__(self, name: str) -> object:
        return getattr(sys.modules[__name__], name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfListener) and other.protocol == self.protocol

    def __hash__(self) -> int:
        return hash(self.protocol)


def topic(text: str | bytes, where: str = "topic") -> dict[int, list[int]]:
    """Return replicas (broker ids, the preferred leader first) by partition, in order of partitions; there may be
    gaps."""
    if not text.strip():
        raise OtherGeneration(f"{where}: its node is empty", _OLDER)
    partitions = json_object(text, where).get("partitions")
    if not isinstance(partitions, dict):
        raise NodeError(f"{where}: no 'partitions' in its node")
    pace = Pace(PAUSE_PARTITIONS)
    found: dict[int, list[int]] = {}
    for partition, replicas in partitions.items():
        pace.reached(len(found))
        found[_number(partition, where)] = _broker_ids(replicas, where)
    return dict(sorted(found.items()))


def state(text: str | bytes, where: str = "partition") -> tuple[int | None, list[int]]:
    """Return a partition's leader (None: none now) and its in-sync replicas."""
    node = json_object(text, where)
    leader = node.get("leader")
    if not is_int(leader) or leader > MAX_INT32:
        raise NodeError(f"{where}: leader {str(leader)[:60]!r} in its state node is not a broker id")
    return (leader if leader >= 0 else None), _broker_ids(node.get("isr", []), where)


def controller(text: str | bytes) -> int:
    """Return the controller's broker id; very old releases wrote the bare number."""
    node = document(text, "controller")
    found = node.get("brokerid") if isinstance(node, dict) else node
    if not is_int(found):
        raise NodeError(f"controller: {str(found)[:60]!r} is not a broker id")
    return found


# Members -------------------------------------------------------------------------------------------------------------


def registration_text(registration: Registration, timestamp_ms: int) -> str:
    """Return the id node as 0.8.2's consumer writes it: equal byte for byte for up to four topics, and for filters.

    The timestamp must be a string: the JVM's reader converts every bare number to 32 bits, and one that does not fit
    stops the whole group.  A regular expression is escaped as Utils.JSONEscapeString of 0.8.2 does; topics need none.
    """
    escape = str if registration.pattern == STATIC else _escape
    entries = ",".join(f'"{escape(name)}":{count}' for name, count in registration.subscription.items())
    return (
        f'{{"version":1,"subscription":{{{entries}}},"pattern":"{registration.pattern}","timestamp":"{timestamp_ms}"}}'
    )


def registration(text: str | bytes) -> Registration:
    """Return a member's subscription, read as the JVM reads it.

    version and timestamp are ignored, only the first entry of a filter is used, and a pattern that is neither list is
    static.  Raises RegistrationError if the JVM fails too (no text yet, pattern or subscription missing, a count below
    1): the caller retries, because the node may be incomplete.
    """
    try:
        node = json_object(text, "registration")
    except NodeError as e:
        raise RegistrationError(str(e)) from None
    pattern, subscription = node.get("pattern"), node.get("subscription")
    if not isinstance(pattern, str) or not isinstance(subscription, dict):
        missing = "pattern" if not isinstance(pattern, str) else "subscription"
        raise RegistrationError(f"registration: no '{missing}' in it")
    for name, count in subscription.items():
        check_streams(name, count)
    if not subscription or pattern not in (WHITE_LIST, BLACK_LIST):
        return Registration(STATIC, subscription)
    return Registration(pattern, dict([next(iter(subscription.items()))]))


_ESCAPES = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(text: str) -> str:
    """Escape text as Utils.JSONEscapeString of 0.8.2, which also escapes the slash and both ranges of control
    characters."""
    return "".join(
        _ESCAPES.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F else c) for c in text
    )


def _number(text: str, where: str) -> int:
    found = decimal_int(text, most=MAX_INT32)
    if found is None or str(found) != text:  # "01" would name partition 1 a second time
        raise NodeError(f"{where}: {text[:60]!r} is not a partition")
    return found


def _broker_ids(value: object, where: str) -> list[int]:
    if not isinstance(value, list) or not all(is_int(one) and abs(one) <= MAX_INT32 for one in value):
        raise NodeError(f"{where}: {str(value)[:60]} is not a list of broker ids")
    return value
