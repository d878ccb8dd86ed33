"""`zkconsumer`: read topics as a member of a ZooKeeper consumer group, and look at groups.

    zkconsumer consume -z ZK --topic T --group G            messages to stdout, one a line
    zkconsumer groups describe -z ZK --group G              who owns what, what is committed, how far behind

Data on stdout, everything else on stderr.  Exit codes: groundwork.output.EXIT.
"""

from __future__ import annotations

import logging
import sys

import click

from groundwork.crew import Crew, connect
from groundwork.logs import set_up_logging
from groundwork.options import OptionError
from groundwork.output import EXIT, FORMS, fail, write
from kafkawire.dialects import dialect
from kafkawire.errors import WireError
from kafkawire.net.links import Links
from zkconsumer.commands.console import Console, Printing
from zkconsumer.config import ConsumerConfig, load_consumer
from zkconsumer.errors import ConsumerError
from zkconsumer.filters import Blacklist, TopicFilter, Whitelist
from zkconsumer.groups import GroupRow, NoSuchGroup, describe
from zkconsumer.lease import Lease
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.zksession import ZkSession

SESSION_MS = 6000
COLUMNS = ("topic", "partition", "owner", "committed", "end", "lag")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Consumer groups that live in ZooKeeper: read with one, look at one."""


@main.command()
@click.option("-z", "--zookeeper", required=True, metavar="HOST:PORT/CHROOT", help="ZooKeeper of the cluster.")
@click.option("--group", required=True, help="Consumer group to take part in.")
@click.option("--topic", help="Topic to read.")
@click.option("--whitelist", metavar="REGEX", help="Read every topic whose whole name matches.")
@click.option("--blacklist", metavar="REGEX", help="Read every topic whose name does not match.")
@click.option("--num.streams", "num_streams", type=click.IntRange(min=1), default=1, help="Streams (thread ids).")
@click.option("--from-beginning", is_flag=True, help="Where nothing is committed, start at the smallest offset.")
@click.option("--max-messages", type=click.IntRange(min=1), help="End after so many.")
@click.option("--timeout-ms", type=click.IntRange(min=0), help="End when no message comes for so long.")
@click.option("--print-key", is_flag=True, help="Key and a tab before each value; null is an empty text.")
@click.option("--print-offset", is_flag=True, help="TOPIC/PARTITION OFFSET and a tab before each message.")
@click.option("--consumer-property", "properties", multiple=True, metavar="KEY=VALUE", help="An option; repeatable.")
@click.option("--kafka-version", default="0.8.2", show_default=True, help="Release of the brokers.")
def consume(
    zookeeper: str,
    group: str,
    topic: str | None,
    whitelist: str | None,
    blacklist: str | None,
    num_streams: int,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    print_key: bool,
    print_offset: bool,
    properties: tuple[str, ...],
    kafka_version: str,
) -> None:
    """Print messages, one a line, until ctrl-C or SIGTERM; what was printed is committed."""
    _log("warning")
    wanted = _wanted(topic, whitelist, blacklist)
    values = {
        "zookeeper.connect": zookeeper,
        "group.id": group,
        "auto.offset.reset": "smallest" if from_beginning else "largest",
        **_properties(properties),
    }
    try:
        config = load_consumer(ConsumerConfig, values, "command line", jvm=True)
        console = Console(config, wanted, num_streams, kafka_version)
        console.run(Printing(print_key, print_offset), max_messages, timeout_ms)
    except OptionError as e:
        fail(str(e), EXIT["usage"])
    except (ConsumerError, WireError) as e:
        fail(str(e), EXIT["runtime"])


def _properties(given: tuple[str, ...]) -> dict[str, str]:
    for text in given:
        if "=" not in text:
            raise click.UsageError(f"--consumer-property {text!r} is not KEY=VALUE")
    return dict(text.split("=", 1) for text in given)


def _wanted(topic: str | None, whitelist: str | None, blacklist: str | None) -> str | TopicFilter:
    given = [text for text in (topic, whitelist, blacklist) if text is not None]
    if len(given) != 1:
        raise click.UsageError("give exactly one of --topic, --whitelist and --blacklist")
    try:
        return topic or (Whitelist(whitelist) if whitelist is not None else Blacklist(str(blacklist)))
    except ValueError as e:
        raise click.UsageError(str(e)) from None


def _log(level: str) -> None:
    set_up_logging(level)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # what it has to say we say in one sentence


@main.group()
def groups() -> None:
    """Look at consumer groups."""


@groups.command("describe")
@click.option("-z", "--zookeeper", required=True, metavar="HOST:PORT/CHROOT", help="ZooKeeper of the cluster.")
@click.option("--group", required=True, help="Consumer group.")
@click.option("--kafka-version", default="0.8.2", show_default=True, help="Release of the brokers.")
@click.option("-o", "--output", type=click.Choice(FORMS), default="table", show_default=True)
def describe_group(zookeeper: str, group: str, kafka_version: str, output: str) -> None:
    """Print topic, partition, owner, committed offset, end of the log and lag of each partition of a group."""
    _log("error")
    crew = Crew()
    links = Links("zkconsumer", connect, SESSION_MS)
    session = ZkSession(zookeeper, SESSION_MS, SESSION_MS, crew, Lease())
    try:
        session.start()
        rows = describe(session, links, dialect(kafka_version), group)
    except NoSuchGroup as e:
        fail(str(e), EXIT["not found"])
    except (ConsumerError, WireError) as e:
        fail(str(e), EXIT["runtime"])
    finally:
        crew.stop(1.0)
        session.close()
        links.close()
    write([_row(row) for row in rows], COLUMNS, output)


def _row(row: GroupRow) -> tuple[object, ...]:
    unreadable = isinstance(row.committed, Unknown)
    if unreadable:
        click.echo(f"{row.topic}/{row.partition}: {row.committed.reason}", err=True)  # type: ignore[union-attr]
    committed = None if row.committed is NONE or unreadable else row.committed
    partition = row.partition if isinstance(row.partition, int) else str(row.partition)
    return (row.topic, partition, row.owner, committed, row.end, row.lag)


if __name__ == "__main__":
    sys.exit(main())
