"""Internal topics: names under which brokers keep their own state.  Nothing here ever creates or writes them.  Pure.

A topic of such a name that a client made is taken for the brokers' own: with another number of partitions, or with the
messages of strangers in it, `__transaction_state` ends all transactions of its cluster.  The names hold for every
release: a cluster that does not use one yet is updated one day.
"""

from __future__ import annotations

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that brokers call internal in their metadata."""
NEVER_WRITTEN = INTERNAL_TOPICS | {"__cluster_metadata"}  # KRaft's log of the cluster, which no metadata lists


def why_never_written(topic: str) -> str:
    """Return why no message may be written to a topic, a clause; "" where its name is an ordinary one."""
    if topic not in NEVER_WRITTEN:
        return ""
    return "which is internal: brokers of some release keep their own state in a topic of that name"
