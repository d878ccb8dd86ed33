"""What registered brokers are, by how they write themselves down in ZooKeeper: their generation and listeners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.errors import NoPlainListener, RemoteError
from kafkawire.interfaces import Znodes
from kafkawire.znodes.text import of_counting_broker


def partitions_by_broker(nodes: Iterable[bytes]) -> bool | None:
    """What Dialect.partitions_by_broker is for them: True for 0.7, whose nodes are text, False for the JSON of later
    ones.  None where there is nothing to tell it by, or both."""
    found = set()
    for data in nodes:
        if of_counting_broker(data.decode(errors="replace")):
            found.add(True)
        elif data.lstrip().startswith(b"{"):
            found.add(False)
    return found.pop() if len(found) == 1 else None


def secured_brokers(nodes: Mapping[int, bytes], znodes: Znodes) -> dict[int, tuple[str, ...]]:
    """The endpoints of those brokers whose listeners all want TLS or SASL, by id."""
    found = {}
    for broker, data in sorted(nodes.items()):
        try:
            znodes.broker(broker, data)
        except NoPlainListener as secured:
            found[broker] = secured.endpoints
        except RemoteError:
            continue  # it makes no sense, or is of another generation: told elsewhere
    return found


def all_secured(found: Mapping[int, tuple[str, ...]]) -> str:
    """The sentence about a cluster all of whose brokers are such."""
    first = min(found)
    return (
        f"every broker has TLS or SASL listeners only, and this version speaks neither (broker {first}: "
        f"{', '.join(found[first])}): give the brokers a PLAINTEXT listener"
    )
