"""`mirrormaker check --online`: connects to every cluster, says what a start would find.  Creates and joins nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kazoo.exceptions import KazooException

from groundwork.output import print_note, write
from groundwork.sentences import counted
from groundwork.tasks import connect
from groundwork.zksecurity import ZkSecurity
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.listoffsets import LATEST
from kafkawire.cluster.metadata import MetadataSource, Unreachable
from kafkawire.cluster.release import releases
from kafkawire.cluster.retry import ONCE
from kafkawire.cluster.topicadmin import TopicAdmin
from kafkawire.cluster.versions import ClusterVersions, NoCommonVersion, spoken_versions
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import (
    read_brokers,
    read_owners,
    read_partitions,
    read_settings,
    read_topics,
    read_view,
)
from kafkawire.dialects import Dialect, expected
from kafkawire.errors import LinkLost, WireError
from kafkawire.model import Broker, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import apis
from kafkawire.protocol.adminapis import CREATE_TOPICS
from kafkawire.protocol.adminrequests import Setting
from mirrormaker import exits
from mirrormaker.config import Configuration, route_rules
from mirrormaker.exactlyonce.transactions import NoTransactions, require_transactions
from mirrormaker.formatlosses import sample_topics, timestamps_lost
from mirrormaker.options import SourceOptions, TargetOptions
from mirrormaker.probe import (
    NoBrokers,
    OtherCluster,
    SourceView,
    WrongVersion,
    named,
    no_topic_matches,
    probe_source,
    probe_target,
    probe_target_zookeeper,
    require_generation,
    same_cluster,
    source_view,
    target_brokers,
)
from mirrormaker.retention import (
    WITHOUT_TIMES,
    Kept,
    Old,
    deleted_soon,
    kept_by,
    old_messages,
    remembered_ms,
    stored_twice,
    topic_defaults,
)
from mirrormaker.routes import RouteRules
from mirrormaker.selection import Explanation, merged_sentence, merged_topics, never_ends
from mirrormaker.sizes import size_warnings, topic_limits
from mirrormaker.topiclimits import Creations
from mirrormaker.topics import made_by_brokers
from mirrormaker.zookeeper import zookeeper_session
from zkconsumer.errors import ChrootMissing, ConsumerError
from zkconsumer.errors import Unreachable as ZooKeeperUnreachable
from zkconsumer.offsets.coordinator import Coordinator

COLUMNS = ("source", "topic", "partitions", "target topic", "target partitions", "route")
TIMEOUT_S = 6.0
NO_PACE = 1 << 31  # of new topics a minute: what a check says nothing of
TIMED, BY_TIMESTAMP = 1, 1  # message format with timestamps; version of ListOffsets that goes by them (0.10.1)


def check_online(configuration: Configuration) -> int:
    """Print a row for each topic that is mirrored; the exit code."""
    target, mirror = configuration.target, configuration.mirror
    try:
        with named("target"):
            there = ClusterVersions(target.version, "target")
            view = target_view(target, there)
            if target.zookeeper and expected(target.version).describes_itself:
                probe_target_zookeeper(target, view.brokers, TIMEOUT_S)
            if mirror.exactly_once:
                require_transactions(there.dialect)
        rows: list[dict[str, Any]] = []
        seen: list[tuple[SourceOptions, SourceView]] = []
        refused: list[str] = []
        creations = Creations(target.topic_limits._replace(a_minute=NO_PACE))
        for source in configuration.sources:
            with named(f"source {source.name}"):
                found, of_source, sentences = source_rows(source, configuration, view, there.dialect, creations)
            rows += of_source
            refused += sentences
            seen.append((source, found))
    except (ChrootMissing, NoTransactions, OtherCluster, SameCluster, SourceRefused, WrongVersion) as exc:
        print_note(f"error: {exc}")
        return exits.CONFIGURATION
    except (Unreachable, ZooKeeperUnreachable, ConsumerError) as exc:
        print_note(f"error: {exc}")
        return exits.UNREACHABLE
    write(rows, COLUMNS)
    say_releases(configuration, seen, view)
    say_internal(seen)
    say_workers(configuration, seen)
    warn_of_topics(configuration, seen)
    warn_of_sizes(configuration, seen)
    warn_of_formats(seen, target, view)
    warn_of_retention(configuration, seen, view, there)
    for sentence in refused:
        print_note(f"error: {sentence}")
    return exits.CONFIGURATION if refused else exits.CLEAN


def say_releases(
    configuration: Configuration, seen: Sequence[tuple[SourceOptions, SourceView]], view: ClusterView
) -> None:
    """Say on stderr which releases the brokers are, as exactly as their responses tell."""
    target = configuration.target
    clusters: list[tuple[str, SourceOptions | TargetOptions, Mapping[int, Broker]]] = [
        (f"source {source.name}", source, found.brokers) for source, found in seen
    ]
    clusters.append(("target", target, target_brokers(target, view.brokers)))
    for who, options, brokers in clusters:
        versions, secured = ClusterVersions(options.version, who), options.kafka_security.connect(connect)
        with suppress(NoCommonVersion):
            versions.meet(brokers.values(), secured)
        for line in releases(brokers.values(), versions.dialect, secured):
            print_note(f"{who}: {line}")
        if apis.API_VERSIONS.key in versions.dialect.versions:
            print_note(f"{who}: {spoken_versions(versions.dialect)}")


def say_internal(seen: Sequence[tuple[SourceOptions, SourceView]]) -> None:
    """Say on stderr which topics are not mirrored though the lists select them: brokers keep their own state there."""
    for source, found in seen:
        if found.internal:
            names = ", ".join(found.internal)
            print_note(f"source {source.name}: {names} not mirrored, internal (exclude.internal.topics)")


def say_workers(configuration: Configuration, seen: Sequence[tuple[SourceOptions, SourceView]]) -> None:
    """Say on stderr how many workers would have partitions, where the mirror runs in several and is alone in its
    group."""
    workers, streams = configuration.mirror.workers, configuration.mirror.num_streams
    if workers == 1:
        return
    for source, found in seen:
        counts = found.topics.values()
        most = max(counts, default=0) if source.assignment_strategy == "range" else sum(counts)
        busy = min(workers, -(-most // streams))
        idle = f", {workers - busy} would stand by" if busy < workers else ""
        print_note(
            f"source {source.name}: {busy} of {counted(workers, 'worker')} would own partitions of "
            f"{counted(len(found.topics), 'topic')} ({source.assignment_strategy}){idle}",
        )


def warn_of_sizes(configuration: Configuration, seen: Sequence[tuple[SourceOptions, SourceView]]) -> None:
    """Say on stderr which topics may hold messages that are too large for what comes behind them."""
    target = configuration.target
    for source, found in seen:
        chosen = configuration.selection(source)
        names = {topic: chosen.target(topic) for topic in found.topics}
        here = _limits("zookeeper.connect", source.zookeeper_connect, source.security, names)
        there = _limits("target.zookeeper.connect", target.zookeeper, target.security, names.values())
        for sentence in size_warnings(source, target, names, here=here, there=there):
            print_note(f"warning: {sentence}")


def _limits(option: str, hosts: str, security: ZkSecurity, topics: Iterable[str]) -> dict[str, int]:
    """The limits of topics; none where ZooKeeper is not given or does not answer (any more)."""
    if not hosts:
        return {}
    try:
        with zookeeper_session(option, hosts, TIMEOUT_S, security) as zk:
            return topic_limits(zk, topics)
    except (ZooKeeperUnreachable, ConsumerError, KazooException) as exc:
        print_note(f"warning: {option}: message sizes are not compared: {exc}")
        return {}


def warn_of_topics(configuration: Configuration, seen: Sequence[tuple[SourceOptions, SourceView]]) -> None:
    """Say on stderr which target topics several topics are sent to, and which entries of topic.overrides have none."""
    chosen = [(configuration.selection(source), list(found.topics)) for source, found in seen]
    for target, writers in merged_topics(chosen).items():
        print_note(f"warning: {merged_sentence(target, writers)}")
    idle = [set(one.idle_overrides(topics)) for one, topics in chosen]
    for sentence in sorted(set.intersection(*idle)):  # no topic of any source
        print_note(f"warning: {sentence}")


def warn_of_formats(seen: Sequence[tuple[SourceOptions, SourceView]], target: TargetOptions, view: ClusterView) -> None:
    """Say on stderr which parts of messages will be lost, by cluster and by topic."""
    brokers = [(source, list(found.brokers.values())) for source, found in seen]
    warnings = timestamps_lost(brokers, target, list(target_brokers(target, view.brokers).values()))
    for source, found in seen:
        try:
            sampled = sample_topics(source, list(found.brokers.values()), found.topics)
        except (Unreachable, LinkLost) as problem:
            warnings.append(f"source {source.name}: what its topics hold could not be read: {problem}")
            continue
        warnings += sampled.warnings
        if 0 < sampled.read < sampled.partitions:
            print_note(
                f"source {source.name}: {sampled.read} of {sampled.partitions} partitions were sampled for "
                "headers, transactions and what brokers do not convert",
            )
    for sentence in warnings:
        print_note(f"warning: {sentence}")


def warn_of_retention(
    configuration: Configuration,
    seen: Sequence[tuple[SourceOptions, SourceView]],
    view: ClusterView,
    there: ClusterVersions,
) -> None:
    """Say on stderr which topics hold messages that the target deletes at its next check, since it counts retention by
    their timestamps, and which may be stored twice, since its brokers forget who sent them.  Of a target before 0.10,
    which counts from the arrival, nothing."""
    target, mirror = configuration.target, configuration.mirror
    if there.dialect.magic < TIMED:
        return
    try:
        names = {configuration.selection(source).target(topic) for source, found in seen for topic in found.topics}
        settings = target_settings(target, view, there, names)
    except (Unreachable, LinkLost, ZooKeeperUnreachable, ConsumerError, KazooException) as exc:
        print_note(f"warning: target: how long it keeps messages is not compared: {exc}")
        return
    number = there.dialect.number
    numbered = target.idempotence is not False and target.acks == -1 and not mirror.exactly_once
    forgotten_ms = remembered_ms(settings.broker, number) if numbered else None
    for source, found in seen:
        try:
            sentences = list(_retention_of(source, found, configuration, settings, forgotten_ms))
        except (Unreachable, LinkLost, ZooKeeperUnreachable, ConsumerError, KazooException) as exc:
            sentences = [f"warning: source {source.name}: the age of its messages is not compared: {exc}"]
        for sentence in sentences:
            print_note(sentence)


class TargetSettings(NamedTuple):
    """Settings of the target as far as it tells them.  own: of topics that are there, what they have set; defaults:
    what else holds for them; broker: of one of its brokers, empty before 0.11."""

    own: Mapping[str, Mapping[str, str]]
    defaults: Mapping[str, Mapping[str, str]]
    broker: Mapping[str, str]

    def kept(self, topic: str, made_with: Mapping[str, str]) -> Kept:
        """How long a topic keeps messages.  made_with: what it is created with where it is not there."""
        of_brokers = self.defaults.get(topic) or topic_defaults(self.broker)
        return kept_by(self.own.get(topic, made_with), of_brokers)


def target_settings(
    target: TargetOptions, view: ClusterView, there: ClusterVersions, names: Collection[str]
) -> TargetSettings:
    """Asked of the brokers from 0.11 on; before, ZooKeeper has what topics have set.  Raises Unreachable, LinkLost,
    zkconsumer's Unreachable, ConsumerError."""
    present = [name for name in names if view.partitions(name)]
    links = Links("mirrormaker-check", there.connect(target.kafka_security.connect(connect)), int(TIMEOUT_S * 1000))
    try:
        addresses = [(b.host, b.port) for b in target_brokers(target, view.brokers).values()]
        admin = TopicAdmin(MetadataSource(addresses, there.dialect, links), links, there.dialect, retry=ONCE)
        if admin.describes:
            found = admin.effective(present) if present else {}
            own, others = ({t: _values(said, mine) for t, said in found.items()} for mine in (True, False))
            return TargetSettings(own, others, admin.of_broker())
    finally:
        links.close()
    own = _in_zookeeper("target.zookeeper.connect", target.zookeeper, target.version, target.security, present)
    return TargetSettings(own, {}, {})


