"""Why a broker will never serve what we ask, however long it is waited for: its release, or TLS, or SASL.

    release    requests of the configured release are not taken (kafkawire.cluster.release), or it is of 0.7
    TLS        it answers a TLS handshake, and closes on everything plain
    SASL       it answers ApiVersions, which needs no login, and closes on everything else

Each question has a connection of its own, which is closed again.  Nothing is created.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable

from kafkawire.cluster.release import BEFORE, BrokerRelease, ask_ranges, ask_release
from kafkawire.dialects import Dialect, dialect, release_number
from kafkawire.errors import LinkLost, WireError
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.net.link import Connect, Link
from kafkawire.protocol import apis

USED = (apis.PRODUCE, apis.FETCH, apis.LIST_OFFSETS, apis.METADATA)  # of every mirror, consumer and producer
ASKED_FROM = release_number("0.9")  # brokers of any source take the requests of what is older
TIMEOUT_MS = 3000
ENOUGH_S = 5.0
PLAINTEXT_HELPS = "this version speaks neither TLS nor SASL: name a PLAINTEXT listener"
_HANDSHAKE, _ALERT, _TLS_MAJOR = 22, 21, 3  # the first bytes of an answer in TLS


def why_never(
    brokers: Iterable[Broker], speaks: Dialect, option: str, connect: Connect = socket.create_connection
) -> str | None:
    """Why one of these brokers cannot be spoken to as a release of 0.8 or later; None: nothing is known against it.

    option: the one that names the release, for the sentence.  A broker that is out of reach says nothing; after
    ENOUGH_S no other is asked, because brokers that are silent cost TIMEOUT_MS each.
    """
    until = time.monotonic() + ENOUGH_S
    for broker in brokers:
        found = _why_never(broker, speaks, option, connect)
        if found is not None or time.monotonic() > until:
            return found
    return None


def _why_never(broker: Broker, speaks: Dialect, option: str, connect: Connect) -> str | None:
    try:
        found = ask_release(broker, connect, TIMEOUT_MS)
    except LinkLost as lost:
        closed = isinstance(lost.__cause__, ConnectionError) and not isinstance(lost.__cause__, ConnectionRefusedError)
        return _why_closed(broker, speaks, option, connect) if closed else None
    if not found.takes_old_apis:
        return (
            f"{broker} is Kafka 4.0 or later, which takes neither messages nor fetches from this version: "
            "name a cluster of a release up to 3.9"
        )
    if _takes(found, speaks):
        return None
    return f"{broker} is Kafka {_named(found)}, and {option} is {speaks.release}: set it to {found.release}"


def _takes(found: BrokerRelease, speaks: Dialect) -> bool:
    """Whether it takes the versions of the requests that are used.  Before 0.10 a broker does not say: 0.9 has the
    versions of its own row, and 0.8 answers as v0 whatever was asked."""
    if found.ranges:
        return all(found.takes(api, speaks.speaks(api.key)) for api in USED)
    return speaks.number < release_number("0.10") if found.release != BEFORE.release else speaks.number < (0, 9)


def _named(found: BrokerRelease) -> str:
    return "0.8" if found.release == BEFORE.release else found.release


def _why_closed(broker: Broker, speaks: Dialect, option: str, connect: Connect) -> str | None:
    """Why a listener closes on Metadata."""
    if _speaks_tls(broker, connect):
        return f"{broker} has a TLS listener at this address, and {PLAINTEXT_HELPS}"
    try:
        if ask_ranges(broker, connect, TIMEOUT_MS):
            return f"{broker} has a listener at this address that asks for a login (SASL), and {PLAINTEXT_HELPS}"
    except WireError:
        pass  # it closes on that, too
    if _is_of_07(broker, connect):
        return f"{broker} is Kafka 0.7, and {option} is {speaks.release}: set it to 0.7.2"
    return None


def _is_of_07(broker: Broker, connect: Connect) -> bool:
    """A fetch of 0.7, of a topic that is not there, has an answer; a later broker closes on it."""
    seven = dialect("0.7.2")
    tp = TopicPartition("kafkawire-asks-for-the-release", BrokerPartition(0, 0))
    link = Link(broker, "", connect, TIMEOUT_MS)
    try:
        link.call(seven.requests.fetch(seven, 0, 0, [(tp, 0, 1024)]))
    except WireError:
        return False
    finally:
        link.close()
    return True


def _speaks_tls(broker: Broker, connect: Connect) -> bool:
    """Whether it answers the first message of a handshake in TLS, be it by an alert."""
    try:
        opened = connect((broker.host, broker.port), TIMEOUT_MS / 1000)
        try:
            opened.settimeout(TIMEOUT_MS / 1000)
            opened.sendall(_client_hello(broker.host))
            first = bytes(opened.recv(2))
        finally:
            opened.close()
    except OSError:
        return False
    return len(first) == 2 and first[0] in (_HANDSHAKE, _ALERT) and first[1] == _TLS_MAJOR


def _client_hello(host: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    theirs, ours = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(theirs, ours, server_hostname=host).do_handshake()
    except ssl.SSLWantReadError:
        pass  # it waits for the answer, which we only look at
    return ours.read()
