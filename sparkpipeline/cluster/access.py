"""How a cluster is reached: what the driver knows and each task is given.  Pure, and pickled with every reader."""

from __future__ import annotations

from dataclasses import dataclass

from kafkawire.model import Broker


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Addresses of some of the brokers, and how to speak to all of them.

    release is one of kafkawire.dialects ("0.8.2", "0.9", "0.10" ..): never "auto", which the driver resolves first.
    brokers: all of them by id, where they tell nothing of each other (0.7): as the driver found them in ZooKeeper.
    """

    bootstrap: tuple[tuple[str, int], ...]
    release: str = "0.8.2"
    client_id: str = "sparkpipeline"
    socket_timeout_ms: int = 30000
    retries: int = 3  # of a fetch, or of a question that a broker does not answer: fetchOffset.numRetries
    retry_interval_ms: int = 1000
    brokers: tuple[Broker, ...] = ()
    election_ms: int = 30000  # a partition without a leader is asked for again so long: a broker's session takes 6 s