def _values(settings: Mapping[str, Setting], own: bool) -> dict[str, str]:
    return {name: one.value for name, one in settings.items() if one.own == own}


def _in_zookeeper(
    option: str, hosts: str, version: str, security: ZkSecurity, topics: Collection[str]
) -> dict[str, dict[str, str]]:
    """What topics have set, as ZooKeeper has it; none where it is not given."""
    if not hosts or not topics:
        return {}
    with zookeeper_session(option, hosts, TIMEOUT_S, security) as zk:
        return read_settings(zk, expected(version).znodes, topics)


def _retention_of(
    source: SourceOptions,
    found: SourceView,
    configuration: Configuration,
    settings: TargetSettings,
    forgotten_ms: int | None,
) -> Iterator[str]:
    """What warn_of_retention says of one source.  Messages of 0.9 and older have no timestamps, so the target counts
    their retention from the arrival."""
    target, versions = configuration.target, ClusterVersions(source.version, f"source {source.name}")
    links = Links("mirrormaker-check", versions.connect(source.kafka_security.connect(connect)), int(TIMEOUT_S * 1000))
    try:
        links.meet(found.brokers.values())
        speaks = versions.dialect
        if speaks.magic < TIMED:
            if forgotten_ms is not None and target.idempotence:
                yield f"source {source.name}: {WITHOUT_TIMES}"
            return
        if speaks.speaks(apis.LIST_OFFSETS.key) < BY_TIMESTAMP:
            yield f"source {source.name}: its brokers find nothing by timestamps, so no age of messages is compared"
            return
        chosen = configuration.selection(source)
        copied = _copied_settings(source, found, target, links, speaks)
        kept = {
            topic: settings.kept(chosen.target(topic), target.topic_settings.of(copied.get(topic, {})))
            for topic in found.topics
        }
        client = KafkaClient.of_brokers([(b.host, b.port) for b in found.brokers.values()], links, speaks)
        ages = {topic: age for topic, one in kept.items() if (age := one.age_ms) is not None}
        for topic, old in _older(client, found.topics, ages).items():
            said = deleted_soon(topic, chosen.target(topic), kept[topic], old)
            if said:
                yield f"warning: source {source.name}: {said}"
        if unknown := [topic for topic, one in kept.items() if one.ms is None]:
            yield (
                f"source {source.name}: how long the target keeps {counted(len(unknown), 'topic')} is not known: "
                "brokers tell it from 0.11 on, so the age of what they hold is not compared"
            )
        if forgotten_ms is not None:
            ages = dict.fromkeys(found.topics, forgotten_ms)
            for said in stored_twice(_older(client, found.topics, ages), forgotten_ms):
                yield f"source {source.name}: {said}"
    finally:
        links.close()


