"""The ZooKeeper nodes of Kafka 0.8 (to 0.10): where they are, what is in them.  Knows text; knows no ZooKeeper client.

    /brokers/ids/B                          a broker: JSON, versions 1 to 4
    /brokers/topics/T                       its replicas: {"version":1,"partitions":{"0":[1,2]}}
    /brokers/topics/T/partitions/P/state    its leader and in-sync replicas
    /controller                             the controller's broker id
    /consumers/G/ids/C                      a member and what it subscribes to (ephemeral)
    /consumers/G/owners/T/P                 the thread that reads the partition (ephemeral, plain text)
    /consumers/G/offsets/T/P                the next offset to read (persistent, decimal text)

Readers take what any release wrote: 0.8.0's hand-made JSON with blanks and its own order of fields, maps in hash order,
and the regular expressions that 0.8.0 and 0.8.1 did not escape.  What makes no sense is a NodeError.  Writers give what
the JVM gives.  Data is taken as text or as the bytes that a ZooKeeper client hands over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from kafkawire.errors import RemoteError
from kafkawire.model import Broker, TopicPartition

BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONSUMERS = "/consumers"

STATIC, WHITE_LIST, BLACK_LIST = "static", "white_list", "black_list"


class NodeError(RemoteError):
    """A node holds what no release of Kafka writes."""


class RegistrationError(NodeError):
    """A member's id node cannot be read as a subscription; the message says why."""


# Paths ---------------------------------------------------------------------------------------------------------------


def broker_path(broker_id: int) -> str:
    return f"{BROKERS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def state_path(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state"


def ids(group: str) -> str:
    """The folder of the members' id nodes."""
    return f"{CONSUMERS}/{group}/ids"


def member(group: str, consumer_id: str) -> str:
    return f"{CONSUMERS}/{group}/ids/{consumer_id}"


def owners(group: str, topic: str) -> str:
    """The folder of a topic's owner nodes."""
    return f"{CONSUMERS}/{group}/owners/{topic}"


def owner(group: str, tp: TopicPartition) -> str:
    return f"{CONSUMERS}/{group}/owners/{tp.topic}/{tp.partition}"


def offsets(group: str, topic: str) -> str:
    """The folder of a topic's offset nodes."""
    return f"{CONSUMERS}/{group}/offsets/{topic}"


def offset(group: str, tp: TopicPartition) -> str:
    return f"{CONSUMERS}/{group}/offsets/{tp.topic}/{tp.partition}"


# Names ---------------------------------------------------------------------------------------------------------------


def consumer_id(group: str, host: str, epoch_ms: int, random: int) -> str:
    """A fresh member's id as the JVM makes it, `g1_host7-1394154511599-60744496`; of random the low 32 bits count."""
    return f"{group}_{host}-{epoch_ms}-{random & 0xFFFFFFFF:08x}"


def named_consumer_id(group: str, name: str) -> str:
    """The id of a member whose `consumer.id` is set."""
    return f"{group}_{name}"


def thread_ids(consumer: str, count: int) -> list[str]:
    """What a member's count streams are called: the unit of assignment, and what an owner node holds."""
    return [f"{consumer}-{n}" for n in range(count)]


# Brokers, topics, partitions -----------------------------------------------------------------------------------------


def broker(broker_id: int, text: str | bytes) -> Broker:
    """A live broker's plain address.  Raises NodeError when it has none (only TLS or SASL listeners)."""
    where = f"broker {broker_id}"
    node = _object(text, where)
    host, port = node.get("host"), node.get("port")
    if isinstance(host, str) and host and _is_int(port) and 0 < port < 65536:
        return Broker(broker_id, host, port)
    endpoints = node.get("endpoints")
    for endpoint in endpoints if isinstance(endpoints, list) else []:
        found = re.fullmatch(r"PLAINTEXT://\[?(.+?)\]?:(\d{1,5})", str(endpoint))
        if found and 0 < int(found[2]) < 65536:
            return Broker(broker_id, found[1], int(found[2]))
    raise NodeError(f"{where} has no PLAINTEXT address: host {host!r}, port {port!r}, endpoints {endpoints!r}")


def topic(text: str | bytes, where: str = "topic") -> dict[int, list[int]]:
    """Replicas (broker ids, the preferred leader first) by partition, in order of partitions; there may be gaps."""
    partitions = _object(text, where).get("partitions")
    if not isinstance(partitions, dict):
        raise NodeError(f"{where}: no 'partitions' in its node")
    found = {_number(p, where): _broker_ids(replicas, where) for p, replicas in partitions.items()}
    return dict(sorted(found.items()))


