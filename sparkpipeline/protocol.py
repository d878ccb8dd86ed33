"""Which release a cluster is spoken to as: what the option `protocol` says, or what its brokers answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost, LocalError, RemoteError
from kafkawire.model import Broker
from kafkawire.net.link import Link
from kafkawire.requests import Request
from kafkawire.v08 import apis
from sparkpipeline.errors import OptionRefused, Unreachable

SHORT = {"0.7": "0.7.2", "0.8": "0.8.2", "0.9": "0.9", "0.10": "0.10.0"}
ASKING = dialect("0.10.0")  # the first release that answers ApiVersions
OLD = dialect("0.8.2")
NEWER = (  # api, its highest version is at least this, then the cluster is at least that release
    (apis.PRODUCE, 8, "2.4"),
    (apis.FETCH, 4, "0.11"),
    (apis.LIST_OFFSETS, 1, "0.10.1"),
)
HELPS = "one of auto, 0.7, 0.8, 0.9, 0.10, or a release such as 0.10.1"


def resolve_release(
    protocol: str,
    bootstrap: Sequence[tuple[str, int]],
    client_id: str = "sparkpipeline",
    timeout_ms: int = 30000,
) -> str:
    """A name of kafkawire.dialects for the option's value.  Anything but "auto" asks nobody.

    auto: the first broker that answers decides.  Only 0.10 and later answer Metadata v1 as such, and then tell what
    they speak; an older one answers in the layout of v0, and of those only 0.9 lists groups.  (0.9 cannot be asked
    what it speaks: it leaves that question without an answer.)  In the middle of an upgrade name the older release.
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

    def ask(request: Request) -> Any:
        link = Link(broker, client_id, timeout_ms=timeout_ms)  # each its own: an old one may close it
        try:
            return link.call(request)
        finally:
            link.close()

    try:
        ask(ASKING.requests.metadata(ASKING, []))
    except LinkLost as lost:
        if not isinstance(lost.__cause__, RemoteError):
            raise
    else:
        return _release(broker, ask(ASKING.requests.api_versions(ASKING))["api_versions"])
    ask(OLD.requests.metadata(OLD, None))  # what does not answer this either is no Kafka
    try:
        ask(ASKING.requests.list_groups(ASKING))
    except LinkLost as lost:
        if isinstance(lost.__cause__, ConnectionError):
            return OLD.release
        raise
    return "0.9"


def _release(broker: Broker, versions: Iterable[tuple[int, int, int]]) -> str:
    """versions: api, the lowest and the highest it speaks."""
    lowest = {api: low for api, low, _ in versions}
    highest = {api: high for api, _, high in versions}
    if lowest.get(apis.FETCH.key, 0) > ASKING.speaks(apis.FETCH.key):
        raise OptionRefused(
            f"{broker} is Kafka 4.0 or newer and takes no request of ours: read it with Spark's own format kafka",
            option="protocol",
        )
    for api, version, release in NEWER:
        if highest.get(api.key, 0) >= version:
            return release
    return ASKING.release
