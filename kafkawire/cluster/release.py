"""Release of a broker as its responses show it, and reasons why a broker can never be used: its release, TLS, or SASL.

Brokers of 0.10 and later answer ApiVersions with the versions of each api that they support.  Older ones do not: 0.8
closes the connection, 0.9 never answers.  So Metadata v1 is asked first: 0.10 and later answer in its layout, an older
one in the layout of v0, and of those only 0.9 lists groups.

    release    the broker does not support the requests of the configured release, or is 0.7
    security   errors of certificates and logins, from kafkawire.net.tls and kafkawire.net.security
    TLS        it answers a TLS handshake, and closes the connection on plain requests; or the reverse
    SASL       it answers ApiVersions, which needs no login, and closes the connection on everything else

Each check uses its own connection, which is closed afterwards.  Nothing is created.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from groundwork.connecting import connect as blocking_connect
from groundwork.tlscontext import TlsUnusable
from kafkawire.dialects import DIALECTS, Dialect, dialect, release_number
from kafkawire.errors import LinkLost, RemoteError, SecurityRefused, WireError
from kafkawire.interfaces import Fields
from kafkawire.model import RECORD_BATCH, Broker, BrokerPartition, TopicPartition
from kafkawire.net.link import Connect, Link, SecurityFailure
from kafkawire.net.security import OPEN, PLAINTEXT, plain_of, security_of
from kafkawire.net.tls import Tls
from kafkawire.protocol import apis
from kafkawire.protocol.requests08 import WITHOUT_BATCHES, Request

Ranges = Mapping[int, tuple[int, int]]  # api key -> lowest and highest version
Ask = Callable[[Any], Any]  # sends one request and waits for its response; raises LinkLost

ASKING = dialect("0.10.0")  # the first release that answers ApiVersions
BEFORE = dialect("0.8.2")
# A broker that supports this version of an api is at least that release (schemas of Kafka's sources, 0.10.0 to 3.9).
KNOWN_BY = (
    (apis.LIST_OFFSETS, 11, "4.2"),
    (apis.PRODUCE, 13, "4.1"),
    (apis.PRODUCE, 12, "4.0"),
    (apis.FETCH, 17, "3.9"),
    (apis.PRODUCE, 11, "3.8"),
    (apis.PRODUCE, 10, "3.7"),
    (apis.OFFSET_COMMIT, 9, "3.6"),
    (apis.FETCH, 15, "3.5"),
    (apis.FETCH, 13, "3.1"),
    (apis.OFFSET_FETCH, 8, "3.0"),
    (apis.PRODUCE, 9, "2.8"),
    (apis.FETCH, 12, "2.7"),
    (apis.OFFSET_FETCH, 7, "2.5"),
    (apis.PRODUCE, 8, "2.4"),
    (apis.FETCH, 11, "2.3"),
    (apis.LIST_OFFSETS, 5, "2.2"),
    (apis.FETCH, 10, "2.1"),
    (apis.FETCH, 8, "2.0"),
    (apis.FETCH, 7, "1.1"),
    (apis.FETCH, 6, "1.0"),
    (apis.FETCH, 4, "0.11"),
    (apis.OFFSET_FETCH, 2, "0.10.2"),
    (apis.LIST_OFFSETS, 1, "0.10.1"),
)
FIRST_WITHOUT_OLD_APIS = "4.0"


@dataclass(frozen=True, slots=True)
class BrokerRelease:
    """Release and request versions of a broker, as its responses show them.

    release   the newest release whose requests it supports; the broker may be newer ("0.8.2": 0.8.0 to 0.8.2)
    ranges    api key -> (lowest, highest) version that it claims to support; empty before 0.10
    """

    broker: Broker
    release: str
    ranges: Ranges

    @property
    def number(self) -> tuple[int, ...]:
        """Return the release as numbers, for comparison with kafkawire.dialects.release_number of another one."""
        return release_number(self.release)

    @property
    def taken(self) -> Ranges:
        """Return the versions that the broker really supports.

        Kafka 4.x claims to support Produce v0, but closes the connection on v0 to v2 (KAFKA-18659); it is recognized by
        its Fetch, which begins with v4.  A broker before 0.10 sends no versions, so those of its release are used.
        """
        if not self.ranges:
            return {key: (0, version) for key, version in dialect(self.release).versions.items()}
        ranges = dict(self.ranges)
        lowest, _ = ranges.get(apis.FETCH.key, (0, 0))
        if lowest >= 4 and apis.PRODUCE.key in ranges:
            first, last = ranges[apis.PRODUCE.key]
            ranges[apis.PRODUCE.key] = (max(first, 3), last)
        return ranges

    def takes(self, api: apis.Api, version: int) -> bool:
        """True if the broker claims to support this version; False before 0.10, which has no ApiVersions."""
        lowest, highest = self.taken.get(api.key, (0, -1)) if self.ranges else (0, -1)
        return lowest <= version <= highest


def ask_release(
    broker: Broker, connect: Connect = blocking_connect, timeout_ms: int = 30000, client_id: str = "kafkawire"
) -> BrokerRelease:
    """Ask one broker of Kafka 0.8 or later for its release.  Creates nothing.

    Raises LinkLost: the broker does not answer, its listener requires TLS or SASL (ask_ranges recognizes SASL), or it
    is not Kafka.
    """
    link = Link(broker, client_id, connect, timeout_ms)
    try:
        release, ranges = shown_release(link.call)
    finally:
        link.close()
    return BrokerRelease(broker, release, ranges)


def shown_release(ask: Ask) -> tuple[str, Ranges]:
    """Return the release of a broker and the versions that it claims to support (none before 0.10).

    ask: sends one request and waits for its response; all requests use one connection, which an older broker may close.
    Raises the exceptions of ask (LinkLost).
    """
    ranges = asked_ranges(ask)
    if ranges:
        return release_of(ranges), ranges
    try:
        ask(ASKING.requests.list_groups(ASKING))
    except LinkLost as lost:
        if isinstance(lost.__cause__, ConnectionError):
            return BEFORE.release, {}
        raise
    return "0.9", {}


def candidates(release: str) -> list[str]:
    """Return the releases that a broker may have if its responses show this one: they cannot be told apart.

    For the newest known release this is "4.2 or later", since later ones support its requests too.
    """
    if not any(name == release for _, _, name in KNOWN_BY) and release != BEFORE.release:
        return [release]
    if release == BEFORE.release:
        return [name for name, row in DIALECTS.items() if row.describes_itself and row.number <= BEFORE.number]
    newer = [number for _, _, name in KNOWN_BY if (number := release_number(name)) > release_number(release)]
    end = min(newer, default=None)
    if end is None:
        return [f"{release} or later"]
    return [name for name, row in DIALECTS.items() if release_number(release) <= row.number < end]


def asked_releases(
    brokers: Iterable[Broker], spoken: Dialect, connect: Connect, timeout_ms: int = 6000
) -> dict[Broker, BrokerRelease | WireError]:
    """Return the release that each broker shows, or why it does not answer.  Brokers of 0.7 do not show a release: one
    that accepts a connection is assumed to be the expected release.
    """
    found: dict[Broker, BrokerRelease | WireError] = {}
    for broker in sorted(brokers):
        try:
            found[broker] = _asked(broker, spoken, connect, timeout_ms)
        except WireError as away:
            found[broker] = away
    return found


def _asked(broker: Broker, spoken: Dialect, connect: Connect, timeout_ms: int) -> BrokerRelease:
    if spoken.describes_itself:
        return ask_release(broker, connect, timeout_ms)
    link = Link(broker, "kafkawire", connect, timeout_ms)
    try:
        link.open()
    finally:
        link.close()
    return BrokerRelease(broker, spoken.release, {})


def releases(asked: Mapping[Broker, BrokerRelease | WireError], spoken: Dialect) -> Iterator[str]:
    """Yield lines on the release of each broker, equal ones together.  spoken: the dialect used for them."""
    by_line: dict[str, list[Broker]] = {}
    for broker, found in asked.items():
        if isinstance(found, WireError):
            line = f"of unknown release: {found}"
        elif not spoken.describes_itself:
            line = f"Kafka 0.7 (it does not report its exact release), used as {spoken.release}"
        else:
            line = f"Kafka {' or '.join(candidates(found.release))}, used as {spoken.release}"
        by_line.setdefault(line, []).append(broker)
    for line, those in by_line.items():
        yield f"{', '.join(f'broker {one.id} ({one.host}:{one.port})' for one in those)}: {line}"


def asked_ranges(ask: Ask) -> Ranges:
    """Return the versions as ask_ranges() does, or none if the broker is older than 0.10.

    ask: sends one request and waits for its response.  Raises the exceptions of ask (LinkLost).
    """
    if not ask(_Metadata(apis.METADATA, 1, [apis.METADATA.encode_request(1, {"topics": []})])):
        return {}
    return _ranges(ask(ASKING.requests.api_versions(ASKING)))


class _Metadata(Request):
    """Metadata v1 without a topic; its decoded response is True if the broker supports that version.

    0.8 and 0.9 answer it as v0, with all topics.
    """

    def _read(self, data: memoryview) -> bool:
        try:
            apis.METADATA.decode_reply(1, data)
        except RemoteError:
            apis.METADATA.decode_reply(0, data)  # bytes that parse as neither are not from Kafka
            return False
        return True


def ask_ranges(
    broker: Broker, connect: Connect = blocking_connect, timeout_ms: int = 30000, client_id: str = "kafkawire"
) -> Ranges:
    """Return the versions of each api that a broker of 0.10 or later claims to support: api key -> (lowest, highest).

    A listener with SASL answers this before a login, and closes the connection on anything else.  Raises LinkLost: 0.8
    closes the connection, 0.9 is silent until the timeout.
    """
    link = Link(broker, client_id, connect, timeout_ms)
    try:
        return _ranges(link.call(ASKING.requests.api_versions(ASKING)))
    finally:
        link.close()


def _ranges(reply: Fields) -> Ranges:
    return {key: (lowest, highest) for key, lowest, highest in reply["api_versions"]}


def release_of(ranges: Mapping[int, tuple[int, int]]) -> str:
    """Return the newest release that supports all of these ranges; at least "0.10.0", and "4.0" for every 4.x."""
    lowest, _ = ranges.get(apis.FETCH.key, (0, 0))
    for api, version, release in KNOWN_BY:
        if ranges.get(api.key, (0, -1))[1] >= version:
            return release
    if lowest > ASKING.speaks(apis.FETCH.key):
        return FIRST_WITHOUT_OLD_APIS
    return ASKING.release


USED = (apis.PRODUCE, apis.FETCH, apis.LIST_OFFSETS, apis.METADATA)  # used by every mirror, consumer and producer
ASKED_FROM = release_number("0.9")  # brokers of every source support the requests of older releases
TIMEOUT_MS = 3000
ENOUGH_S = 5.0
_HANDSHAKE, _ALERT, _TLS_MAJOR = 22, 21, 3  # the first bytes of an answer in TLS


def why_never(
    brokers: Iterable[Broker], speaks: Dialect, option: str, connect: Connect = blocking_connect
) -> str | None:
    """Return why one of these brokers cannot be used as a release of 0.8 or later; None if no reason is known.

    option: the option that names the release, for the error.  An unreachable broker gives no reason; after ENOUGH_S no
    further broker is asked, because each silent one costs TIMEOUT_MS.
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
    except SecurityRefused as refused:
        return str(refused)
    except LinkLost as lost:
        why = lost.__cause__
        closed = isinstance(why, ConnectionError) and not isinstance(why, ConnectionRefusedError)
        if closed or isinstance(why, (SecurityFailure, RemoteError)):
            return _why_closed(broker, speaks, option, connect)
        return None
    if _takes(found, speaks):
        return None
    return f"{broker} is Kafka {_named(found)}, and {option} is {speaks.release}: set it to {found.release}"