def state(text: str | bytes, where: str = "partition") -> tuple[int | None, list[int]]:
    """A partition's leader (None: none now) and its in-sync replicas."""
    node = _object(text, where)
    leader = node.get("leader")
    if not _is_int(leader):
        raise NodeError(f"{where}: leader {leader!r} in its state node is not a broker id")
    return (leader if leader >= 0 else None), _broker_ids(node.get("isr", []), where)


def controller(text: str | bytes) -> int:
    """The controller's broker id; very old releases wrote the bare number."""
    document = _document(text, "controller")
    found = document.get("brokerid") if isinstance(document, dict) else document
    if not _is_int(found):
        raise NodeError(f"controller: {found!r} is not a broker id")
    return found


# Members -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Registration:
    """What a member subscribes to.

    pattern is static, white_list or black_list; subscription is streams by topic (static), or one regular expression
    with its streams.  A member that wants nothing is static with no topics.
    """

    pattern: str
    subscription: Mapping[str, int]


def registration_text(registration: Registration, timestamp_ms: int) -> str:
    """The id node as 0.8.2's consumer writes it: equal byte for byte for up to four topics, and for filters.

    The timestamp must be a string: the JVM's reader turns every bare number into 32 bits, and one that does not fit
    stops the whole group.  A regular expression is escaped as Utils.JSONEscapeString of 0.8.2 does; topics need none.
    """
    escape = str if registration.pattern == STATIC else _escape
    entries = ",".join(f'"{escape(name)}":{count}' for name, count in registration.subscription.items())
    return (
        f'{{"version":1,"subscription":{{{entries}}},"pattern":"{registration.pattern}","timestamp":"{timestamp_ms}"}}'
    )


def registration(text: str | bytes) -> Registration:
    """A member's subscription, read as the JVM reads it.

    version and timestamp are not looked at, of a filter only the first entry counts, and a pattern that is neither list
    is static.  Raises RegistrationError where the JVM fails too (no text yet, pattern or subscription missing, a count
    below 1): the caller tries again, the node may be half made.
    """
    try:
        node = _object(text, "registration")
    except NodeError as e:
        raise RegistrationError(str(e)) from None
    pattern, subscription = node.get("pattern"), node.get("subscription")
    if not isinstance(pattern, str) or not isinstance(subscription, dict):
        missing = "pattern" if not isinstance(pattern, str) else "subscription"
        raise RegistrationError(f"registration: no '{missing}' in it")
    for name, count in subscription.items():
        if not _is_int(count) or not 1 <= count < 2**31:
            raise RegistrationError(f"registration: {count!r} streams for {name!r}")
    if not subscription or pattern not in (WHITE_LIST, BLACK_LIST):
        return Registration(STATIC, subscription)
    return Registration(pattern, dict([next(iter(subscription.items()))]))


_ESCAPES = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(text: str) -> str:
    """Utils.JSONEscapeString of 0.8.2: also escapes the slash and both ranges of control characters."""
    return "".join(
        _ESCAPES.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F else c) for c in text
    )


# JSON as Kafka's brokers and consumers wrote it ----------------------------------------------------------------------

_BACKSLASH = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')


def _document(text: str | bytes, where: str) -> Any:
    """JSON, with the JVM lexer's leniency: a backslash that starts no known escape stands for itself, and control
    characters may stand in strings."""
    found = _text(text, where)
    if not found.strip():
        raise NodeError(f"{where}: its node is empty")
    mended = _BACKSLASH.sub(lambda m: m[0] if len(m[0]) > 1 else "\\\\", found)
    try:
        return json.loads(mended, strict=False)
    except (ValueError, RecursionError):
        raise NodeError(f"{where}: {found[:60]!r} is not JSON") from None


def _object(text: str | bytes, where: str) -> dict[str, Any]:
    document = _document(text, where)
    if not isinstance(document, dict):
        raise NodeError(f"{where}: its node is no JSON object")
    return document


def _text(data: str | bytes, where: str) -> str:
    try:
        return data if isinstance(data, str) else bytes(data).decode()
    except UnicodeDecodeError:
        raise NodeError(f"{where}: its node is not UTF-8") from None


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(text: str, where: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", text):
        raise NodeError(f"{where}: {text!r} is not a partition")
    return int(text)


def _broker_ids(value: object, where: str) -> list[int]:
    if not isinstance(value, list) or not all(_is_int(one) for one in value):
        raise NodeError(f"{where}: {value!r} is not a list of broker ids")
    return value
