"""Request versions that the brokers of one cluster support, and the Dialect made from them.

    negotiated(found)    the Dialect of a cluster whose brokers have these releases
    FollowingDialect     a Dialect that follows its cluster through a rolling upgrade
    ClusterVersions      asks each broker for its versions before any other request, and again after a reconnect

For each api the newest version is used that all brokers support and that this package has a table for.  During a
rolling upgrade a cluster has brokers of two releases: the older one's versions are used, as far as the newer one still
supports them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields, replace
from typing import Any

from kafkawire.cluster.release import BrokerRelease, Ranges, ask_release, why_never
from kafkawire.dialects import NEWEST, UNASKED, Dialect, dialect
from kafkawire.errors import LinkLost, LocalError, RemoteError
from kafkawire.model import Broker
from kafkawire.net.link import Connect, SecurityFailure
from kafkawire.net.security import security_of
from kafkawire.protocol import apis
from kafkawire.protocol.adminapis import CREATE_TOPICS

log = logging.getLogger(__name__)

Address = tuple[str, int]
UNKNOWN_ID = -1  # of a broker known only by its address
MEET_MS = 3000
ENOUGH_S = 5.0  # each silent broker costs MEET_MS: the others are asked when they are needed
TOGETHER_S = 1.0  # connections opened within this time ask once

CORE = (apis.PRODUCE, apis.FETCH, apis.LIST_OFFSETS, apis.METADATA)  # nothing works without these


_SHOWN = {api.key for api in (*CORE, apis.OFFSET_COMMIT, apis.OFFSET_FETCH, apis.GROUP_COORDINATOR, CREATE_TOPICS)}


class NoCommonVersion(LocalError):
    """The brokers of a cluster and this package have no version of a request in common."""


def common(those: Iterable[Ranges]) -> Ranges:
    """Return the versions that all of these brokers support; an api that one of them lacks is left out."""
    found: dict[int, tuple[int, int]] | None = None
    for ranges in those:
        if found is None:
            found = dict(ranges)
            continue
        found = {
            key: (max(lowest, ranges[key][0]), min(highest, ranges[key][1]))
            for key, (lowest, highest) in found.items()
            if key in ranges
        }
    return found or {}


def negotiated(found: Collection[BrokerRelease]) -> Dialect:
    """Return the Dialect of a cluster whose brokers have these releases (at least one).

    Capabilities are those of the oldest broker, as far as the newer ones support them.

    Raises NoCommonVersion.
    """
    oldest = min(found, key=lambda one: one.number)
    rows = [dialect(release) for release in {one.release for one in found}]
    ranges = common(one.taken for one in found)
    base = dialect(oldest.release)
    versions = {}
    for key, (lowest, highest) in ranges.items():
        if lowest <= (best := min(highest, NEWEST.versions.get(key, -1))):
            versions[key] = best
    for api in CORE:
        if api.key not in versions:
            raise NoCommonVersion(_nothing_in_common(api, found))
    return replace(
        base,
        versions=versions,
        zookeeper_offsets=base.zookeeper_offsets and ranges.get(apis.OFFSET_COMMIT.key, (0, 0))[0] == 0,
        formats=frozenset.intersection(*(row.formats for row in rows)),
        codecs=frozenset.intersection(*(row.codecs for row in rows)),
        one_wrapper_per_set=any(row.one_wrapper_per_set for row in rows),
        measures_whole_set=any(row.measures_whole_set for row in rows),
    )


def _nothing_in_common(api: apis.Api, found: Collection[BrokerRelease]) -> str:
    said = []
    for one in sorted(found, key=lambda one: one.number):
        lowest, highest = one.taken.get(api.key, (0, -1))
        said.append(
            f"{one.broker} (Kafka {one.release}) v{lowest} to v{highest}" if highest >= 0 else f"{one.broker}: no"
        )
    ours = f"this version has v0 to v{NEWEST.versions[api.key]}"
    return f"no version of {api.name} is supported by all: {', '.join(said)}; {ours}"


def spoken_versions(row: Dialect) -> str:
    """Return a sentence for operators with the versions and formats in use."""
    used = [f"{apis.APIS[key].name} v{version}" for key, version in sorted(row.versions.items()) if key in _SHOWN]
    stored = ", ".join(map(str, sorted(row.formats)))
    return f"{', '.join(used)}; message formats stored as they are: {stored}; written: {row.magic}"


class FollowingDialect(Dialect):
    """Dialect that is updated in place while its cluster changes its release.

    Its values are replaced together, between two requests; values read before do not change.
    """

    __slots__ = ()

    @classmethod
    def of(cls, row: Dialect) -> FollowingDialect:
        return cls(**{field.name: getattr(row, field.name) for field in fields(Dialect)})

    def through(self, protocol: str) -> Dialect:
        object.__setattr__(self, "znodes", Dialect.through(self, protocol).znodes)
        return self

    def become(self, row: Dialect) -> None:
        """Take over all values but the znodes: the lookup of a broker's address does not depend on its release."""
        for field in fields(Dialect):
            if field.name != "znodes":
                object.__setattr__(self, field.name, getattr(row, field.name))


