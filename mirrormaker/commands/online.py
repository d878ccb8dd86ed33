"""`mirrormaker check --online`: connects to every cluster, says what a start would find.  Creates and joins nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kazoo.exceptions import KazooException, NoNodeError

from groundwork.decimals import decimal_int
from groundwork.jsontext import json_value
from groundwork.output import print_note, write
from groundwork.sentences import counted
from groundwork.tasks import connect
from groundwork.zksecurity import ZkSecurity
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import read_owners, read_partitions, read_topics
from kafkawire.dialects import ENTRY_OVERHEAD, Dialect, expected, release_number
from kafkawire.errors import LinkLost, WireError
from kafkawire.model import PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.adminapis import CREATE_TOPICS
from kafkawire.topicnames import colliding, why_no_name
from mirrormaker import exits
from mirrormaker.commands.onlinebrokers import AskedCluster, Unanswered, ask_cluster, unanswered
from mirrormaker.commands.onlineretention import warn_of_retention
from mirrormaker.commands.onlinetarget import (
    TIMEOUT_S,
    refused_by_target,
    require_coordinator,
    require_guarantee,
    source_partitions,
    target_view,
)
from mirrormaker.config import Configuration, route_rules
from mirrormaker.exactlyonce.requirements import NoTransactions
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
    probe_target_zookeeper,
    same_cluster,
    source_view,
    target_brokers,
)
from mirrormaker.routes import RouteRules
from mirrormaker.selection import Explanation, merged_sentence, merged_topics, never_ends
from mirrormaker.topiclimits import Creations
from mirrormaker.topics import made_by_brokers
from mirrormaker.zookeeper import zookeeper_session
from zkconsumer.errors import ChrootMissing, ConsumerError
from zkconsumer.errors import Unreachable as ZooKeeperUnreachable
from zkconsumer.offsets.coordinator import Coordinator

COLUMNS = ("source", "topic", "partitions", "target topic", "target partitions", "route")
REFUSED = "refused: "  # begins the route of a topic that a start would hold back
NO_PACE = 1 << 31  # of new topics a minute: what a check says nothing of
COLLISIONS_FROM = release_number("0.9")  # KAFKA-2337


def check_online(configuration: Configuration) -> int:
    """Print a row for each topic that is mirrored; the exit code."""
    target = configuration.target
    try:
        with named("target"):
            there = ClusterVersions(target.version, "target")
            view = target_view(target, there)
            if target.zookeeper and expected(target.version).describes_itself:
                probe_target_zookeeper(target, view.brokers, TIMEOUT_S)
            require_guarantee(configuration, view, there)
        rows: list[dict[str, Any]] = []
        seen: list[tuple[SourceOptions, SourceView]] = []
        asked: list[AskedCluster] = []
        refused: list[str] = []
        away: list[Unanswered] = []
        creations = Creations(target.topic_limits._replace(a_minute=NO_PACE))
        for source in configuration.sources:
            with named(f"source {source.name}"):
                judged = partial(refused_by_target, configuration, view, there)
                found, of_source, sentences = source_rows(source, configuration, view, there.dialect, creations, judged)
                require_coordinator(configuration, view, there, source, found)
                asked.append(ask_cluster(f"source {source.name}", source, found.brokers.values()))
                away.append(unanswered(asked[-1], source_partitions(source, found), found.topics))
            rows += of_source
            refused += sentences
            seen.append((source, found))
        asked.append(ask_cluster("target", target, target_brokers(target, view.brokers).values()))
        names = {row["target topic"] for row in rows if not row["route"].startswith(REFUSED)}
        away.append(unanswered(asked[-1], view, names, new_topics=not names <= view.topics.keys()))
    except (ChrootMissing, NoTransactions, OtherCluster, SameCluster, SourceRefused, WrongVersion) as exc:
        print_note(f"error: {exc}")
        return exits.CONFIGURATION
    except (Unreachable, LinkLost, ZooKeeperUnreachable, ConsumerError) as exc:
        print_note(f"error: {exc}")
        return exits.UNREACHABLE
    write(rows, COLUMNS)
    for cluster in asked:
        cluster.say()
    say_internal(seen)
    for sentence in (*(s for each in away for s in each.warnings), *(s for each in asked for s in each.pinned_below())):
        print_note(f"warning: {sentence}")
    say_workers(configuration, seen)
    warn_of_topics(configuration, seen)
    warn_of_sizes(configuration, seen)
    warn_of_formats(seen, target, view)
    warn_of_retention(configuration, seen, view, there)
    unreachable = [sentence for each in away for sentence in each.errors]
    for sentence in (*unreachable, *refused):
        print_note(f"error: {sentence}")
    return exits.CONFIGURATION if refused else exits.UNREACHABLE if unreachable else exits.CLEAN


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
    """Return the limits of topics; empty if ZooKeeper is not given or does not answer."""
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


class SameCluster(ConsumerError):
    """Source and target are one cluster, and nothing of it can be mirrored."""


class SourceRefused(ConsumerError):
    """A source that cannot be meant as it is configured."""


Judge = Callable[[SourceOptions, SourceView, Mapping[str, str]], Mapping[str, str]]


def source_rows(
    source: SourceOptions,
    configuration: Configuration,
    view: ClusterView,
    sent_to: Dialect,
    creations: Creations,
    judge: Judge = lambda source, found, new: {},
) -> tuple[SourceView, list[dict[str, Any]], list[str]]:
    """A source, what a start would do with each of its matching topics, and why it would refuse some: sentences.

    sent_to: what the target's brokers showed themselves to be.  creations: what all sources would have made there.
    judge: asks the target which new topics it would refuse.
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
    new = {one.target: one.topic for one in told if one.target in wanted and not view.partitions(one.target)}
    by_brokers_rules = CREATE_TOPICS.key in sent_to.versions or not target.zookeeper
    held_back = _impossible(new, {*view.topics, *creations.made}, sent_to if by_brokers_rules else None)
    held_back |= judge(source, seen, {name: topic for name, topic in new.items() if name not in held_back})
    allowed = {name: count for name, count in wanted.items() if name not in held_back}
    held_back |= creations.refusals(allowed, view.topics, 0.0, "do it yourself")
    for one in told:
        there = len(view.partitions(one.target))
        held = held_back.get(one.target, "")
        rows.append(_row(source, one, seen.topics[one.topic], there, rules=rules, creates=creates, held=held))
    problems = [one.refused for one in told if one.refused]
    problems += [f"target topic {name} is neither created nor grown: {why}" for name, why in held_back.items()]
    return seen, rows, [f"source {source.name}: {problem}" for problem in problems]