def _takes(found: BrokerRelease, speaks: Dialect) -> bool:
    """True if the broker supports the request versions in use.  A broker before 0.10 does not report them: 0.9 has the
    versions of its own row, and 0.8 answers every request as v0."""
    if found.ranges:
        produced = speaks.speaks(apis.PRODUCE.key)
        if min(speaks.formats) < RECORD_BATCH and not found.takes(apis.PRODUCE, min(produced, WITHOUT_BATCHES)):
            return False  # its row says that it stores sets of older formats
        return all(found.takes(api, speaks.speaks(api.key)) for api in USED)
    return speaks.number < release_number("0.10") if found.release != BEFORE.release else speaks.number < (0, 9)


def _named(found: BrokerRelease) -> str:
    return "0.8" if found.release == BEFORE.release else found.release


def _why_closed(broker: Broker, speaks: Dialect, option: str, connect: Connect) -> str | None:
    """Return why a listener closes the connection on Metadata, or on a handshake."""
    security, plain = security_of(connect), plain_of(connect)
    said, tls = f"security.protocol is {security.protocol}", _speaks_tls(broker, plain, security.tls)
    if security.encrypts and not tls:
        without = security.protocol.replace("SSL", PLAINTEXT) if security.sasl is not None else PLAINTEXT
        if _answers(broker, plain):
            return f"{broker} has a listener without TLS at this address, and {said}: set it to {without}"
        return None
    if tls and not security.encrypts:
        helps = "SASL_SSL" if security.sasl is not None else "SSL, or SASL_SSL if it requires a login"
        return f"{broker} has a TLS listener at this address, and {said}: set it to {helps} (and ssl.ca.location)"
    if security.sasl is None and _answers(broker, connect):
        return (
            f"{broker} has a listener at this address that requires a login (SASL), and {said}: set it to "
            f"SASL_{security.protocol}, with sasl.mechanism"
        )
    if security != OPEN:
        return _why_twice(broker, connect)
    if _is_of_07(broker, connect):
        return f"{broker} is Kafka 0.7, and {option} is {speaks.release}: set it to 0.7.2"
    return None


