"""The versions that the brokers of one cluster take, and the Dialect that is made of them.

    negotiated(found)    the Dialect of a cluster whose brokers showed themselves to be these
    FollowingDialect     a Dialect that takes over what its cluster becomes while brokers are rolled
    ClusterVersions      asks each broker before anything else is sent to it, and again when it comes back

Of each api the newest version is used that all brokers take and that we have a table of.  A cluster in the middle of a
roll has brokers of two releases: it is spoken to as the older one, within what the newer one still takes.
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
UNKNOWN_ID = -1  # of a broker that is known by its address alone
MEET_MS = 3000
ENOUGH_S = 5.0  # brokers that are silent cost MEET_MS each: the others are asked when they are needed
TOGETHER_S = 1.0  # connections that are opened within that time ask once

CORE = (apis.PRODUCE, apis.FETCH, apis.LIST_OFFSETS, apis.METADATA)  # nothing works without these


_SHOWN = {api.key for api in (*CORE, apis.OFFSET_COMMIT, apis.OFFSET_FETCH, apis.GROUP_COORDINATOR, CREATE_TOPICS)}


class NoCommonVersion(LocalError):
    """The brokers of a cluster, and we, have no version of a request in common."""


def common(those: Iterable[Ranges]) -> Ranges:
    """The versions that all of these brokers take; an api that one of them lacks is left out."""
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
    """The Dialect of a cluster whose brokers showed themselves to be these, at least one.

    What a release does is that of the oldest broker, as far as the newer ones do not refuse it.

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
    return f"no version of {api.name} that all can speak: {', '.join(said)}; {ours}"


def spoken_versions(row: Dialect) -> str:
    """Which versions and formats are used, for an operator."""
    used = [f"{apis.APIS[key].name} v{version}" for key, version in sorted(row.versions.items()) if key in _SHOWN]
    stored = ", ".join(map(str, sorted(row.formats)))
    return f"{', '.join(used)}; message formats stored as they are: {stored}; written: {row.magic}"


class FollowingDialect(Dialect):
    """A Dialect that stays valid in the hands of its users while its cluster becomes another release.

    Its values are replaced as a whole, between two requests; what was read from it before stays as it was.
    """

    __slots__ = ()

    @classmethod
    def of(cls, row: Dialect) -> FollowingDialect:
        return cls(**{field.name: getattr(row, field.name) for field in fields(Dialect)})

    def through(self, protocol: str) -> Dialect:
        object.__setattr__(self, "znodes", Dialect.through(self, protocol).znodes)
        return self

    def become(self, row: Dialect) -> None:
        """Take over all but the nodes: where a broker's address is looked up is no matter of its release."""
        for field in fields(Dialect):
            if field.name != "znodes":
                object.__setattr__(self, field.name, getattr(row, field.name))


class ClusterVersions:
    """What the brokers of one cluster take, as far as they were asked, and the dialect that follows it.

    pinned      the release that an option names: then no broker is asked and nothing changes; "": they are asked
    name        of the cluster, for the log
    changed     called after the dialect has changed

    Connections that are opened by connect() ask their broker first.  Until a broker has said something the dialect is
    that of UNASKED, whose requests every broker before 4.0 takes.
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
        self._tried: set[Address] = set()  # by meet, whether it answered or not

    @property
    def asked(self) -> bool:
        """Whether any broker has said what it is."""
        return bool(self._found)

    @property
    def releases(self) -> list[BrokerRelease]:
        """What the brokers showed themselves to be."""
        return sorted(self._found.values(), key=lambda one: one.broker)

    def connect(self, connect: Connect) -> Connect:
        """The same, where each connection asks its broker first what it is; with a pinned release none is asked."""
        return connect if self.pinned else AskingConnect(connect, self)

    def refusal(self, brokers: Iterable[Broker], option: str, connect: Connect) -> str | None:
        """Why these brokers cannot be spoken to, though they are there: their release, TLS, SASL; None: nothing is
        known against it.  Those of a cluster whose release no option names are asked for it.

        option: the one that names a release.  connect: the one that connect() was given.
        """
        those = list(brokers)
        if not self.pinned:
            try:
                those = self.meet(those, connect)
            except NoCommonVersion as none:
                return str(none)
        return why_never(those, self.dialect, option, connect)

    def meet(self, brokers: Iterable[Broker], connect: Connect) -> list[Broker]:
        """These are the brokers of the cluster.  Ask those that were not asked yet, so that the first requests to them
        fit; those that closed the connection on it, or refused TLS or a login.

        All together for no more than ENOUGH_S.  One that does not answer is asked by the first connection to it.
        connect: the one that connect() was given.  Raises NoCommonVersion.
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
                log.debug("%s: %s was not asked for its release: %s", self._name, broker, lost)
                why = lost.__cause__
                refused = isinstance(why, (SecurityFailure, RemoteError))
                if refused or (isinstance(why, ConnectionError) and not isinstance(why, ConnectionRefusedError)):
                    closed.append(broker)
        self._forget_aliases({(broker.host, broker.port) for broker in those if broker.id >= 0})
        return closed

    def _forget_aliases(self, addresses: Collection[Address]) -> None:
        """What was found under an address that no broker has any more: of a bootstrap list, mostly."""
        aliases = [at for at, one in self._found.items() if one.broker.id < 0 and at not in addresses]
        if addresses and len(aliases) < len(self._found):
            for alias in aliases:
                del self._found[alias]
            self._become(negotiated(self._found.values()))

    def due(self, address: Address) -> bool:
        """Whether a new connection to it is to ask: several that are opened at about the same time ask once."""
        asked_at = self._asked_at.get(address)
        return asked_at is None or self._now() - asked_at > TOGETHER_S

    def told(self, found: BrokerRelease) -> None:
        """A broker showed itself to be this.  Raises NoCommonVersion."""
        address = found.broker.host, found.broker.port
        before = self._found.get(address)
        if found.broker.id < 0 and before is not None:  # by its address alone; which one it is was known
            found = replace(found, broker=before.broker)
        row = negotiated([found, *(one for at, one in self._found.items() if not _same(one, found))])
        self._asked_at[address] = self._now()
        self._found[address] = found
        self._number(found.broker)
        if not self.pinned:
            self._become(row)

    def _number(self, broker: Broker) -> None:
        """This is where a broker is: what was found elsewhere under its number is of the past."""
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
            log.info("%s: spoken to as Kafka %s from now on, before as %s", self._name, row.release, before)
        self._changed(self.dialect)


def _same(one: BrokerRelease, other: BrokerRelease) -> bool:
    here, there = one.broker, other.broker
    return (here.host, here.port) == (there.host, there.port) or (here.id == there.id and here.id >= 0)


class AskingConnect:
    """A connect whose connections ask their broker first what it is: before any other request is sent to it, and again
    when it comes back, perhaps as another release."""

    def __init__(self, connect: Connect, versions: ClusterVersions) -> None:
        self._connect = connect
        self._versions = versions
        self.greeting = getattr(connect, "greeting", None)  # of a login (kafkawire.net.security)
        self.security = security_of(connect)

    def __call__(self, address: tuple[str, int], timeout_s: float) -> Any:
        """Raises OSError, also where the broker does not say what it is, or nothing that we speak."""
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
        """As ClusterVersions.meet; brokers without a version in common are found by the connections to them."""
        try:
            self._versions.meet(brokers, self._connect)
        except NoCommonVersion as none:
            log.debug("%s", none)


def _ask(broker: Broker, connect: Connect, timeout_ms: int) -> BrokerRelease:
    return ask_release(broker, connect, timeout_ms)
