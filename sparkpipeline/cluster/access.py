"""How a cluster is reached: what the driver knows and each task is given.

ClusterAccess      addresses, release, timeouts and retries: a value, pickled with every reader
resolve_release    the release that a cluster is spoken to as: what the option `protocol` says, or its brokers answer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkawire.cluster.release import ask_release
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost, LocalError
from kafkawire.model import Broker
from sparkpipeline.errors import OptionRefused, Unreachable

RETRIES, RETRY_INTERVAL_MS = 3, 1000
MAX_WAIT_S = 10.0  # between two tries


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
    retries: int = RETRIES  # of a fetch, or of a question that a broker does not answer: fetchOffset.numRetries
    retry_interval_ms: int = RETRY_INTERVAL_MS
    brokers: tuple[Broker, ...] = ()
    election_ms: int = 30000  # a partition without a leader is asked for again so long: a broker's session takes 6 s

    @property
    def retry(self) -> RetryPolicy:
        """A leader that was just looked up is asked at once, then after waits that double from retry_interval_ms."""
        backoff = Backoff(self.retry_interval_ms / 1000, MAX_WAIT_S)
        return RetryPolicy(self.retries, backoff, at_once=1, election_s=self.election_ms / 1000)


SHORT = {"0.7": "0.7.2", "0.8": "0.8.2", "0.9": "0.9", "0.10": "0.10.0"}
HELPS = "one of auto, 0.7, 0.8, 0.9, 0.10, or a release such as 0.10.1"


def resolve_release(
    protocol: str,
    bootstrap: Sequence[tuple[str, int]],
    client_id: str = "sparkpipeline",
    timeout_ms: int = 30000,
) -> str:
    """A name of kafkawire.dialects for the option's value.  Only "auto" asks brokers.

    auto: the first broker that answers decides (kafkawire.cluster.release).  In the middle of an upgrade name the older
    release.
    Raises OptionRefused, and Unreachable naming every broker.
    """
    if protocol != "auto":
        return _named(protocol)
    tried: list[str] = []
    for host, port in bootstrap:
        broker = Broker(-1, host, port)
        try:
            return _found(broker, client_id, timeout_ms)
        except LinkLost as lost:
            tried.append(str(lost))
    raise Unreachable(
        f"no broker of the cluster answers: {'; '.join(tried) or 'no broker is known'} (of Kafka 0.7 none ever would:"
        " protocol=0.7 with zookeeper.connect reads it)"
    )


def _named(protocol: str) -> str:
    """Raises OptionRefused."""
    name = SHORT.get(protocol, protocol)
    try:
        dialect(name)
    except LocalError as unknown:
        raise OptionRefused(f"{unknown}; {HELPS}", option="protocol") from None
    return name


def _found(broker: Broker, client_id: str, timeout_ms: int) -> str:
    """What one broker shows itself to be.  Raises LinkLost, OptionRefused."""
    found = ask_release(broker, timeout_ms=timeout_ms, client_id=client_id)
    if not found.takes_old_apis:
        raise OptionRefused(
            f"{broker} is Kafka 4.0 or newer and takes no request of ours: read it with Spark's own format kafka",
            option="protocol",
        )
    return found.release