def _answers(broker: Broker, connect: Connect) -> bool:
    """True if the broker answers a request that needs no login."""
    try:
        return bool(ask_ranges(broker, connect, TIMEOUT_MS))
    except WireError:
        return False


def _why_twice(broker: Broker, connect: Connect) -> str | None:
    """Return what closed the connection because of TLS or a login, if it happens twice: a broker that is shutting down
    is not at fault."""
    link = Link(broker, "kafkawire", connect, TIMEOUT_MS)
    try:
        link.call(ASKING.requests.metadata(ASKING, []))
    except LinkLost as lost:
        return str(lost) if isinstance(lost.__cause__, SecurityFailure) else None
    finally:
        link.close()
    return None


def _is_of_07(broker: Broker, connect: Connect) -> bool:
    """True for a broker of 0.7: it answers a 0.7 fetch of a missing topic, while a later broker closes the
    connection."""
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


def _speaks_tls(broker: Broker, connect: Connect, tls: Tls) -> bool:
    """True if the broker answers the first message of a TLS handshake with TLS, even with an alert."""
    try:
        opened = connect((broker.host, broker.port), TIMEOUT_MS / 1000)
        try:
            opened.settimeout(TIMEOUT_MS / 1000)
            opened.sendall(_client_hello(broker.host, tls))
            first = bytes(opened.recv(2))
        finally:
            opened.close()
    except (OSError, TlsUnusable):
        return False
    return len(first) == 2 and first[0] in (_HANDSHAKE, _ALERT) and first[1] == _TLS_MAJOR


def _client_hello(host: str, tls: Tls) -> bytes:
    """Return the first message of a handshake by these settings; raises TlsUnusable."""
    context = tls.checked()
    theirs, ours = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(theirs, ours, server_hostname=host).do_handshake()
    except ssl.SSLWantReadError:
        pass  # the object waits for an answer that is not needed
    return ours.read()
