"""Names of topics: which ones brokers take, and under which ones nothing here creates or writes a topic.  Pure.

Internal topics are names under which brokers keep their own state.  A topic of such a name that a client made is taken
for the brokers' own: with another number of partitions, or with the messages of strangers in it, `__transaction_state`
ends all transactions of its cluster.  The names hold for every release: a cluster that does not use one yet is updated
one day.

Brokers up to 0.9 take names of 255 characters.  The folder of a partition has its number behind the name, and no file
system takes more than 255: such a broker ends, and does not start again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
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