class ClusterVersions:
    """Request versions of the brokers asked so far of one cluster, and the dialect that follows them.

    pinned      the release that an option names: no broker is asked and nothing changes; "": brokers are asked
    name        of the cluster, for the log
    changed     called after the dialect has changed

    Connections that are opened by connect() ask their broker first.  Until a broker has answered, the dialect is
    UNASKED, whose requests every broker before 4.0 supports.
    """

    def __init__(
        self,
        pinned: str = "",
        name: str = "the cluster",
        *,
        changed: Callable[[Dialect], object] = lambda now: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pinned = pinned
        self.dialect = FollowingDialect.of(dialect(pinned or UNASKED))
        self._name = name
        self._changed = changed
        self._now = now
        self._found: dict[Address, BrokerRelease] = {}
        self._asked_at: dict[Address, float] = {}
        self._negotiated = False
        self._tried: set[Address] = set()  # addresses asked by meet(), answered or not

    @property
    def asked(self) -> bool:
        """True if any broker has reported its release."""
        return bool(self._found)

    @property
    def releases(self) -> list[BrokerRelease]:
        """Return the releases that the brokers reported."""
        return sorted(self._found.values(), key=lambda one: one.broker)

    def connect(self, connect: Connect) -> Connect:
        """Return `connect`, wrapped so that each connection first asks its broker for its versions; with a pinned
        release, `connect` itself."""
        return connect if self.pinned else AskingConnect(connect, self)

    def refusal(self, brokers: Iterable[Broker], option: str, connect: Connect) -> str | None:
        """Return why these brokers cannot be used although they are reachable: their release, TLS, SASL; None if no
        reason is known.  If no option names a release, the brokers are asked for it.

        option: the option that names a release. connect: the function passed to connect().
        """
        those = list(brokers)
        if not self.pinned:
            try:
                those = self.meet(those, connect)
            except NoCommonVersion as none:
                return str(none)
        return why_never(those, self.dialect, option, connect)

    def meet(self, brokers: Iterable[Broker], connect: Connect) -> list[Broker]:
        """Ask the cluster's brokers that were not asked yet, so that the first requests to them fit.  Return those that
        closed the connection on it, or refused TLS or a login.

        This takes no more than ENOUGH_S in all.  A broker that does not answer is asked by the first connection to it.
        connect: the function passed to connect().  Raises NoCommonVersion.
        """
        until, closed, those = self._now() + ENOUGH_S, list[Broker](), [] if self.pinned else list(brokers)
        for broker in those:
            address = broker.host, broker.port
            if address in self._tried or address in self._found:
                self._number(broker)
                continue
            if self._now() > until:
                break
            self._tried.add(address)
            try:
                self.told(_ask(broker, connect, MEET_MS))
            except LinkLost as lost:
                log.debug("%s: could not ask %s for its release: %s", self._name, broker, lost)
                why = lost.__cause__
                refused = isinstance(why, (SecurityFailure, RemoteError))
                if refused or (isinstance(why, ConnectionError) and not isinstance(why, ConnectionRefusedError)):
                    closed.append(broker)
        self._forget_aliases({(broker.host, broker.port) for broker in those if broker.id >= 0})
        return closed

    def _forget_aliases(self, addresses: Collection[Address]) -> None:
        """Forget releases found under addresses that no broker has any more, mostly of a bootstrap list."""
        aliases = [at for at, one in self._found.items() if one.broker.id < 0 and at not in addresses]
        if addresses and len(aliases) < len(self._found):
            for alias in aliases:
                del self._found[alias]
            self._become(negotiated(self._found.values()))

    def due(self, address: Address) -> bool:
        """True if a new connection to this address is to ask: connections opened at about the same time ask once."""
        asked_at = self._asked_at.get(address)
        return asked_at is None or self._now() - asked_at > TOGETHER_S

    def told(self, found: BrokerRelease) -> None:
        """Record the release of a broker.  Raises NoCommonVersion."""
        address = found.broker.host, found.broker.port
        before = self._found.get(address)
        if found.broker.id < 0 and before is not None:  # known by its address alone; its id was known before
            found = replace(found, broker=before.broker)
        row = negotiated([found, *(one for at, one in self._found.items() if not _same(one, found))])
        self._asked_at[address] = self._now()
        self._found[address] = found
        self._number(found.broker)
        if not self.pinned:
            self._become(row)

    def _number(self, broker: Broker) -> None:
        """Record a broker's address, and forget what was found under its id at another address."""
        address = broker.host, broker.port
        if broker.id < 0 or address not in self._found:
            return
        self._found[address] = replace(self._found[address], broker=broker)
        for other in [at for at, one in self._found.items() if one.broker.id == broker.id and at != address]:
            del self._found[other]

    def _become(self, row: Dialect) -> None:
        before, first = self.dialect.release, not self._negotiated
        self._negotiated = True
        if (before, self.dialect.versions) == (row.release, row.versions):
            return
        self.dialect.become(row)
        if before != row.release and not first:
            log.info("%s: now used as Kafka %s, before as %s", self._name, row.release, before)
        self._changed(self.dialect)


def _same(one: BrokerRelease, other: BrokerRelease) -> bool:
    here, there = one.broker, other.broker
    return (here.host, here.port) == (there.host, there.port) or (here.id == there.id and here.id >= 0)


class AskingConnect:
    """Connect function whose connections first ask their broker for its versions, and again after each reconnect, when
    the broker may have another release."""

    def __init__(self, connect: Connect, versions: ClusterVersions) -> None:
        self._connect = connect
        self._versions = versions
        self.greeting = getattr(connect, "greeting", None)  # of a login (kafkawire.net.security)
        self.security = security_of(connect)

    def __call__(self, address: tuple[str, int], timeout_s: float) -> Any:
        """Open a connection.  Raises OSError, also if the broker does not report its versions or has none in common
        with us."""
        if self._versions.due(address):
            try:
                self._versions.told(_ask(Broker(UNKNOWN_ID, *address), self._connect, int(timeout_s * 1000)))
            except LinkLost as lost:
                if isinstance(lost.__cause__, OSError):
                    raise lost.__cause__ from lost
                raise OSError(str(lost.__cause__ or lost)) from lost
            except NoCommonVersion as none:
                raise OSError(str(none)) from none
        return self._connect(address, timeout_s)

    def meet(self, brokers: Iterable[Broker]) -> None:
        """Ask the cluster's brokers that were not asked yet.  Brokers without a common version are found by their
        connections."""
        try:
            self._versions.meet(brokers, self._connect)
        except NoCommonVersion as none:
            log.debug("%s", none)


def _ask(broker: Broker, connect: Connect, timeout_ms: int) -> BrokerRelease:
    return ask_release(broker, connect, timeout_ms)