def _older(client: KafkaClient, partitions: Mapping[str, int], ages_ms: Mapping[str, int]) -> dict[str, Old]:
    """Count the messages of each topic that are older than its age."""
    now_ms = int(time.time() * 1000)

    def offsets(time_ms: Callable[[str], int]) -> dict[TopicPartition, int | None]:
        tps = [TopicPartition(topic, n) for topic in ages_ms for n in range(partitions[topic])]
        found = client.list_offsets({tp: time_ms(tp.topic) for tp in tps})
        return {tp: one.offset for tp, one in found.items() if one.error is None}

    first, young = offsets(lambda topic: 0), offsets(lambda topic: now_ms - ages_ms[topic])
    return old_messages(first, young, offsets(lambda topic: LATEST))


def _copied_settings(
    source: SourceOptions, found: SourceView, target: TargetOptions, links: Links, speaks: Dialect
) -> Mapping[str, Mapping[str, str]]:
    """What the topics of a source have set, where target.topic.configs copies any of it."""
    if not target.topic_settings.copied:
        return {}
    if not source.coordinated:
        hosts = source.zookeeper_connect
        return _in_zookeeper("zookeeper.connect", hosts, source.version, source.security, found.topics)
    metadata = MetadataSource([(b.host, b.port) for b in found.brokers.values()], speaks, links)
    admin = TopicAdmin(metadata, links, speaks, retry=ONCE)
    return admin.settings(found.topics) if admin.describes else {}


