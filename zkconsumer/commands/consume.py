"""Command `zkconsumer consume`: prints messages to stdout, as a member of a group, or of one partition without
a group."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial

import click

from groundwork.commands import Command, key_values, output_option
from groundwork.logs import log_of_command
from groundwork.output import EXIT, fail, failing
from groundwork.zksecurity import ZooKeeper
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import read_brokers, refuse_other_generation
from kafkawire.dialects import expected
from kafkawire.model import PartitionId
from kafkawire.topicnames import LONGEST_EVER, why_no_name
from kafkawire.znodes.group import CONSUMERS
from zkconsumer.commands.cluster import read_cluster
from zkconsumer.commands.commandconfig import chosen_options, chosen_security
from zkconsumer.commands.common import CODES, TIMEOUT_MS, clear_errors, connected, print_note, quiet, require_metadata
from zkconsumer.commands.console import Console
from zkconsumer.commands.messageformat import JSON, TEXT, MessageFormat
from zkconsumer.commands.options import (
    brokers_option,
    group_option,
    kafka_version_option,
    zookeeper_option,
)
from zkconsumer.commands.partition import LARGEST, SMALLEST, NoSuchPartition, OnePartition
from zkconsumer.commands.temporarygroup import removed_after, temporary_name
from zkconsumer.errors import ConsumerError
from zkconsumer.filters import Blacklist, TopicFilter, Whitelist
from zkconsumer.group.topicnodes import no_brokers
from zkconsumer.options.arguments import WrongUsage, parse_partition
from zkconsumer.options.config import ConsumerConfig, load_consumer

Address = tuple[str, int]


def _topic(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    if name is not None and (why := why_no_name(name, LONGEST_EVER)):
        raise click.UsageError(f"topic {name[:40]!r}: {why}", ctx)
    return name


def _partition(ctx: click.Context, param: click.Parameter, text: str | None) -> PartitionId | None:
    try:
        return None if text is None else parse_partition(text)
    except WrongUsage as e:
        raise click.UsageError(f"--partition: {e}", ctx) from None


@click.command(
    cls=Command,
    examples=[
        "zkconsumer consume -z zk1:2181/kafka --topic orders --from-beginning --max-messages 10",
        "zkconsumer consume -z zk1:2181/kafka --whitelist 'orders.*' --group billing -o json",
        "zkconsumer consume -b kafka1:9092 --topic orders --partition 0 --offset 4711",
    ],
)
@zookeeper_option(required=False)
@brokers_option("Brokers to connect to instead of ZooKeeper; the group is then on Kafka's coordinator (0.9+).")
@group_option(required=False, help="Consumer group to join (default: a temporary one).")
@click.option("--topic", callback=_topic, help="Topic to read.")
@click.option("--whitelist", metavar="REGEX", help="Read every topic whose whole name matches.")
@click.option("--blacklist", metavar="REGEX", help="Leave out topics whose whole name matches; also with --whitelist.")
@click.option(
    "--partition", metavar="N", callback=_partition, help="Read this partition only (0.7: as 1-0), without a group."
)
@click.option("--offset", metavar="N|smallest|largest", help="Offset to start at, with --partition.")
@click.option("--num.streams", "num_streams", type=click.IntRange(min=1), default=1, help="Streams (thread ids).")
@click.option("--from-beginning", is_flag=True, help="Start at the smallest offset if nothing is committed.")
@click.option("--max-messages", type=click.IntRange(min=1), help="Exit after this number of messages.")
@click.option("--timeout-ms", type=click.IntRange(min=0), help="Exit when no message arrives for this long.")
@click.option("--print-key", is_flag=True, help="Print the key and a tab before each value; null is empty.")
@click.option("--print-headers", is_flag=True, help="Print NAME:VALUE,… or NO_HEADERS, and a tab before key and value.")
@click.option("--print-offset", is_flag=True, help="Print TOPIC/PARTITION OFFSET and a tab before each message.")
@click.option(
    "--consumer-property", "properties", multiple=True, metavar="KEY=VALUE", help="Consumer option; repeatable."
)
@kafka_version_option
@output_option((TEXT, JSON), TEXT)
def consume(
    zookeeper: ZooKeeper | None,
    brokers: list[Address],
    group: str | None,
    topic: str | None,
    whitelist: str | None,
    blacklist: str | None,
    partition: PartitionId | None,
    offset: str | None,
    num_streams: int,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    print_key: bool,
    print_headers: bool,
    print_offset: bool,
    properties: tuple[str, ...],
    kafka_version: str,
    output: str,
) -> None:
    """Print messages, one per line, until ctrl-C or SIGTERM.

    With --group, printed messages are committed, and the group's other members get the rest.  Without it, a temporary
    group is used, and removed from ZooKeeper at the end; with -b it commits nothing and ends with its member.  json
    prints one object per message; bytes that are not UTF-8 become {"base64": "…"}. Ends with 4 if a partition could not
    be read on.
    """
    log_of_command()
    message_format = MessageFormat(print_key, print_offset, output, print_headers)
    if partition is not None:
        _only_with_groups(group, whitelist, blacklist, properties, num_streams)
        if topic is None:
            raise click.UsageError("--partition needs --topic")
        start = _start(offset, from_beginning)
        require_metadata(brokers, kafka_version)
        with failing({NoSuchPartition: EXIT["not found"], **CODES}):
            reader = _one_partition(zookeeper, brokers, topic, partition, start, kafka_version)
            reader.run(message_format, max_messages, timeout_ms)
        return
    if offset is not None:
        raise click.UsageError("--offset needs --partition: in a group the committed offsets say where to begin")
    if (zookeeper is None) == (not brokers):
        raise click.UsageError("give -z ZOOKEEPER/CHROOT, or -b BROKERS if there is no ZooKeeper")
    wanted = _wanted(topic, whitelist, blacklist)
    given = _properties(properties)
    values: dict[str, object] = {
        **_where(zookeeper, brokers),
        **chosen_options(),
        "auto.offset.reset": "smallest" if from_beginning else "largest",
        **({"kafka.version": kafka_version} if kafka_version else {}),
        **given,
    }
    group = group or given.get("group.id") or given.get("groupid")
    with clear_errors(), _member(values, group, wanted, num_streams) as console:
        console.run(message_format, max_messages, timeout_ms)
    for why in console.parked.values():
        print_note(f"parked: {why}")
    for why in console.unread.values():
        print_note(why)
    left = {*console.parked, *console.unread}
    if left:
        names = ", ".join(str(tp) for tp in sorted(left, key=str))
        fail(f"not everything was read: {names} cannot be read on", EXIT["partly"])


def _one_partition(
    zookeeper: ZooKeeper | None,
    brokers: list[Address],
    topic: str,
    partition: PartitionId,
    start: int | str,
    kafka_version: str,
) -> OnePartition:
    """Return the reader of one partition without a group, once the brokers are known."""
    spoken = expected(kafka_version)
    spoken.znode(partition)  # raises LocalError if such a release has no such partition
    found = _brokers(zookeeper, brokers, kafka_version)
    described = zookeeper is None or spoken.describes_itself
    look_up = None if zookeeper is None or described else partial(_view, zookeeper, kafka_version)
    quiet("warning")
    return OnePartition(
        found,
        topic,
        partition,
        start=start,
        release=kafka_version,
        timeout_ms=TIMEOUT_MS,
        look_up=look_up,
        security=chosen_security(),
    )


def _where(zookeeper: ZooKeeper | None, brokers: list[Address]) -> dict[str, object]:
    """Return the options that say where the group is kept."""
    if zookeeper is not None:
        return {"zookeeper.connect": zookeeper.connect, **zookeeper.security.options()}
    return {"coordination": "kafka", "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in brokers)}


@contextmanager
def _member(
    values: Mapping[str, object], group: str | None, wanted: str | TopicFilter, num_streams: int
) -> Iterator[Console]:
    """Join the group as a member; without a group name, a temporary group, which is removed at the end."""
    own = None if group else temporary_name()
    coordinated = values.get("coordination") == "kafka"
    values = {**values, "group.id": group or own}
    if own and coordinated:
        values["auto.commit.enable"] = "false"  # so that the coordinator keeps no offsets of it
    config = load_consumer(ConsumerConfig, values, "command line", jvm=True)
    if coordinated:
        quiet("warning")
        yield Console(config, wanted, num_streams, config.version, named=own is None)
        return
    at = ZooKeeper(config.zookeeper_connect, config.security)
    there = _check(at, config.version)
    quiet("warning")  # from now on errors of the cluster are retried
    with removed_after(at, own, there) if own else nullcontext():
        yield Console(config, wanted, num_streams, config.version, named=own is None)


def _check(zookeeper: ZooKeeper, kafka_version: str) -> bool:
    """Return True if the folder of groups exists.  Ends the command if there are no brokers: no group belongs there."""
    with connected(zookeeper, kafka_version) as reach:
        if hint := no_brokers(reach.session, reach.dialect):
            fail(hint, EXIT["runtime"])
        return reach.session.stat([CONSUMERS])[CONSUMERS] is not None


def _only_with_groups(
    group: str | None, whitelist: str | None, blacklist: str | None, properties: tuple[str, ...], num_streams: int
) -> None:
    given = {
        "--group": group,
        "--whitelist": whitelist,
        "--blacklist": blacklist,
        "--consumer-property": properties,
        "--num.streams": num_streams > 1,
    }
    names = [name for name, value in given.items() if value]
    if names:
        raise click.UsageError(
            f"--partition reads one partition without a group: {', '.join(names)} does not go with it"
        )


def _start(offset: str | None, from_beginning: bool) -> int | str:
    if offset is None:
        return SMALLEST if from_beginning else LARGEST
    if from_beginning:
        raise click.UsageError("give --offset or --from-beginning, not both")
    if re.fullmatch("[0-9]{1,18}", offset):
        return int(offset)
    if offset.lower() not in (SMALLEST, LARGEST):
        raise click.UsageError(f"--offset {offset!r} is neither a number of 0 or more nor {SMALLEST} or {LARGEST}")
    return offset.lower()


def _brokers(zookeeper: ZooKeeper | None, brokers: list[Address], kafka_version: str) -> list[Address]:
    """Return the brokers, as given or from ZooKeeper.  Ends the command if there are none."""
    if (zookeeper is None) == (not brokers):
        raise click.UsageError("give either -z or -b")
    if zookeeper is None:
        return brokers
    with connected(zookeeper, kafka_version) as reach:
        found = reach.session.ask("read brokers", read_brokers, reach.dialect.znodes)
        if not found:
            reach.session.ask("read brokers", refuse_other_generation, reach.dialect.znodes)
            raise ConsumerError(no_brokers(reach.session, reach.dialect) or f"no broker at {zookeeper} has an address")
    return [(broker.host, broker.port) for broker in found.values()]


def _view(zookeeper: ZooKeeper, kafka_version: str) -> ClusterView:
    """Return the current partitions and leaders in ZooKeeper: opens a short session each time, for a reader without a
    hub."""
    return read_cluster(zookeeper, (), kafka_version)


def _properties(given: tuple[str, ...]) -> dict[str, str]:
    try:
        return key_values(given)
    except ValueError as e:
        raise click.UsageError(f"--consumer-property {e}") from None


def _wanted(topic: str | None, whitelist: str | None, blacklist: str | None) -> str | TopicFilter:
    if (topic is None) == (whitelist is None and blacklist is None):
        raise click.UsageError("give --topic, or --whitelist, --blacklist or both")
    if topic is not None:
        return topic
    try:
        if whitelist is None:
            return Blacklist(str(blacklist))
        chosen = Whitelist(whitelist)
        return chosen if blacklist is None else chosen.without(Blacklist(blacklist))
    except ValueError as e:
        raise click.UsageError(str(e)) from None
