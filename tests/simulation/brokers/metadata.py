"""Each broker's own copy of the metadata, and the handler of Metadata (5.2, 5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.simulation.brokers.replica import LeaderAndIsr, Tp
from tests.simulation.brokers.serving import Request

if TYPE_CHECKING:
    from tests.simulation.brokers.broker import SimBroker

UNKNOWN, LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, TOO_FEW_BROKERS = 3, 5, 9, 38
Address = tuple[str, int]


class MetadataCache:
    """What a broker has heard from the controller; empty until the first time."""

    __slots__ = ("brokers", "controller", "topics")

    def __init__(self) -> None:
        self.brokers: Mapping[int, Address] = {}
        self.controller = -1
        self.topics: dict[str, dict[int, LeaderAndIsr]] = {}

    def has(self, what: str | Tp) -> bool:
        """Whether it knows a topic, or a partition."""
        if isinstance(what, str):
            return what in self.topics
        return what[1] in self.topics.get(what[0], ())

    def update(
        self, brokers: Mapping[int, Address], controller: int, changed: Mapping[Tp, LeaderAndIsr | None], whole: bool
    ) -> list[str]:
        """The list of live brokers as a whole, partitions one by one; None: deleted.  whole: nothing else exists.

        Returns the topics that are gone with it.
        """
        gone = []
        self.brokers, self.controller = brokers, controller
        if whole:
            self.topics = {}
        for (topic, partition), said in changed.items():
            if said is not None:
                self.topics.setdefault(topic, {})[partition] = said
            elif topic in self.topics:
                self.topics[topic].pop(partition, None)
                if not self.topics[topic]:
                    del self.topics[topic]
                    gone.append(topic)
        return gone


def metadata(broker: SimBroker, request: Request) -> None:
    """The handler of Metadata."""
    cache, rules, version = broker.cache, broker.rules, request.version
    named = request.body["topics"]
    every = named is None or (version == 0 and not named)
    creates = broker.settings.auto_create and request.body.get("allow_auto_topic_creation", True)
    rows: list[dict[str, Any]] = []
    brokers: Mapping[int, Address] = cache.brokers
    cached, replication = len(cache.brokers), broker.settings.replication
    for topic in list(cache.topics) if every else dict.fromkeys(named):
        if topic in cache.topics:
            rows.append(_topic(broker, topic, version))
        elif not creates or every:
            rows.append(_missing(topic, UNKNOWN))
        elif (cached if rules.counts_cached_brokers else len(broker.cluster.controller.live)) < replication:
            if rules.too_few_fails_all:
                rows = [_missing(one, -1) for one in named]
                brokers = {}
                break
            rows.append(_missing(topic, TOO_FEW_BROKERS))
        else:
            broker.cluster.controller.auto_create(broker, topic)
            rows.append(_missing(topic, rules.creating))
    if rules.tells_brokers_by_topic:
        held = {id for row in rows for partition in row["partitions"] for id in partition["replicas"]}
        brokers = {id: address for id, address in brokers.items() if id in held}
    request.answer(
        {
            "throttle_time_ms": 0,
            "brokers": [
                {"node_id": id, "host": host, "port": port, "rack": broker.cluster.racks.get(id)}
                for id, (host, port) in brokers.items()
            ],
            "cluster_id": broker.cluster.name,
            "controller_id": cache.controller,
            "topics": rows,
            "authorized_operations": -(1 << 31),
        }
    )


def _missing(topic: str, code: int) -> dict[str, Any]:
    return {"error": code, "topic": topic, "is_internal": False, "partitions": [], "authorized_operations": -(1 << 31)}


def _topic(broker: SimBroker, topic: str, version: int) -> dict[str, Any]:
    cache, rules = broker.cache, broker.rules
    live = cache.brokers
    partitions = []
    for number, said in sorted(cache.topics[topic].items()):
        code, leader, replicas, isr = 0, said.leader, list(said.replicas), list(said.isr)
        dead = [one for one in replicas if one not in live]
        if version == 0 or rules.reports_dead_replicas:
            if dead or any(one not in live for one in isr):
                code = REPLICA_NOT_AVAILABLE
            replicas = [one for one in replicas if one in live]
            isr = [one for one in isr if one in live]
        if leader not in live:
            code, leader = LEADER_NOT_AVAILABLE, -1
        partitions.append(
            {
                "error": code,
                "partition": number,
                "leader": leader,
                "leader_epoch": said.epoch,
                "replicas": replicas,
                "isr": isr,
                "offline_replicas": dead,
            }
        )
    internal = topic.startswith("__")
    return {**_missing(topic, 0), "is_internal": internal, "partitions": partitions}