def _impossible(new: Mapping[str, str], there: Collection[str], asked: Dialect | None) -> dict[str, str]:
    """Return why the names of new topics would be refused, a clause each.

    asked: the brokers that make them; None: they are made in ZooKeeper.
    """
    found = {name: why for name in new if (why := why_no_name(name))}
    if asked is not None and asked.number >= COLLISIONS_FROM:
        for name, other in colliding(sorted(new.keys() - found.keys()), there).items():
            found[name] = (
                f"brokers take it and {other} for one, because their metrics have '_' for '.': give one of the two "
                "another name (topic.rename, topic.prefix)"
            )
    return found


def _changed(told: Explanation, partitions: int, view: ClusterView, rules: RouteRules) -> bool:
    """True if the target topic would be created, or grown."""
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
    route = f"{REFUSED}{refused}" if refused else rules.choose(told.topic, wanted, there or wanted, told.target)
    return dict(zip(COLUMNS, (source.name, told.topic, here, told.target, shown, str(route)), strict=True))


def source_topics(source: SourceOptions) -> tuple[dict[str, list[PartitionId]], dict[TopicPartition, str]]:
    """Return the partitions of every topic of a source, and the members of the group that own them.

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
    """Return partitions and owners of a source whose group Kafka's coordinator keeps."""
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


# ---- sizes of messages --------------------------------------------------------------------------------------------

LIMIT = "max.message.bytes"  # a topic's own, in ZooKeeper (0.8.1 and later); only brokers know theirs
OVERHEAD = max(ENTRY_OVERHEAD.values())


def topic_limits(zk: Any, topics: Iterable[str]) -> dict[str, int]:
    """Return the limits that topics set themselves, in bytes; topics without one are left out."""
    asked = {topic: zk.get_async(f"/config/topics/{topic}") for topic in topics}
    found: dict[str, int] = {}
    for topic, answer in asked.items():
        try:
            limit = json_value(answer.get()[0])["config"].get(LIMIT)
        except (NoNodeError, ValueError, TypeError, KeyError, AttributeError):
            continue  # not set, or not in the brokers' format
        if (number := decimal_int(str(limit))) is not None:
            found[topic] = number
    return found


def size_warnings(
    source: SourceOptions,
    target: TargetOptions,
    names: Mapping[str, str],
    *,
    here: Mapping[str, int],
    there: Mapping[str, int],
) -> Iterator[str]:
    """Yield sentences about messages that are too large for the next step of their way.  A source topic without a limit
    of its own is not compared.

    names: target topic by source topic.  here, there: topic_limits of both sides.
    """
    for topic, target_topic in names.items():
        at = f"source {source.name}: topic {topic}"
        limit = here.get(topic)
        takes, by = there.get(target_topic), f"{LIMIT} of target topic {target_topic}"
        if takes is None:
            takes, by = target.message_max_bytes, "target.message.max.bytes"
        elif takes < target.message_max_bytes:
            yield (
                f"{at}: {by} is {takes}, less than target.message.max.bytes {target.message_max_bytes}: what is larger "
                "is refused once and then split; lower the option"
            )
        if limit is None:
            continue
        if limit > takes:
            yield (
                f"{at}: {LIMIT} is {limit} there, and {by} {takes}: a message between the two cannot be delivered "
                "(oversize.policy); raise it at the target"
            )
        largest = max(source.fetch_message_max_bytes, source.fetch_growth_max_bytes)
        if limit + OVERHEAD > largest:
            yield (
                f"{at}: {LIMIT} is {limit} there, and fetch.growth.max.bytes {source.fetch_growth_max_bytes}: what is "
                "larger is not fetched; raise it (and queued.max.bytes)"
            )
