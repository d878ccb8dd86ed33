"""Access to a cluster: found by the driver and passed to each task.

ClusterAccess      addresses, release, security, timeouts and retries: a value, pickled with every reader
release_or_auto    option type of `protocol`: auto, or the release that is meant
resolved           the access of a cluster once its brokers were asked what they are
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.metadata import Unreachable as NobodyResponds
from kafkawire.cluster.release import BrokerRelease, ask_release
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.versions import negotiated
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import LinkLost, LocalError
from kafkawire.model import Broker
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security
from kafkawire.protocol.buffers import Buffers
from sparkpipeline.errors import OptionRefused, Unreachable

RETRIES, RETRY_INTERVAL_MS = 3, 1000
MAX_WAIT_S = 10.0  # between two tries
MAX_OTHERS_MS = 3000  # for a broker that is down, once one of the cluster has answered


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Addresses of some of the brokers, and settings for connections to all of them.

    release is one of kafkawire.dialects ("0.8.2", "0.9", "0.10" ..): never "auto", which the driver resolves first.
    versions: api key and version of each request, as the driver negotiated them; none: those of the release. brokers:
    all of them by id, if they do not describe each other (0.7), as found by the driver in ZooKeeper. security: TLS and
    logins; its passwords are masked where it is printed, and pickled. committed: messages of transactions are read once
    these are committed (read_committed), and logs end there.
    """

    bootstrap: tuple[tuple[str, int], ...]
    release: str = "0.8.2"
    client_id: str = "sparkpipeline"
    socket_timeout_ms: int = 30000
    retries: int = RETRIES  # of a fetch, or of a request that a broker does not answer: fetchOffset.numRetries
    retry_interval_ms: int = RETRY_INTERVAL_MS
    brokers: tuple[Broker, ...] = ()
    versions: tuple[tuple[int, int], ...] = ()
    security: Security = OPEN
    committed: bool = True
    election_ms: int = 30000  # time for which a partition without a leader is retried: a broker's session takes 6 s

    @property
    def retry(self) -> RetryPolicy:
        """Return the retry policy: a leader that was just looked up is asked at once, then after waits that double from
        retry_interval_ms."""
        backoff = Backoff(self.retry_interval_ms / 1000, MAX_WAIT_S)
        return RetryPolicy(self.retries, backoff, at_once=1, election_s=self.election_ms / 1000)

    @property
    def spoken(self) -> Dialect:
        """Return the dialect of the brokers."""
        return _spoken(self.release, self.versions)

    def links(self, buffers: Buffers | None = None, timeout_ms: int | None = None) -> Links:
        """Return links to the brokers, not opened yet. timeout_ms: instead of socket_timeout_ms."""
        wait_ms = self.socket_timeout_ms if timeout_ms is None else timeout_ms
        return Links(self.client_id, self.security.connect(), timeout_ms=wait_ms, buffers=buffers)


@lru_cache(maxsize=16)
def _spoken(release: str, versions: tuple[tuple[int, int], ...]) -> Dialect:
    row = dialect(release)
    return replace(row, versions=dict(versions)) if versions else row


SHORT = {"0.7": "0.7.2", "0.8": "0.8.2", "0.9": "0.9", "0.10": "0.10.0"}
AUTO = "auto"
HELPS = "one of auto, 0.7, 0.8, 0.9, 0.10, or a release such as 0.10.1 or 3.9"


def release_or_auto(raw: object) -> str:
    """Option type: auto, or a name of kafkawire.dialects.  Raises ValueError."""
    text = str(raw).strip().lower()
    name = SHORT.get(text, text)
    if name != AUTO:
        try:
            dialect(name)
        except LocalError as unknown:
            raise ValueError(f"{HELPS} ({unknown})") from None
    return name


def resolved(release: str, access: ClusterAccess) -> ClusterAccess:
    """Return the access with the release and the versions of requests that the option `protocol` selects.

    A named release is used unchanged.  auto: all brokers of the cluster are asked, found through the first one of the
    bootstrap list that answers (kafkawire.cluster.release), and the versions that all of them support are used, also
    during an upgrade.  A broker that does not answer counts as the others' release. Raises OptionRefused, and
    Unreachable naming every broker."""
    if release != AUTO:
        return replace(access, release=release)
    try:
        spoken = negotiated(list(_asked(access)))
    except LocalError as nothing:
        raise OptionRefused(str(nothing), option="protocol") from None
    return replace(access, release=spoken.release, versions=tuple(sorted(spoken.versions.items())))


def _asked(access: ClusterAccess) -> Iterator[BrokerRelease]:
    """Yield the releases of the brokers, at least one.  Raises Unreachable."""
    tried: list[str] = []
    first = None
    for host, port in access.bootstrap:
        try:
            first = _ask(Broker(-1, host, port), access)
            break
        except LinkLost as lost:
            tried.append(str(lost))
    if first is None:
        raise Unreachable(
            f"no broker of the cluster answers: {'; '.join(tried) or 'no broker is known'} (brokers of Kafka 0.7 "
            "never answer: use protocol=0.7 with zookeeper.connect)"
        )
    yield first
    links = access.links()
    try:
        source = MetadataSource([(first.broker.host, first.broker.port)], negotiated([first]), links)
        others = source.read(None).brokers.values()
    except NobodyResponds:
        return  # the next broker asked gives the reason
    finally:
        links.close()
    quickly = replace(access, socket_timeout_ms=min(access.socket_timeout_ms, MAX_OTHERS_MS))
    for broker in others:
        if (broker.host, broker.port) != (first.broker.host, first.broker.port):
            try:
                yield _ask(broker, quickly)
            except LinkLost:
                continue


def _ask(broker: Broker, access: ClusterAccess) -> BrokerRelease:
    """Ask a broker for its release.  Raises LinkLost."""
    connect = access.security.connect()
    return ask_release(broker, connect, timeout_ms=access.socket_timeout_ms, client_id=access.client_id)
