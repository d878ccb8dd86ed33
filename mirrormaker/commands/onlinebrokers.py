"""`mirrormaker check --online`: each broker of each cluster is asked, and what those that do not answer, or are another
release than the file says, mean for the mirror.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from groundwork.output import print_note
from groundwork.sentences import counted
from groundwork.tasks import connect
from kafkawire.cluster.release import BrokerRelease, asked_releases, releases
from kafkawire.cluster.versions import ClusterVersions, NoCommonVersion, spoken_versions
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import WireError
from kafkawire.model import Broker
from kafkawire.protocol import apis
from mirrormaker.options import SourceOptions, TargetOptions

NO_ROOM = {  # of a message format, by its number
    0: "which has no timestamps, no headers and no numbers by which brokers store each message once",
    1: "which has no headers and no numbers by which brokers store each message once",
}


@dataclass(frozen=True, slots=True)
class AskedCluster:
    """Brokers of one cluster, each with the release that it shows, or why it does not answer.

    who: `target` or `source NAME`.  option: its name, if it may pin the release.  spoken: the dialect in use.
    """

    who: str
    option: str
    pinned: str
    spoken: Dialect
    brokers: Mapping[Broker, BrokerRelease | WireError]

    @property
    def away(self) -> dict[int, WireError]:
        """Return why brokers do not answer, by their ids."""
        return {one.id: why for one, why in self.brokers.items() if isinstance(why, WireError)}

    def say(self) -> None:
        """Say on stderr which releases the brokers are, as exactly as their responses tell."""
        for line in releases(self.brokers, self.spoken):
            print_note(f"{self.who}: {line}")
        if apis.API_VERSIONS.key in self.spoken.versions:
            print_note(f"{self.who}: {spoken_versions(self.spoken)}")

    def pinned_below(self) -> Iterator[str]:
        """Yield what it costs that the file pins a release of an older message format than the brokers have."""
        found = [one for one in self.brokers.values() if isinstance(one, BrokerRelease)]
        if not self.pinned or not found:
            return
        oldest = min(found, key=lambda one: one.number)
        if self.spoken.magic not in NO_ROOM or self.spoken.magic >= dialect(oldest.release).magic:
            return
        done = "messages are written" if self.who == "target" else "brokers convert what they hold for each fetch"
        yield (
            f"{self.who}: its brokers are Kafka {oldest.release} or later, and {self.option} is {self.pinned}: {done} "
            f"in message format {self.spoken.magic}, {NO_ROOM[self.spoken.magic]}; leave {self.option} out, and the "
            "brokers are asked"
        )


def ask_cluster(who: str, options: SourceOptions | TargetOptions, brokers: Iterable[Broker]) -> AskedCluster:
    """Ask each broker of a cluster, on connections of its own."""
    those = list(brokers)
    versions, secured = ClusterVersions(options.version, who), options.kafka_security.connect(connect)
    with suppress(NoCommonVersion):
        versions.meet(those, secured)
    option = "target.version" if isinstance(options, TargetOptions) else "version"
    found = asked_releases(those, versions.dialect, secured)
    return AskedCluster(who, option, options.version, versions.dialect, found)


class Unanswered(NamedTuple):
    """Sentences about brokers that do not answer: errors if the mirror needs them now, else warnings."""

    errors: Sequence[str]
    warnings: Sequence[str]


def unanswered(
    cluster: AskedCluster, view: ClusterView, topics: Collection[str], new_topics: bool = False
) -> Unanswered:
    """Return what it means that some brokers of a cluster do not answer, or some partitions have no leader.

    view: its partitions with their leaders.  topics: those that the mirror reads or writes.  new_topics: the mirror
    creates some, which any broker may lead.
    """
    leaders = [each.leader for topic in topics for each in view.topics.get(topic, {}).values()]
    partitions = f"{counted(len(leaders), 'partition', form=',')} that the mirror would "
    partitions += "write" if cluster.who == "target" else "read"
    errors, warnings = list[str](), list[str]()
    if leaderless := leaders.count(None):
        errors.append(f"{cluster.who}: {leaderless:,} of {partitions} have no leader now: these would wait")
    for broker, why in sorted(cluster.away.items()):
        led = leaders.count(broker)
        said = f"{cluster.who}: {why}"
        if led:
            errors.append(f"{said}; it leads {led:,} of {partitions}: these would wait")
        elif new_topics:
            errors.append(f"{said}; partitions of topics that the mirror creates would wait where it leads them")
        else:
            warnings.append(f"{said}; it leads no partition that is mirrored now")
    return Unanswered(errors, warnings)
