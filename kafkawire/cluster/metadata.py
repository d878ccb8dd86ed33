"""Cluster view from the Metadata responses of its brokers.

Asking by name creates a missing topic where brokers auto-create: so sources are only ever asked for all topics (None).
Some rules of wire-protocol.md §2.3: a partition with error 9 and a leader is fine; error 5 means no leader now; 0.8.0
and 0.8.1 list only the brokers of the partitions they return, down to none, which must not remove what is already
known.

A response without brokers and without partitions says nothing about the cluster (broker-model-log.md 2.3,
wire-protocol.md 2.3): the broker has just started and has no metadata yet, or the whole request failed, as 0.8.2 fails
a request that names a topic which it cannot create.  Then the request goes to the next broker, then for all topics,
then for each missing name alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from groundwork.pauses import pause
from kafkawire.cluster.view import NO_EPOCH, ClusterView, PartitionView
from kafkawire.errors import LinkLost, WireError
from kafkawire.model import Broker, PartitionId
from kafkawire.net.links import Links
from kafkawire.protocol.apis import METADATA

if TYPE_CHECKING:
    from kafkawire.dialects import Dialect

PURPOSE = "metadata"
PAUSE_EVERY = 1000  # topics; they take some milliseconds
FIRST_THAT_CREATES_ON_REQUEST = 4  # version of Metadata: before, naming a topic creates it


class Unreachable(WireError):
    """No broker of the cluster answered; the message names each broker tried and the reason."""


class NothingKnown(Unreachable):
    """Brokers respond, but none of them knows brokers or topics: they have just started.

    Also a cluster of 0.8.0 or 0.8.1 in which no topic has a leader, which looks the same.
    """


class ViewSource(Protocol):
    """Source of cluster views: MetadataSource, or a reader of ZooKeeper or of a list of brokers."""

    def read(self, topics: Sequence[str] | None, create: bool = True) -> ClusterView:
        """Return a view of the named topics, or of all with None. create: named topics that do not exist may be
        created."""


class MetadataSource:
    """Metadata source that asks one broker after the other until one answers.  Several tasks may read at a time.

    The broker that answered last comes first, unless turn() was called, then the others it named, then the bootstrap
    list, which is never forgotten.  A broker that fails is skipped until an answer names it again.
    """

    def __init__(self, bootstrap: Sequence[tuple[str, int]], dialect: Dialect, links: Links) -> None:
        self.dialect = dialect
        # The ids of bootstrap brokers are not known yet; negative numbers are never real ids.
        self._bootstrap = [Broker(-1 - n, host, port) for n, (host, port) in enumerate(bootstrap)]
        self._known: list[Broker] = []
        self._links = links

    def read(self, topics: Sequence[str] | None, create: bool = True) -> ClusterView:
        """Return a view of the named topics, or of all with None. create: named topics that do not exist may be
        created.

        Raises Unreachable when no broker answers; a topic's own error is in ClusterView.errors.
        """
        if topics is None:
            return next(view for view in self._answers(None) if _tells(view))
        if not create and self.dialect.speaks(METADATA.key) < FIRST_THAT_CREATES_ON_REQUEST:
            return _among(topics, self.read(None))
        view = next(self._answers(topics, create))
        return view if _tells(view) else self._each(topics, view, create)

    def turn(self) -> None:
        """Begin the next read at another broker than the one that answered last.

        Each broker answers from its own copy of the metadata, which may be outdated for any length of time
        (broker-model-log.md 5.3).
        """
        self._known = [*self._known[1:], *self._known[:1]]

    def _each(self, topics: Sequence[str], failed: ClusterView, create: bool) -> ClusterView:
        """Return a view of the named topics, asked for one by one if a broker did not answer for all of them
        together."""
        try:
            view = _among(topics, self.read(None))
        except NothingKnown:
            if LEADER_NOT_AVAILABLE in failed.errors.values():
                return failed  # brokers of 0.8 do this while they create the first topic of the cluster
            raise
        for topic in topics if create else ():
            if topic not in view.topics:
                alone = next(self._answers([topic]))
                view = ClusterView(
                    {**view.brokers, **alone.brokers},
                    {**view.topics, **alone.topics},
                    {**{t: code for t, code in view.errors.items() if t != topic}, **alone.errors},
                    view.controller,
                )
        return view

    def _answers(self, topics: Sequence[str] | None, create: bool = True) -> Iterator[ClusterView]:
        """Yield the answers of brokers, one after the other.  Raises Unreachable after the last one."""
        request = self.dialect.requests.metadata(self.dialect, topics, create)
        tried: list[str] = []
        answered = False
        for broker in self._candidates():
            try:
                reply = self._links.call(broker, PURPOSE, request)
            except LinkLost as lost:
                tried.append(str(lost))
                self._known = [known for known in self._known if known != broker]
                continue
            view = read_reply(reply)
            if _tells(view):
                self._learn(broker, view)
            yield view
            answered = True
            tried.append(f"{broker} knows no brokers and no topics yet")
        why = "; ".join(tried) or "no broker is known"
        if answered:
            raise NothingKnown(f"no broker of the cluster has metadata: {why}")
        raise Unreachable(f"no broker of the cluster answers: {why}")

    def _candidates(self) -> list[Broker]:
        found: dict[tuple[str, int], Broker] = {}
        for broker in (*self._known, *self._bootstrap):
            found.setdefault((broker.host, broker.port), broker)
        return self._links.answering_first(found.values())

    def _learn(self, answered: Broker, view: ClusterView) -> None:
        """Move the broker that answered to the front, because its link is open; the others follow in turn."""
        address = (answered.host, answered.port)
        if view.brokers:
            others = list(view.brokers.values())
            at = next((n for n, b in enumerate(others) if (b.host, b.port) == address), 0)
            self._known = [b for b in (*others[at:], *others[:at]) if (b.host, b.port) != address]
        else:
            self._known = [known for known in self._known if known != answered]
        self._known.insert(0, answered)
        self._links.meet(view.brokers.values())


def read_reply(reply: dict[str, Any]) -> ClusterView:
    """Return the view in a decoded Metadata reply of any version."""
    brokers = {row["node_id"]: Broker(row["node_id"], row["host"], row["port"]) for row in reply["brokers"]}
    topics: dict[str, dict[PartitionId, PartitionView]] = {}
    errors: dict[str, int] = {}
    for number, topic in enumerate(reply["topics"], 1):
        if number % PAUSE_EVERY == 0:
            pause()
        if topic["partitions"]:
            topics[topic["topic"]] = {row["partition"]: _partition(row) for row in topic["partitions"]}
        else:
            errors[topic["topic"]] = topic["error"] or LEADER_NOT_AVAILABLE
    controller = reply.get("controller_id", -1)
    return ClusterView(brokers, topics, errors, controller if controller >= 0 else None)


def _tells(view: ClusterView) -> bool:
    """True if a response says anything about the cluster."""
    return bool(view.brokers or view.topics)


def _among(topics: Sequence[str], view: ClusterView) -> ClusterView:
    """Return the named topics in a view of all; a topic that does not exist gets an error."""
    found = {topic: view.topics[topic] for topic in topics if topic in view.topics}
    errors = {topic: view.errors.get(topic, UNKNOWN_TOPIC) for topic in topics if topic not in found}
    return ClusterView(view.brokers, found, errors, view.controller)


UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5  # also a topic without partitions and without an error: it is being created


def _partition(row: dict[str, Any]) -> PartitionView:
    """Return one partition of a reply.  The named leader is used whatever the partition's error: a wrong leader says so
    itself."""
    leader = row["leader"] if row["leader"] >= 0 else None
    epoch = row.get("leader_epoch", NO_EPOCH)
    return PartitionView(leader, tuple(row["replicas"]), tuple(row["isr"]), row["error"], epoch)
