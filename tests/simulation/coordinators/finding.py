"""FindCoordinator, and the internal topics that it makes.

The broker that is asked answers from its own cache of metadata and never asks the coordinator: an old cache names the
old node with error 0 (broker-model-coordinators.md 1.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkawire.protocol.groupapis import OF_GROUP, OF_TRANSACTION
from tests.simulation.coordinators.host import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Host
from tests.simulation.coordinators.rules import Codes

SEGMENT_BYTES = str(100 << 20)


class Finding:
    """number_of: by type of key, which partition of its topic keeps a key."""

    def __init__(self, host: Host, number_of: dict[int, Callable[[str], int]]) -> None:
        self.host = host
        self.rules = host.rules
        self._number_of = number_of

    def find(self, request: Any) -> None:
        body = request.body
        kind = body.get("key_type", OF_GROUP)
        known = kind == OF_GROUP or (kind == OF_TRANSACTION and self.rules.has_transactions)
        if not known:
            request.answer(_found(Codes.INVALID_REQUEST, None))
            return
        topic = OFFSETS_TOPIC if kind == OF_GROUP else TRANSACTIONS_TOPIC
        count = self.host.partitions(topic)
        if count is None:
            self._create(topic)
            request.answer(_found(Codes.NOT_AVAILABLE, None))
            return
        number = self._number_of[kind](body["group"])
        leader = self.host.leader((topic, number)) if number < count else None
        if leader is None:
            request.answer(_found(Codes.NOT_AVAILABLE, None))
        else:
            request.answer(_found(0, (leader, *self.host.address(leader))))

    def _create(self, topic: str) -> None:
        """To 0.10 with as many replicas as there are brokers alive, later not until there are enough."""
        host = self.host
        front = "offsets.topic" if topic == OFFSETS_TOPIC else "transaction.state.log"
        factor, alive = int(host.setting(f"{front}.replication.factor", 3)), len(host.alive())
        if self.rules.creates_with_fewer_replicas:
            factor = min(factor, alive)
        elif alive < factor:
            return
        configs = {"cleanup.policy": "compact", "segment.bytes": SEGMENT_BYTES}
        if topic == TRANSACTIONS_TOPIC:
            least = str(int(host.setting("transaction.state.log.min.isr", 2)))
            configs |= {"min.insync.replicas": least, "unclean.leader.election.enable": "false"}
        host.create_topic(topic, int(host.setting(f"{front}.num.partitions", 50)), factor, configs)


def _found(code: int, node: tuple[int, str, int] | None) -> dict[str, Any]:
    number, name, port = node or (-1, "", -1)
    coordinator = {"node_id": number, "host": name, "port": port}
    return {"throttle_time_ms": 0, "error": code, "error_message": None, "coordinator": coordinator}
