"""Which release a cluster is spoken to as: what the option `protocol` says, or what its brokers answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost, LocalError
from kafkawire.model import Broker
from kafkawire.net.link import Link
from kafkawire.v08 import apis
from sparkpipeline.errors import OptionRefused, Unreachable

SHORT = {"0.8": "0.8.2", "0.9": "0.9", "0.10": "0.10.0"}
ASKING = dialect("0.10.0")  # the first release that answers ApiVersions
OLD = dialect("0.8.2")
PATIENCE_MS = 2000  # for an answer that says the release: 0.9 gives none
NEWER = (  # api, its highest version is at least this, then the cluster is at least that release
    (apis.PRODUCE, 8, "2.4"),
    (apis.FETCH, 4, "0.11"),
    (apis.LIST_OFFSETS, 1, "0.10.1"),
)
HELPS = "one of auto, 0.8, 0.9, 0.10, or a release such as 0.10.1"


def resolve_release(
    protocol: str,
    bootstrap: Sequence[tuple[str, int]],
    client_id: str = "sparkpipeline",
    timeout_ms: int = 30000,
) -> str:
    """A name of kafkawire.dialects for the option's value.  Anything but "auto" asks nobody.

    auto: the first broker that answers decides.  From 0.10 on it tells what it speaks; an older one closes the
    connection on that question, or is silent (four seconds are lost then; naming the release saves them), and answers
    Metadata: it is then spoken to as 0.8.2, which 0.9 takes as well.  (In the
    middle of an upgrade name the older release.)  Raises OptionRefused, and Unreachable naming every broker.
    """
    if protocol != "auto":
        return _named(protocol)
    tried: list[str] = []
    for host, port in bootstrap:
        broker = Broker(-1, host, port)
        try:
            versions = _versions(broker, client_id, timeout_ms)
            return OLD.release if versions is None else _release(broker, versions)
        except LinkLost as lost:
            tried.append(str(lost))
    raise Unreachable(f"no broker of the cluster answers: {'; '.join(tried) or 'no broker is known'}")


def _named(protocol: str) -> str:
    """Raises OptionRefused."""
    name = SHORT.get(protocol, protocol)
    if name == "0.7" or name.startswith("0.7."):
        raise OptionRefused("0.7 cannot be read yet; this release reads 0.8 to 0.10 and newer", option="protocol")
    try:
        dialect(name)
    except LocalError as unknown:
        raise OptionRefused(f"{unknown}; {HELPS}", option="protocol") from None
    return name


def _versions(broker: Broker, client_id: str, timeout_ms: int) -> Mapping[int, tuple[int, int]] | None:
    """Lowest and highest version of each api; None from a broker older than 0.10.  Raises LinkLost.

    0.8 closes the connection on the question, 0.9 leaves it open and never answers.  Silence is believed when the
    broker answers Metadata and is then silent again: so nobody is taken for old who was only slow.
    """
    try:
        return _asked(broker, client_id, min(timeout_ms, PATIENCE_MS))
    except LinkLost as lost:
        if not isinstance(lost.__cause__, (ConnectionError, TimeoutError)) or not _is_old(
            broker, client_id, timeout_ms
        ):
            raise
        if isinstance(lost.__cause__, ConnectionError):
            return None
    try:
        return _asked(broker, client_id, min(timeout_ms, PATIENCE_MS))
    except LinkLost as lost:
        if isinstance(lost.__cause__, TimeoutError):
            return None
        raise


def _asked(broker: Broker, client_id: str, timeout_ms: int) -> Mapping[int, tuple[int, int]]:
    link = Link(broker, client_id, timeout_ms=timeout_ms)
    try:
        link.open()
        reply = link.call(ASKING.requests.api_versions(ASKING))
    finally:
        link.close()
    return {key: (lowest, highest) for key, lowest, highest in reply["api_versions"]}


def _is_old(broker: Broker, client_id: str, timeout_ms: int) -> bool:
    """Whether it answers Metadata: what merely closes connections may be no Kafka, or one on its way down."""
    link = Link(broker, client_id, timeout_ms=timeout_ms)
    try:
        link.call(OLD.requests.metadata(OLD, None))
    except LinkLost:
        return False
    finally:
        link.close()
    return True


def _release(broker: Broker, versions: Mapping[int, tuple[int, int]]) -> str:
    lowest, _ = versions.get(apis.FETCH.key, (0, 0))
    if lowest > ASKING.speaks(apis.FETCH.key):
        raise OptionRefused(
            f"{broker} is Kafka 4.0 or newer and takes no request of ours: read it with Spark's own format kafka",
            option="protocol",
        )
    for api, version, release in NEWER:
        if versions.get(api.key, (0, 0))[1] >= version:
            return release
    return ASKING.release