class SameCluster(ConsumerError):
    """Source and target are one cluster, and nothing of it can be mirrored."""


class SourceRefused(ConsumerError):
    """A source that cannot be meant as it is configured."""


@named("target")
def target_view(target: TargetOptions, versions: ClusterVersions | None = None) -> ClusterView:
    """All topics and brokers of the target; asking for all creates none.  Raises Unreachable, ChrootMissing,
    WrongVersion, ConsumerError."""
    speaks = expected(target.version).through(target.security_protocol)
    if not speaks.describes_itself:
        with zookeeper_session("target.zookeeper.connect", target.zookeeper, TIMEOUT_S, target.security) as zk:
            if not read_brokers(zk, speaks.znodes):
                require_generation(zk, "target.version", target.version)
                raise NoBrokers(f"no brokers are registered under target.zookeeper.connect {target.zookeeper}")
            return read_view(zk, speaks.znodes, read_topics(zk, speaks.znodes))
    versions = versions or ClusterVersions(target.version, "target")
    asking = versions.connect(target.kafka_security.connect(connect))
    links = Links("mirrormaker-check", asking, int(TIMEOUT_S * 1000))
    try:
        return probe_target(KafkaClient.of_brokers(target.brokers, links, versions.dialect).view, target, versions)
    finally:
        links.close()


