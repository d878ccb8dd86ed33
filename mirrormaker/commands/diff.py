"""`mirrormaker diff`: topics, settings and groups of sources and target side by side.  Writes nothing to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from kazoo.exceptions import KazooException

from groundwork.output import print_note, write
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import read_known_settings
from kafkawire.dialects import expected
from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from kafkawire.net.links import Links
from kafkawire.protocol.adminrequests import Setting
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from mirrormaker import exits
from mirrormaker.commands.diffflags import DiffFlags
from mirrormaker.commands.diffgroups import (
    Chosen,
    listed_groups,
    lists_groups,
    merged,
    offsets_in_kafka,
    offsets_in_zookeeper,
)
from mirrormaker.commands.onlinetarget import TIMEOUT_S, admin_of, links_to, target_view
from mirrormaker.config import Configuration
from mirrormaker.differences import (
    COLUMNS,
    QUIET,
    Offsets,
    Row,
    Settings,
    Topic,
    Wanted,
    group_rows,
    only_at_target,
    summary,
    topic_rows,
    unknown_topic,
)
from mirrormaker.options import SourceOptions, TargetOptions
from mirrormaker.probe import (
    NoBrokers,
    OtherCluster,
    SourceView,
    WrongVersion,
    named,
    probe_source,
    probe_target_zookeeper,
    same_cluster,
    target_brokers,
)
from mirrormaker.selection import Selection, target_group
from mirrormaker.topics import replicas_of
from mirrormaker.zookeeper import zookeeper_session
from zkconsumer.errors import ChrootMissing, ConsumerError
from zkconsumer.errors import Unreachable as ZooKeeperUnreachable
from zkconsumer.filters import TopicFilter

WRONG = (ChrootMissing, NoBrokers, OtherCluster, WrongVersion)
AWAY = (Unreachable, LinkLost, ZooKeeperUnreachable, ConsumerError, KazooException)


@dataclass(slots=True)
class Findings:
    """What was found so far.  written: target topics that a source topic is written to.  wrong, away: sentences about
    clusters that cannot be compared, for a lasting reason or because they do not answer."""

    rows: list[Row] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    away: list[str] = field(default_factory=list)

    @property
    def code(self) -> int:
        """Return the exit code: differences come first, as for `verify`."""
        if any(row.differs for row in self.rows):
            return exits.DIFFERENCE
        if self.wrong:
            return exits.CONFIGURATION
        return exits.UNREACHABLE if self.away or any(row.result == "unknown" for row in self.rows) else exits.CLEAN


def run_diff(configuration: Configuration, asked: DiffFlags) -> int:
    """Compare and print; the exit code."""
    found = Findings()
    with _collected(found):
        _compare(configuration, asked, found)
    write([row for row in found.rows if asked.everything or row.result not in QUIET], COLUMNS, asked.output)
    print_note(summary(found.rows))
    for sentence in (*found.wrong, *found.away):
        print_note(f"error: {sentence}")
    return found.code


@contextmanager
def _collected(found: Findings) -> Iterator[None]:
    """Record the error of a cluster that cannot be compared."""
    try:
        yield
    except WRONG as exc:
        found.wrong.append(str(exc))
    except AWAY as exc:
        found.away.append(str(exc))


def _compare(configuration: Configuration, asked: DiffFlags, found: Findings) -> None:
    """Compare each source with the target.  Raises WRONG and AWAY if the target cannot be read."""
    target = configuration.target
    with named("target"):
        versions = ClusterVersions(target.version, "target")
        view = target_view(target, versions)
        if target.zookeeper and expected(target.version).describes_itself:
            probe_target_zookeeper(target, view.brokers, TIMEOUT_S)
        chosen = [configuration.selection(source) for source in configuration.sources]
        there = TargetSide(target, view, versions)
    for source, selection in zip(configuration.sources, chosen, strict=True):
        with _collected(found), named(f"source {source.name}"):
            _compare_source(configuration, source, selection, there, asked, found)
    if not (found.wrong or found.away):  # a source that did not answer may have any topic
        unwritten = view.topics.keys() - found.written
        found.rows += only_at_target(topic for topic in unwritten if _would_be_written(topic, chosen, asked))


def _would_be_written(target_topic: str, chosen: Collection[Selection], asked: DiffFlags) -> bool:
    """True if the mirror would write a target topic from some source topic, whether the sources have it or not."""
    return any(
        any(asked.wants(topic) for topic in one.sent_to(target_topic))
        for one in chosen
        if not one.why_not_written(target_topic)
    )


@dataclass(frozen=True, slots=True)
class Side:
    """Cluster as it was read.  zookeeper: its connect string, "" without one; option: that names it."""

    options: SourceOptions | TargetOptions
    brokers: Mapping[int, Broker]
    versions: ClusterVersions
    option: str
    zookeeper: str

    def session(self) -> AbstractContextManager[Any]:
        """Lend a session with its ZooKeeper."""
        return zookeeper_session(self.option, self.zookeeper, TIMEOUT_S, self.options.security)

    def settings(self, topics: Collection[str]) -> dict[str, Settings] | None:
        """Return the settings of topics; None if the cluster tells none.  A topic is left out if its settings are not
        known, such as one that is closed to us.

        Raises Unreachable, LinkLost, zkconsumer's Unreachable, ConsumerError.
        """
        if not self.versions.dialect.describes_itself:
            return None
        with admin_of(self.options, self.brokers.values(), self.versions) as admin:
            if admin.describes:
                return {topic: _told(said) for topic, said in admin.effective(topics).items()} if topics else {}
        if not self.zookeeper:
            return None
        if not topics:
            return {}
        with self.session() as zk:
            found = read_known_settings(zk, self.versions.dialect.znodes, topics)
        return {topic: Settings(own) for topic, own in found.items()}

    def offsets(self, chosen: Chosen, counts: Mapping[str, int], known: Collection[str] = ()) -> Offsets | None:
        """Return the partitions of topics that groups have an offset of, in either store; None if its
        store is not known: brokers before 0.9, and no ZooKeeper.

        counts: partitions of the topics.  known: groups to ask for if the brokers do not list their own.

        Raises Unreachable, LinkLost, zkconsumer's Unreachable, ConsumerError.
        """
        if not counts:
            return {}
        if not self.zookeeper and not lists_groups(self.versions.dialect):
            return None
        found: Offsets = {}
        if self.zookeeper:
            with self.session() as zk:
                found = offsets_in_zookeeper(zk, chosen, counts)
        if self.versions.dialect.describes_itself:
            with links_to(self.options, self.versions) as links:
                found = merged([found, self._in_kafka(links, chosen, counts, {*known, *found})])
        return found

    def _in_kafka(self, links: Links, chosen: Chosen, counts: Mapping[str, int], known: Collection[str]) -> Offsets:
        dialect, brokers = self.versions.dialect, list(self.brokers.values())
        view = KafkaClient.of_brokers([(broker.host, broker.port) for broker in brokers], links, dialect).view()
        if OFFSETS_TOPIC not in view.topics:
            return {}
        groups = filter(chosen, listed_groups(links, dialect, brokers)) if lists_groups(dialect) else sorted(known)
        partitions = {topic: range(count) for topic, count in counts.items()}
        return offsets_in_kafka(links, dialect, brokers, groups, partitions)


def _told(settings: Mapping[str, Setting]) -> Settings:
    own, defaults = ({name: one.value for name, one in settings.items() if one.own is its} for its in (True, False))
    return Settings(own, defaults)


@dataclass(frozen=True, slots=True)
class TargetSide:
    """Target as it was read."""

    options: TargetOptions
    view: ClusterView
    versions: ClusterVersions

    @property
    def brokers(self) -> Mapping[int, Broker]:
        return target_brokers(self.options, self.view.brokers)

    @property
    def side(self) -> Side:
        return Side(self.options, self.brokers, self.versions, "target.zookeeper.connect", self.options.zookeeper)

    def counts(self, names: Collection[str]) -> dict[str, int]:
        """Return the partitions of the existing ones of these topics."""
        return {name: len(self.view.partitions(name)) for name in names if self.view.partitions(name)}

    def topics(self, names: Collection[str]) -> tuple[dict[str, Topic], bool]:
        """Return the existing ones of these topics, and whether the cluster tells settings.  Raises AWAY."""
        counts, replicas = self.counts(names), dict[str, int]()
        if self.versions.dialect.describes_itself:
            replicas = {name: max(len(one.replicas) for one in self.view.topics[name].values()) for name in counts}
        with named("target"):
            told = self.side.settings(counts)
        return _facts(counts, replicas, told), told is not None

    def offsets(self, chosen: Chosen, names: Collection[str], known: Collection[str]) -> Offsets | None:
        """Return what Side.offsets() returns for the existing ones of these topics."""
        with named("target"):
            return self.side.offsets(chosen, self.counts(names), known)

    def wanted(self, source: SourceOptions, here: Topic, *, settings: bool, defaults: bool) -> Wanted:
        """Return what the mirror makes of a source topic here."""
        options, dialect = self.options, self.versions.dialect
        counted = dialect.describes_itself  # else its brokers decide
        return Wanted(
            partitions=(source.broker_partitions.total or here.partitions) if counted else None,
            replicas=replicas_of(options.replication, here.replicas, len(self.view.brokers), False),
            fixed=options.topic_settings.fixed,
            settings=settings,
            defaults=defaults,
        )


def _compare_source(
    configuration: Configuration,
    source: SourceOptions,
    selection: Selection,
    there: TargetSide,
    asked: DiffFlags,
    found: Findings,
) -> None:
    """Add the rows of one source.  Raises WRONG and AWAY."""
    versions = ClusterVersions(source.version, f"source {source.name}")
    seen = probe_source(source, configuration.mirror, TIMEOUT_S, versions)
    in_target = same_cluster(seen.brokers, there.brokers) is not None
    names: dict[str, str] = {}
    for topic in seen.topics:
        if refusal := selection.refusal(topic, in_target):
            print_note(f"note: source {source.name}: {refusal}: it is not compared")
            continue
        found.written.add(selection.target(topic))
        if asked.wants(topic):
            names[topic] = selection.target(topic)
    zookeeper = "" if source.coordinated else source.zookeeper_connect
    side = Side(source, seen.brokers, versions, "zookeeper.connect", zookeeper)
    found.rows += _topics_of(source, side, seen, names, there, asked)
    if asked.groups is not None and names:
        found.rows += _groups_of(configuration, source.name, side, seen, names, there, asked.groups)


def _topics_of(
    source: SourceOptions, side: Side, seen: SourceView, names: Mapping[str, str], there: TargetSide, asked: DiffFlags
) -> list[Row]:
    """Return the rows of the topics of a source.  names: target topic by topic.  Raises AWAY."""
    told = side.settings(names)
    here = _facts({name: seen.topics[name] for name in names}, seen.replicas, told)
    targets, told_there = there.topics(set(names.values()))
    settings = told is not None and told_there
    if names and not settings:
        silent = _without_settings(side) if told is None else _without_settings(there.side)
        print_note(f"note: source {source.name}: settings are not compared: {silent}")
    rows: list[Row] = []
    for topic, target_topic in names.items():
        if target_topic not in targets and there.view.errors.get(target_topic):
            rows.append(unknown_topic(source.name, topic, target_topic))
            continue
        wanted = there.wanted(source, here[topic], settings=settings, defaults=asked.defaults)
        rows += topic_rows(source.name, topic, target_topic, here[topic], targets.get(target_topic), wanted)
    return rows


def _groups_of(
    configuration: Configuration,
    name: str,
    side: Side,
    seen: SourceView,
    names: Mapping[str, str],
    there: TargetSide,
    groups: TopicFilter,
) -> list[Row]:
    """Return the rows of the groups that have an offset of a topic, compared with the group that they are in the target
    (mirror.groups.rename and .prefix).  The mirror's own groups are left out.

    name: of the source; names: target topic by topic.  Raises AWAY.
    """
    own, mirror = {source.group_id for source in configuration.sources}, configuration.mirror

    def chosen(group: str) -> bool:
        return group not in own and groups.matches(group, exclude_internal=False)

    targets = set(names.values())
    here = side.offsets(chosen, {topic: seen.topics[topic] for topic in names})
    at_source = {target_group(group, mirror.groups_rename, mirror.groups_prefix): group for group in here or ()}

    def compared(group: str) -> bool:
        return group in at_source or (group not in (here or ()) and chosen(group))

    at_target = None if here is None else there.offsets(compared, targets, at_source)
    if here is None or at_target is None:
        silent = side if here is None else there.side
        print_note(f"note: source {name}: groups are not compared: {silent.option} is not given, where they are kept")
        return []
    found = {at_source.get(group, group): offsets for group, offsets in at_target.items()}
    return list(group_rows(name, names, there.counts(targets), here, found))


def _without_settings(side: Side) -> str:
    """Return a clause saying why a cluster tells no settings."""
    dialect = side.versions.dialect
    if not dialect.describes_itself:
        return f"topics of Kafka {dialect.release} have none"
    helps = f": give {side.option}, where they are kept" if isinstance(side.options, TargetOptions) else ""
    return f"brokers of Kafka {dialect.release} do not tell them (0.11 and later do){helps}"


def _facts(
    counts: Mapping[str, int], replicas: Mapping[str, int], told: Mapping[str, Settings] | None
) -> dict[str, Topic]:
    settings = told or {}
    return {name: Topic(count, replicas.get(name, 0), settings.get(name)) for name, count in counts.items()}
