"""Commands `zkconsumer topics` and `zkconsumer brokers`: show the cluster as ZooKeeper, or any of its brokers, knows
it.

    topics    a row for each partition: leader, replicas, in-sync replicas, error
    brokers   a row for each broker: address; numbers of partitions that it leads, replicates, and has in sync

Brokers are asked for all topics at once and never by name: naming a topic would create it.  ZooKeeper has no error
codes, so a partition without a registered leader gets one here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

import click

from groundwork.commands import Command, output_option
from groundwork.hosts import is_listed
from groundwork.output import EXIT, fail, write
from groundwork.tasks import connect
from groundwork.zksecurity import ZooKeeper
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.release import candidates
from kafkawire.cluster.versions import ClusterVersions, NoCommonVersion
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.cluster.zookeeper import read_secured, read_topics, read_view, told_of
from kafkawire.dialects import expected
from kafkawire.errors import error_info
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.security import security_of
from zkconsumer.commands.commandconfig import chosen_security
from zkconsumer.commands.common import connected, link_pool, print_note, require_metadata
from zkconsumer.commands.options import brokers_option, kafka_version_option, zookeeper_option
from zkconsumer.group.topicnodes import no_brokers

TOPIC_COLUMNS = ("topic", "partition", "leader", "replicas", "isr", "error")
BROKER_COLUMNS = ("broker", "host", "port", "release", "leads", "replicas", "in_sync", "error")
LEADER_NOT_AVAILABLE = 5
Partition = tuple[TopicPartition, PartitionView]
Address = tuple[str, int]


@click.command(
    cls=Command,
    examples=[
        "zkconsumer topics -z zk1:2181/kafka",
        "zkconsumer topics -z zk1:2181/kafka --topic orders -o json",
        "zkconsumer topics -b kafka1:9092 --under-replicated",
    ],
)
@zookeeper_option(required=False)
@brokers_option()
@click.option("--topic", "names", multiple=True, help="Only this topic; repeatable.")
@click.option("--under-replicated", is_flag=True, help="Only partitions with fewer in-sync replicas than replicas.")
@click.option("--unavailable", is_flag=True, help="Only partitions without a leader.")
@kafka_version_option
@output_option()
def topics(
    zookeeper: ZooKeeper | None,
    brokers: list[Address],
    names: tuple[str, ...],
    under_replicated: bool,
    unavailable: bool,
    kafka_version: str,
    output: str,
) -> None:
    """Print leader and replicas of each partition.

    In-sync replicas too, and the error of each partition that has one.
    """
    view = read_cluster(zookeeper, brokers, kafka_version)
    missing = [name for name in names if name not in view.topics and name not in view.errors]
    if missing:
        fail(f"no such topic: {', '.join(missing)}", EXIT["not found"])
    chosen = [
        (tp, partition)
        for tp, partition in partitions_of(view)
        if (not names or tp.topic in names)
        and (not under_replicated or len(partition.isr) < len(partition.replicas))
        and (not unavailable or view.leader(tp) is None)
    ]
    rows = [_partition_row(tp, partition, view.leader(tp) is not None, output) for tp, partition in chosen]
    if not under_replicated:  # unknown for a topic without partitions
        rows += [_topic_row(name, view.errors[name]) for name in sorted(view.errors) if not names or name in names]
    write(rows, TOPIC_COLUMNS, output)


@click.command(
    cls=Command,
    examples=[
        "zkconsumer brokers -z zk1:2181/kafka",
        "zkconsumer brokers -b kafka1:9092,kafka2:9092",
        "zkconsumer brokers -z zk1:2181/kafka -o csv",
    ],
)
@zookeeper_option(required=False)
@brokers_option()
@kafka_version_option
@output_option()
def brokers(zookeeper: ZooKeeper | None, brokers: list[Address], kafka_version: str, output: str) -> None:
    """Print address, release and partition counts of brokers.

    A broker that has replicas and is not registered has an error.

    The release is as exact as a broker's responses tell.  With -b and brokers up to 0.8.1, a broker without any
    partition is not listed.
    """
    view = read_cluster(zookeeper, brokers, kafka_version)
    sasl = chosen_security().sasl
    hosts = sasl.hosts if sasl is not None else ()
    write(broker_rows(view, releases_of(view, kafka_version), hosts), BROKER_COLUMNS, output)


def releases_of(view: ClusterView, kafka_version: str) -> dict[int, str]:
    """Return the release that each broker shows: "0.8.0-0.8.2", "3.9", "4.2 or later"; silent brokers are left out."""
    if not expected(kafka_version).describes_itself:
        return {}
    versions = ClusterVersions()
    with suppress(NoCommonVersion):
        versions.meet(view.brokers.values(), chosen_security().connect(connect))
    found = {one.broker.id: candidates(one.release) for one in versions.releases}
    return {broker: "-".join(dict.fromkeys((those[0], those[-1]))) for broker, those in found.items()}


def read_cluster(zookeeper: ZooKeeper | None, brokers: Sequence[Address], kafka_version: str) -> ClusterView:
    """Return all topics and brokers.  Ends the command with a sentence if they cannot be read."""
    require_metadata(brokers, kafka_version)
    if (zookeeper is None) == (not brokers):
        raise click.UsageError("give one of -z (ZooKeeper) and -b (brokers)")
    if zookeeper is not None:
        with connected(zookeeper, kafka_version) as reach:
            names = reach.session.ask("read topics", read_topics, reach.dialect.znodes)
            if not names and (hint := no_brokers(reach.session, reach.dialect)):
                fail(hint, EXIT["runtime"])
            view = reach.session.ask("read partitions", read_view, reach.dialect.znodes, names)
            if not view.brokers and (hint := no_brokers(reach.session, reach.dialect)):
                fail(hint, EXIT["runtime"])
            secured = reach.session.ask("read brokers", read_secured, reach.dialect.znodes)
            for sentence in reach.session.ask("read nodes", told_of):
                if not any(sentence.startswith(f"broker {broker} has no ") for broker in secured):
                    print_note(f"{sentence}: left out")
            for broker, endpoints in secured.items():
                listed, protocol = ", ".join(endpoints), security_of(reach.links.connect).protocol
                print_note(
                    f"broker {broker} has no {protocol} listener ({listed}): it is registered, but left out here; "
                    "set security.protocol with --command-config"
                )
            return view
    versions = ClusterVersions(kafka_version)
    with link_pool(versions) as links:
        try:
            return KafkaClient.of_brokers(brokers, links, versions.dialect).view()
        except Unreachable as away:
            asked = [Broker(-1 - n, host, port) for n, (host, port) in enumerate(brokers)]
            why = versions.refusal(asked, "--kafka-version", chosen_security().connect(connect))
            fail(why or str(away), EXIT["runtime"])


def partitions_of(view: ClusterView) -> Iterator[Partition]:
    """Yield every partition of a view, by topic and number."""
    for topic in sorted(view.topics):
        for partition in view.partitions(topic):
            yield TopicPartition(topic, partition), view.topics[topic][partition]


def broker_rows(
    view: ClusterView, releases: Mapping[int, str] = MappingProxyType({}), hosts: Sequence[str] = ()
) -> list[tuple[object, ...]]:
    """Return a row (BROKER_COLUMNS) for each registered broker, and for each replica's broker that is not registered.

    hosts: hosts to which credentials may be sent (sasl.hosts); empty: every host.
    """
    partitions = [partition for _, partition in partitions_of(view)]
    named = {broker for partition in partitions for broker in (*partition.replicas, *partition.isr)}
    rows: list[tuple[object, ...]] = []
    for number in sorted(view.brokers.keys() | named):
        broker = view.brokers.get(number)
        leads = sum(partition.leader == number for partition in partitions)
        replicas = sum(number in partition.replicas for partition in partitions)
        in_sync = sum(number in partition.isr for partition in partitions)
        address = (broker.host, broker.port) if broker is not None else (None, None)
        rows.append(
            (
                number,
                *address,
                releases.get(number),
                leads,
                replicas,
                in_sync,
                _error_of(broker, hosts),
            )
        )
    return rows


def _error_of(broker: Broker | None, hosts: Sequence[str]) -> str | None:
    if broker is None:
        return "not registered"
    return "not in sasl.hosts: not connected to" if hosts and not is_listed(broker.host, hosts) else None


def _partition_row(tp: TopicPartition, partition: PartitionView, led: bool, output: str) -> tuple[object, ...]:
    code = partition.error or (0 if led else LEADER_NOT_AVAILABLE)
    number = tp.partition if isinstance(tp.partition, int) else str(tp.partition)
    replicas, isr = (_ids(ids, output) for ids in (partition.replicas, partition.isr))
    return (tp.topic, number, partition.leader, replicas, isr, _error(code))


def _topic_row(topic: str, code: int) -> tuple[object, ...]:
    return (topic, None, None, None, None, _error(code))


def _ids(ids: Sequence[int], output: str) -> object:
    """Return numbers for JSON; otherwise text, with the preferred leader first."""
    return list(ids) if output == "json" else ",".join(map(str, ids))


def _error(code: int) -> str | None:
    return f"{error_info(code).name} ({code})" if code else None