def source_rows(
    source: SourceOptions, configuration: Configuration, view: ClusterView, sent_to: Dialect, creations: Creations
) -> tuple[SourceView, list[dict[str, Any]], list[str]]:
    """A source, what a start would do with each of its matching topics, and why it would refuse some: sentences.

    sent_to: what the target's brokers showed themselves to be.  creations: what all sources would have made there.
    """
    target, mirror = configuration.target, configuration.mirror
    versions = ClusterVersions(source.version, f"source {source.name}")
    try:
        seen = probe_source(source, mirror, TIMEOUT_S, versions)
    except NoBrokers as exc:
        raise SourceRefused(str(exc)) from exc
    same = same_cluster(seen.brokers, target_brokers(target, view.brokers))
    chosen = configuration.selection(source)
    if same is not None and (sentence := never_ends(chosen, seen.topics)):
        raise SameCluster(f"source {source.name} and the target are one cluster ({same} is in both): {sentence}")
    if not seen.topics:
        print_note(f"warning: {no_topic_matches(source, mirror)}")
    rules = route_rules(source, target, mirror, here=versions.dialect, there=sent_to)
    creates = sent_to.describes_itself and (bool(target.zookeeper) or CREATE_TOPICS.key in sent_to.versions)
    rows = []
    told = [chosen.explain(name, same is not None) for name in seen.topics]
    by_brokers = 1 if sent_to.describes_itself else made_by_brokers(view)  # what a start counts
    wanted = {
        one.target: (source.broker_partitions.total or seen.topics[one.topic]) if creates else by_brokers
        for one in told
        if not one.refused and _changed(one, seen.topics[one.topic], view, rules)
    }
    held_back = creations.refusals(wanted, view.topics, 0.0, "do it yourself")
    for one in told:
        there = len(view.partitions(one.target))
        held = held_back.get(one.target, "")
        rows.append(_row(source, one, seen.topics[one.topic], there, rules=rules, creates=creates, held=held))
    problems = [one.refused for one in told if one.refused]
    problems += [f"target topic {name} is neither created nor grown: {why}" for name, why in held_back.items()]
    return seen, rows, [f"source {source.name}: {problem}" for problem in problems]


def _changed(told: Explanation, partitions: int, view: ClusterView, rules: RouteRules) -> bool:
    """Whether the target topic would be created, or grown."""
    there = len(view.partitions(told.target))
    return not there or (there < partitions and rules.grows(told.topic))


def _row(
    source: SourceOptions, told: Explanation, here: int, there: int, *, rules: RouteRules, creates: bool, held: str
) -> dict[str, Any]:
    wanted = source.broker_partitions.total or here
    shown: object = there
    if held:
        shown = f"{there}, not grown" if there else "missing, not created"
    elif there < wanted and there and rules.grows(told.topic):
        shown, there = f"{there}, grown to {wanted}", wanted
    elif not there and not rules.target.describes_itself:
        shown = "missing, its brokers make it"
    elif not there:
        shown = f"missing, created with {wanted}" if creates else "missing, auto-creation decides"
    refused = told.refused or ("" if there else held)
    route = f"refused: {refused}" if refused else rules.choose(told.topic, wanted, there or wanted, told.target)
    return dict(zip(COLUMNS, (source.name, told.topic, here, told.target, shown, str(route)), strict=True))


def source_topics(source: SourceOptions) -> tuple[dict[str, list[PartitionId]], dict[TopicPartition, str]]:
    """The partitions of every topic of a source, and who of the group owns them.

    Raises Unreachable, ChrootMissing, ConsumerError.
    """
    if source.coordinated:
        return _coordinated_topics(source)
    znodes = expected(source.version).znodes
    with zookeeper_session("zookeeper.connect", source.zookeeper_connect, TIMEOUT_S, source.security) as zk:
        found = read_partitions(zk, znodes, read_topics(zk, znodes))
        owners = read_owners(zk, znodes, source.group_id, found)
    return {topic: list(partitions) for topic, partitions in found.items()}, owners


def _coordinated_topics(source: SourceOptions) -> tuple[dict[str, list[PartitionId]], dict[TopicPartition, str]]:
    """The same of a source whose group Kafka's coordinator keeps."""
    versions = ClusterVersions(source.version)
    view = source_view(source, TIMEOUT_S, versions)
    links = Links(source.client_name, versions.connect(source.kafka_security.connect(connect)), int(TIMEOUT_S * 1000))
    try:
        state = Coordinator(lambda: list(view.brokers.values()), links, versions.dialect, 2).describe(source.group_id)
        owners = state.owners()
    except WireError as reason:
        raise ConsumerError(f"the coordinator of group {source.group_id} tells no owners: {reason}") from reason
    finally:
        links.end()
    return {topic: list(partitions) for topic, partitions in view.topics.items()}, owners
