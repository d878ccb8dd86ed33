"""Several real brokers without ZooKeeper; their controller is another process, so that each of them may be killed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from localkafka import ports
from localkafka.kraft import KraftBroker

CONTROLLER = 100  # node id; brokers count from 0


class Controller(KraftBroker):
    """It listens for brokers only."""

    @property
    def voter(self) -> str:
        return f"{CONTROLLER}@{ports.HOST}:{self._controller.number}"

    def _answers(self) -> bool:
        return ports.answers(ports.HOST, self._controller.number)

    def _properties(self) -> dict[str, str]:
        found = {**super()._properties(), **_of_node(CONTROLLER, "controller", self.voter)}
        found["listeners"] = f"CONTROLLER://{ports.HOST}:{self._controller.number}"
        for name in ("advertised.listeners", "inter.broker.listener.name"):
            del found[name]
        return found


class Broker(KraftBroker):
    def __init__(
        self, folder: Path, release: str, number: int, controller: Controller, settings: Mapping[str, str]
    ) -> None:
        super().__init__(folder, release, settings=settings)
        self.number = number
        self._voter = controller.voter

    def _properties(self) -> dict[str, str]:
        found = {**super()._properties(), **_of_node(self.number, "broker", self._voter)}
        found["listeners"] = found["advertised.listeners"]
        return found


def _of_node(number: int, role: str, voter: str) -> dict[str, str]:
    return {"node.id": str(number), "process.roles": role, "controller.quorum.voters": voter}
