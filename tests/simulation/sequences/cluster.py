"""What a sequence asks of a cluster, and a real and a simulated cluster both give it.

    Cluster       the brokers of one release: topics, leaders, signals to brokers, time
    Connection    one connection of a client to a broker; requests on it are answered one after the other
    Waiting       a request that was sent: its answer once it is there, and the time that it took

A sequence never sleeps and never looks at a clock: it asks the cluster, whose time may be simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

Fields = Mapping[str, Any]


class Gone(Enum):
    """What stands in the place of an answer."""

    CLOSED = "closed"  # the broker closed the connection, or cannot be reached
    NOTHING = "no answer"  # within the time that the sequence waits

    def __repr__(self) -> str:
        return self.value


class Speech(Protocol):
    """One api: kafkawire.protocol.api.Api, or what encodes a flexible version."""

    @property
    def key(self) -> int: ...

    def encode_request(self, version: int, fields: Fields) -> bytes: ...

    def decode_reply(self, version: int, data: bytes) -> Any: ...


class Waiting(Protocol):
    @property
    def took_s(self) -> float:
        """Seconds from the request to its answer or to the end of the connection; up to now without either."""

    def answer(self, within_s: float) -> Any:
        """The decoded answer, or Gone.  After NOTHING it may be asked again."""


class Connection(Protocol):
    @property
    def closed(self) -> bool:
        """Whether the broker is known to have closed it.  Requests on it are CLOSED then."""

    def begin(self, api: Speech, version: int, fields: Fields) -> Waiting: ...

    def close(self) -> None: ...


class Cluster(Protocol):
    """release: "2.8.2".  brokers: their ids."""

    release: str
    brokers: Sequence[int]

    def connect(self, broker: int) -> Connection:
        """Raises ConnectionError where the broker is down."""

    def disconnect(self) -> None:
        """Close all connections that were made."""

    def now(self) -> float:
        """Seconds, from any beginning."""

    def time_of_day_ms(self) -> int:
        """As the brokers have it."""

    def wait(self, seconds: float) -> None: ...

    def create_topic(
        self, topic: str, replicas: Sequence[Sequence[int]] = (), config: Mapping[str, str] | None = None
    ) -> None:
        """replicas: of each partition, the preferred leader first; none: of one partition, on the first broker.
        Returns once all of them are in sync and every broker knows the topic."""

    def delete_topic(self, topic: str) -> None:
        """Ask the controller; returns at once."""

    def grow(self, topic: str, partitions: int) -> None:
        """Ask for so many partitions in all; returns at once."""

    def stop(self, broker: int) -> None:
        """SIGSTOP."""

    def go_on(self, broker: int) -> None:
        """SIGCONT."""

    def kill(self, broker: int) -> None:
        """SIGKILL."""

    def start(self, broker: int) -> None:
        """Start a killed broker on its data; returns once it is registered."""

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make this replica the preferred one and elect it; returns once the controller was asked."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        """As the controller decided."""

    def isr_of(self, topic: str, partition: int) -> list[int]:
        """Sorted, as the controller has it."""

    def controller(self) -> int:
        """The broker that is the controller; in KRaft the broker whose process has it, else the first."""
