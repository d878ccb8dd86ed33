"""Names of topics: names that brokers accept, and names under which brokers keep their own state.  Pure.

    INTERNAL_TOPICS   never matched by a pattern: a member's filter, a mirror's whitelist, Spark's subscription
    NEVER_WRITTEN     never created or written by this software

Brokers use a topic of such a name as their own even if a client created it: with another number of partitions, or with
foreign messages in it, `__transaction_state` ends all transactions of its cluster.  The names apply to every release,
because a cluster that does not use one yet may be upgraded.

Members of a ZooKeeper group evaluate each other's filters, and the topics that a JVM member's filter leaves out depend
on its release: none up to 0.8.1, `__consumer_offsets` from 0.8.2 to 0.10.2, `__transaction_state` as well from 0.11 to
1.1. The group does not show the releases of its members.  Our members leave out both, as the newest do.  Beside older
members, range still gives every other partition one owner, since it assigns each topic separately; partitions of
`__transaction_state` that such a member assigns to us are not read. roundrobin assigns the partitions of all topics in
turn, so there the filters themselves have to leave it out.  `__share_group_state` exists only on clusters without
ZooKeeper.

Brokers up to 0.9 accept names of 255 characters.  A partition's folder has its number after the name, and file systems
allow at most 255 characters: such a broker stops, and cannot start again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC

TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})
"""Topics that brokers call internal in their metadata."""
NEVER_WRITTEN = INTERNAL_TOPICS | {"__cluster_metadata"}  # KRaft's log of the cluster, which is not in any metadata
LONGEST = 249  # maximum length since 0.10
LONGEST_EVER = 255  # maximum length up to 0.9 (kafka.common.Topic)
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_no_name(topic: str, longest: int = LONGEST) -> str:
    """Return why brokers do not accept a topic name, as a clause; "" if they do."""
    if len(topic) > longest:
        return f"{len(topic)} characters; at most {longest} are allowed"
    if topic in (".", "..") or _LEGAL.fullmatch(topic) is None:
        return "a name has letters a to z, digits, '.', '_' and '-', and is not '.' or '..'"
    return ""


def why_never_written(topic: str) -> str:
    """Return why a topic of that name is never created or written to, as a clause; "" for an ordinary name."""
    if topic in NEVER_WRITTEN:
        return "which is internal: brokers of some release keep their own state in a topic of that name"
    if len(topic) > LONGEST:
        return f"which has {len(topic)} characters: with more than {LONGEST} a topic can end the brokers that hold it"
    return ""


def colliding(wanted: Iterable[str], there: Collection[str]) -> dict[str, str]:
    """Return the new topics that brokers of 0.9 and later refuse, each with the existing or earlier wanted topic with
    which it collides: brokers name metrics after topics, with "_" for each ".".
    """
    taken = {_metric(topic): topic for topic in there}
    found: dict[str, str] = {}
    for topic in wanted:
        other = taken.setdefault(_metric(topic), topic)
        if other != topic and topic not in there:
            found[topic] = other
    return found


def _metric(topic: str) -> str:
    return topic.replace(".", "_")
