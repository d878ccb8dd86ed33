"""Parked partitions are tried again now and then: whoever mends the cause need not restart the mirror."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from groundwork.tasks import now, sleep
from kafkawire.model import TopicPartition
from zkconsumer.engine.status import PartitionStatus

LOOK_S = 0.5


class Retried(Protocol):
    """What has to be known of an Origin."""

    name: str

    def partitions(self) -> list[PartitionStatus]: ...
    def retry(self, row: PartitionStatus) -> bool: ...


class Retries:
    """Each parked partition once in every_s seconds, the first time that long after it was parked."""

    def __init__(self, origins: Sequence[Retried], every_s: float) -> None:
        self._origins = origins
        self._every_s = every_s
        self._since: dict[tuple[str, TopicPartition], float] = {}  # when it was parked, or tried last

    def run(self) -> None:
        while True:
            sleep(min(LOOK_S, self._every_s))
            self.look(now())

    def look(self, at: float) -> None:
        """Try what is due."""
        since: dict[tuple[str, TopicPartition], float] = {}
        for origin in self._origins:
            for row in origin.partitions():
                key = (origin.name, row.tp)
                if row.parked is None:
                    continue
                since[key] = self._since.get(key, at)
                if at - since[key] >= self._every_s and origin.retry(row):
                    since[key] = at
        self._since = since
