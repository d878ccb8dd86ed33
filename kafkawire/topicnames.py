"""Names of topics: which ones brokers take, and under which ones brokers keep their own state.  Pure.

    INTERNAL_TOPICS   what no pattern chooses: not the filter of a member, not a mirror's whitelist, not Spark's
    NEVER_WRITTEN     where nothing here creates or writes a topic

A topic of such a name that a client made is taken for the brokers' own: with another number of partitions, or with the
messages of strangers in it, `__transaction_state` ends all transactions of its cluster.  The names hold for every
release: a cluster that does not use one yet is updated one day.

Members of a ZooKeeper group evaluate each other's filters, and what a filter of the JVM leaves out depends on its
release: nothing to 0.8.1, `__consumer_offsets` from 0.8.2 to 0.10.2, `__transaction_state` as well from 0.11 to 1.1.
The group does not show who is of which release.  Members of ours leave out both, as the newest do.  Beside older ones
range still gives every other partition one owner, since it divides each topic by itself; the partitions of
`__transaction_state` that such a member counts as ours are read by nobody.  roundrobin deals the partitions of all
topics in turn, so there the filters themselves have to leave it out.  `__share_group_state` exists only on clusters
without ZooKeeper.

Brokers up to 0.9 take names of 255 characters.  The folder of a partition has its number behind the name, and no file
system takes more than 255: such a broker ends, and does not start again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC

TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})
"""Topics that brokers call internal in their metadata."""
NEVER_WRITTEN = INTERNAL_TOPICS | {"__cluster_metadata"}  # KRaft's log of the cluster, which no metadata lists
LONGEST = 249  # characters that brokers from 0.10 on take
LONGEST_EVER = 255  # up to 0.9 (kafka.common.Topic)
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_no_name(topic: str, longest: int = LONGEST) -> str:
    """Return why brokers take no such name for a topic, a clause; "" where they do."""
    if len(topic) > longest:
        return f"{len(topic)} characters, and at most {longest} are allowed"
    if topic in (".", "..") or _LEGAL.fullmatch(topic) is None:
        return "a name has letters a to z, digits, '.', '_' and '-', and is not '.' or '..'"
    return ""


def why_never_written(topic: str) -> str:
    """Return why no topic of that name is created or written to, a clause; "" where its name is an ordinary one."""
    if topic in NEVER_WRITTEN:
        return "which is internal: brokers of some release keep their own state in a topic of that name"
    if len(topic) > LONGEST:
        return f"which has {len(topic)} characters: with more than {LONGEST} a topic can end the brokers that hold it"
    return ""


def colliding(wanted: Iterable[str], there: Collection[str]) -> dict[str, str]:
    """Return the new topics that brokers from 0.9 on refuse, each with the topic of the cluster, or the one wanted
    before it, that it collides with: brokers name metrics after topics, with "_" for each ".".
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
