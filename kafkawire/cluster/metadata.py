"""A cluster as its brokers describe it in Metadata replies.

Asking by name creates a missing topic where brokers auto-create: sources are only ever asked for all topics (None).
Some rules of wire-protocol.md §2.3: a partition with error 9 and a leader is fine; error 5 means no leader now; 0.8.0
and 0.8.1 list only the brokers of the partitions they return, down to none, which must not wipe what we know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.errors import LinkLost, WireError
from kafkawire.model import Broker, PartitionId
from kafkawire.net.links import Links

if TYPE_CHECKING:
    from kafkawire.dialects import Dialect

PURPOSE = "metadata"


class Unreachable(WireError):
    """No broker of the cluster answered; the message names each that was tried, and why it did not."""


class ViewSource(Protocol):
    """Where views of a cluster come from: MetadataSource, or what reads ZooKeeper or a list of brokers."""

    def read(self, topics: Sequence[str] | None) -> ClusterView:
        """A view of the topics named (missing ones may be created by that!), or of all with None."""


class MetadataSource:
    """Asks one broker after the other until one answers.  Several tasks may read at a time.

    The broker that answered last comes first, then the others it named, then the bootstrap list, which is never
    forgotten.  A broker that fails is left out until an answer names it again, and then comes last.
    """

    def __init__(self, bootstrap: Sequence[tuple[str, int]], dialect: Dialect, links: Links) -> None:
        self.dialect = dialect
        # Their ids are not known yet; no cluster has negative ones.
        self._bootstrap = [Broker(-1 - n, host, port) for n, (host, port) in enumerate(bootstrap)]
        self._known: list[Broker] = []
        self._links = links

    def read(self, topics: Sequence[str] | None) -> ClusterView:
        """A view of the topics named (missing ones may be created by that!), or of all with None.

        Raises Unreachable when no broker answers; a topic's own error is in ClusterView.errors.
        """
        request = self.dialect.requests.metadata(self.dialect, topics)
        tried: list[str] = []
        for broker in self._candidates():
            try:
                reply = self._links.call(broker, PURPOSE, request)
            except LinkLost as lost:
                tried.append(str(lost))
                self._known = [known for known in self._known if known != broker]
                continue
            view = read_reply(reply)
            self._learn(broker, view)
            return view
        raise Unreachable(f"no broker of the cluster answers: {'; '.join(tried) or 'no broker is known'}")

    def _candidates(self) -> list[Broker]:
        found: dict[tuple[str, int], Broker] = {}
        for broker in (*self._known, *self._bootstrap):
            found.setdefault((broker.host, broker.port), broker)
        return self._links.answering_first(found.values())

    def _learn(self, answered: Broker, view: ClusterView) -> None:
        """Keep the one that answered in front: its link is open."""
        address = (answered.host, answered.port)
        if view.brokers:
            self._known = [b for b in view.brokers.values() if (b.host, b.port) != address]
        else:
            self._known = [known for known in self._known if known != answered]
        self._known.insert(0, answered)
        self._links.meet(view.brokers.values())


def read_reply(reply: dict[str, Any]) -> ClusterView:
    """The view that a decoded Metadata reply, of any version, gives."""
    brokers = {row["node_id"]: Broker(row["node_id"], row["host"], row["port"]) for row in reply["brokers"]}
    topics: dict[str, dict[PartitionId, PartitionView]] = {}
    errors: dict[str, int] = {}
    for topic in reply["topics"]:
        if topic["partitions"]:
            topics[topic["topic"]] = {row["partition"]: _partition(row) for row in topic["partitions"]}
        else:
            errors[topic["topic"]] = topic["error"] or LEADER_NOT_AVAILABLE
    controller = reply.get("controller_id", -1)
    return ClusterView(brokers, topics, errors, controller if controller >= 0 else None)


LEADER_NOT_AVAILABLE = 5  # also a topic without partitions and without an error: it is being created


def _partition(row: dict[str, Any]) -> PartitionView:
    """Whatever the partition's error: who is named as leader is asked, and says so himself when it is wrong."""
    leader = row["leader"] if row["leader"] >= 0 else None
    return PartitionView(leader, tuple(row["replicas"]), tuple(row["isr"]), row["error"])
