"""The versions that the brokers of one cluster take, and the Dialect that is made of them.

    negotiated(found)    the Dialect of a cluster whose brokers showed themselves to be these
    FollowingDialect     a Dialect that takes over what its cluster becomes while brokers are rolled
    ClusterVersions      asks each broker before anything else is sent to it, and again after its connection broke

Of each api the newest version is used that all brokers take and that we have a table of.  A cluster in the middle of a
roll has brokers of two releases: it is spoken to as the older one, within what the newer one still takes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields, replace

from kafkawire.cluster.release import Ask, BrokerRelease, Ranges, shown_release
from kafkawire.dialects import NEWEST, UNASKED, Dialect, dialect
from kafkawire.errors import LocalError
from kafkawire.model import Broker
from kafkawire.protocol import apis

log = logging.getLogger(__name__)

CORE = (apis.PRODUCE, apis.FETCH, apis.LIST_OFFSETS, apis.METADATA)  # nothing works without these


class NoCommonVersion(LocalError):
    """The brokers of a cluster, and we, have no version of a request in common."""


def taken(found: BrokerRelease) -> Ranges:
    """What a broker really takes.

    Kafka 4.x says that it takes Produce from v0 on, and closes the connection on v0 to v2 (KAFKA-18659): its Fetch,
    which begins with v4, tells it.  Before 0.10 a broker says nothing: then what its release is known for.
    """
    if not found.ranges:
        return {key: (0, version) for key, version in dialect(found.release).versions.items()}
    ranges = dict(found.ranges)
    lowest, _ = ranges.get(apis.FETCH.key, (0, 0))
    if lowest >= 4 and apis.PRODUCE.key in ranges:
        from_, to = ranges[apis.PRODUCE.key]
        ranges[apis.PRODUCE.key] = (max(from_, 3), to)
    return ranges


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
    ranges = common(taken(one) for one in found)
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
        lowest, highest = taken(one).get(api.key, (0, -1))
        said.append(
            f"{one.broker} (Kafka {one.release}) v{lowest} to v{highest}" if highest >= 0 else f"{one.broker}: no"
        )
    ours = f"this version has v0 to v{NEWEST.versions[api.key]}"
    return f"no version of {api.name} that all can speak: {', '.join(said)}; {ours}"


class FollowingDialect(Dialect):
    """A Dialect that whoever holds it can go on holding while its cluster becomes another release.

    Its values are replaced as a whole, between two requests; what was read from it before stays as it was.
    """

    __slots__ = ()

    @classmethod
    def of(cls, row: Dialect) -> FollowingDialect:
        return cls(**{field.name: getattr(row, field.name) for field in fields(Dialect)})

    def become(self, row: Dialect) -> None:
        for field in fields(Dialect):
            object.__setattr__(self, field.name, getattr(row, field.name))


class ClusterVersions:
    """What the brokers of one cluster take, as far as they were asked, and the dialect that follows it.

    pinned      the release that an option names: then no broker is asked and nothing changes; "": they are asked
    name        of the cluster, for the log
    changed     called after the dialect has changed

    Until a broker has said something the dialect is that of UNASKED, whose requests every broker before 4.0 takes.
    """

    def __init__(
        self, pinned: str = "", name: str = "the cluster", changed: Callable[[Dialect], object] = lambda now: None
    ) -> None:
        self.pinned = pinned
        self.dialect = FollowingDialect.of(dialect(pinned or UNASKED))
        self._name = name
        self._changed = changed
        self._found: dict[tuple[str, int], BrokerRelease] = {}
        self._again: set[tuple[str, int]] = set()  # addresses whose broker may be another release now

    @property
    def asked(self) -> bool:
        """Whether any broker has said what it is."""
        return bool(self._found)

    @property
    def releases(self) -> list[BrokerRelease]:
        """What the brokers showed themselves to be; those known by a bootstrap address alone only where there is no
        other."""
        numbered = [one for one in self._found.values() if one.broker.id >= 0]
        return sorted(numbered or self._found.values(), key=lambda one: one.broker)

    def unknown(self, broker: Broker) -> bool:
        """Whether this broker is to be asked before anything else is sent to it."""
        address = _address(broker)
        return not self.pinned and (address not in self._found or address in self._again)

    def meet(self, broker: Broker, ask: Ask) -> None:
        """Ask a broker what it is, where that is not known.  ask: sends it one request and waits for the reply.

        Raises what ask raises (LinkLost), and NoCommonVersion.
        """
        if self.unknown(broker):
            release, ranges = shown_release(ask)
            self.told(BrokerRelease(broker, release, ranges))

    def told(self, found: BrokerRelease) -> None:
        """A broker showed itself to be this.  Raises NoCommonVersion."""
        address = _address(found.broker)
        moved = [at for at, one in self._found.items() if one.broker.id == found.broker.id and at != address]
        for at in moved:
            del self._found[at]
        self._found[address] = found
        self._again.discard(address)
        if not self.pinned:
            self._become(negotiated(self.releases))

    def lost(self, broker: Broker) -> None:
        """A connection to a broker broke: it may come back as another release."""
        self._again.add(_address(broker))

    def _become(self, row: Dialect) -> None:
        before = (self.dialect.release, self.dialect.versions)
        if before == (row.release, row.versions):
            return
        self.dialect.become(row)
        if len(self._found) > 1 and before[0] != row.release:
            log.info("%s: spoken to as Kafka %s from now on, before as %s", self._name, row.release, before[0])
        self._changed(self.dialect)


def _address(broker: Broker) -> tuple[str, int]:
    return broker.host, broker.port
