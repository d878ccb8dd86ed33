"""`mirrormaker diff --groups`: which partitions of topics groups have an offset of, in both stores.  Reads only.

    zookeeper   the nodes /consumers/GROUP/offsets/TOPIC/N
    kafka       offsets from each group's coordinator, of the groups that the brokers list (0.9 and later)

Brokers of 0.8.2 keep offsets and list no groups: there only groups are found that ZooKeeper or the other cluster knows.
Without __consumer_offsets no coordinator is looked up, since that would create the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError

from kafkawire.cluster.metadata import Unreachable
from kafkawire.dialects import Dialect
from kafkawire.errors import LinkLost, WireError
from kafkawire.model import Broker, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import apis
from kafkawire.znodes.group import CONSUMERS
from mirrormaker.differences import Offsets
from zkconsumer.offsets.coordinator import PURPOSE, Coordinator
from zkconsumer.offsets.store import Unknown
from zkconsumer.refusals import refusal
from zkconsumer.session.zkcalls import WINDOW

Chosen = Callable[[str], bool]  # True for the groups that are compared
RETRIES = 2


def offsets_in_zookeeper(zk: Any, chosen: Chosen, topics: Collection[str]) -> Offsets:
    """Return the partitions of these topics with an offset node, by group.  A folder that is closed to us is unknown.

    zk: a kazoo client.  Raises kazoo's exceptions when ZooKeeper does not answer.
    """
    groups = [group for group in _children(zk, [CONSUMERS])[CONSUMERS] or () if chosen(group)]
    folders = {f"{CONSUMERS}/{group}/offsets": group for group in groups}
    found: Offsets = {}
    wanted: dict[str, tuple[str, str]] = {}
    for folder, names in _children(zk, folders).items():
        group = folders[folder]
        if names is None:
            found[group] = dict.fromkeys(topics)
            continue
        wanted |= {f"{folder}/{name}": (group, name) for name in names if name in topics}
    for folder, names in _children(zk, wanted).items():
        group, topic = wanted[folder]
        if names is None or names:  # a folder may stay after its offsets were deleted
            found.setdefault(group, {})[topic] = None if names is None else frozenset(names)
    return found


def _children(zk: Any, paths: Collection[str]) -> dict[str, list[str] | None]:
    """Return the names of the children of each path: empty without the node, None if it is closed to us."""
    found: dict[str, list[str] | None] = {}
    waiting = list(paths)
    for at in range(0, len(waiting), WINDOW):
        asked = [(path, zk.get_children_async(path)) for path in waiting[at : at + WINDOW]]
        for path, answer in asked:
            try:
                found[path] = list(answer.get())
            except NoNodeError:
                found[path] = []
            except NoAuthError:
                found[path] = None
    return found


def offsets_in_kafka(
    links: Links,
    dialect: Dialect,
    brokers: Sequence[Broker],
    groups: Iterable[str],
    topics: Mapping[str, Sequence[PartitionId]],
) -> Offsets:
    """Return the partitions of these topics with an offset on a coordinator, by group.  What a coordinator does not
    tell is unknown.

    topics: their partitions.  __consumer_offsets must exist.
    """
    coordinator = Coordinator(lambda: brokers, links, dialect, RETRIES)
    tps = [TopicPartition(topic, partition) for topic, partitions in topics.items() for partition in partitions]
    found: Offsets = {}
    for group in groups:
        try:
            rows = coordinator.fetch(group, tps, "kafka")
        except WireError:
            found[group] = dict.fromkeys(topics)
            continue
        committed: dict[str, set[str]] = {}
        for tp, at in rows.items():
            if isinstance(at, int):
                committed.setdefault(tp.topic, set()).add(str(tp.partition))
        found[group] = {topic: frozenset(ids) for topic, ids in committed.items()}
        found[group] |= dict.fromkeys(tp.topic for tp, at in rows.items() if isinstance(at, Unknown))
    return found


def lists_groups(dialect: Dialect) -> bool:
    """True if the brokers list their groups (0.9 and later)."""
    return apis.LIST_GROUPS.key in dialect.versions


def listed_groups(links: Links, dialect: Dialect, brokers: Sequence[Broker]) -> list[str]:
    """Return the groups of all coordinators, sorted.  Raises Unreachable if one of the brokers does not list them."""
    found: set[str] = set()
    for broker in brokers:
        try:
            reply = links.call(broker, PURPOSE, dialect.requests.list_groups(dialect))
        except LinkLost as lost:
            raise Unreachable(f"the groups of {broker} are not known: {lost}") from lost
        if reply["error"]:
            raise Unreachable(f"the groups of {broker} are not known: {refusal(reply['error'], broker)}")
        found |= {row["group"] for row in reply["groups"]}
    return sorted(found)


def merged(stores: Sequence[Offsets]) -> Offsets:
    """Return the partitions with an offset in any of these stores; unknown if one of them does not tell."""
    found: Offsets = {}
    for store in stores:
        for group, of_topics in store.items():
            into = found.setdefault(group, {})
            for topic, partitions in of_topics.items():
                before = into.get(topic, frozenset())
                into[topic] = None if before is None or partitions is None else before | partitions
    return found
