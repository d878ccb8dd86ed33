"""`python -m localkafka`: a cluster that runs until ctrl-C or --stop, of real brokers or of 0.7 brokers in Python."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

import click

from groundwork.logs import set_up_logging
from groundwork.output import print_text, version_line
from localkafka import detached, releases
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError, last_lines
from localkafka.seven.cluster import Cluster07
from localkafka.seven.settings import RELEASES as SEVEN

PORT = click.IntRange(0, 65535)
OURS = "ours"  # --version without a value: the version of this package


class Stop(Exception):
    """Ctrl-C or SIGTERM; raised only once, so that it cannot interrupt the clean-up."""


def _stop_on_signal() -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        for later in (signal.SIGINT, signal.SIGTERM):
            signal.signal(later, signal.SIG_IGN)
        raise Stop

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _known(context: click.Context, parameter: click.Parameter, version: str) -> str:
    if version == OURS:
        print_text(version_line("localkafka"))
        context.exit(0)
    if version in SEVEN:
        return version
    try:
        return releases.startable(version).version
    except LocalKafkaError as error:
        raise click.BadParameter(f"{error}; versions of 0.7: {', '.join(SEVEN)}") from error


@click.command(
    help="Start a real ZooKeeper and brokers on 127.0.0.1 and run them until ctrl-C.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--brokers", type=click.IntRange(min=1), default=1, show_default=True, help="Number of brokers.")
@click.option(
    "--version",
    is_flag=False,
    flag_value=OURS,
    default=releases.DEFAULT,
    show_default=True,
    callback=_known,
    metavar="[VERSION]",
    help=f"Kafka's version: {', '.join((*SEVEN, *releases.STARTABLE))}.  Brokers of 0.7 are in Python. Without a "
    "value: print the version of localkafka.",
)
@click.option("--original", is_flag=True, help="For 0.7: use the original brokers, from KAFKA_07_HOME.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON: version, zookeeper, brokers.")
@click.option("--setting", "settings", multiple=True, metavar="KEY=VALUE", help="A broker setting; repeatable.")
@click.option("--keep", is_flag=True, help="Keep data and logs, and print where they are.")
@click.option("--port", type=PORT, default=0, help="Port of broker 0; the others follow.  [default: any free ones]")
@click.option("--zookeeper-port", type=PORT, default=0, help="Port of ZooKeeper.  [default: any free one]")
@click.option("--detach", metavar="NAME", help="Start it in the background under this name, return once it serves.")
@click.option("--stop", metavar="NAME", multiple=True, help="End a cluster that was started with --detach; repeatable.")
@click.option(
    "--advertise",
    metavar="HOST",
    help="Name by which other hosts reach this one, such as a container's: listen on every address, not on 127.0.0.1.",
)
def main(
    brokers: int,
    version: str,
    original: bool,
    as_json: bool,
    settings: tuple[str, ...],
    keep: bool,
    port: int,
    zookeeper_port: int,
    detach: str | None,
    stop: tuple[str, ...],
    advertise: str | None,
) -> None:
    if stop:
        with _reported():
            for name in stop:
                detached.stop(name)
        return
    where = {"port": port, "zookeeper_port": zookeeper_port, "advertise": advertise}
    for option in (name for name, value in where.items() if value and version in SEVEN):
        raise click.BadParameter("is not for brokers of 0.7", param_hint=f"--{option.replace('_', '-')}")
    if original and version not in SEVEN:
        raise click.BadParameter("is for 0.7 only: later brokers are always the original", param_hint="--original")
    for setting in settings:
        if "=" not in setting:
            raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--setting")
    if advertise:
        print(
            f"localkafka: --advertise {advertise}: everyone who can reach this machine can reach the cluster",
            file=sys.stderr,
        )
    set_up_logging("warning")  # otherwise the ZooKeeper client prints each failed connect on stderr
    if detach:
        with _reported():
            detached.detach(detach)
    _stop_on_signal()
    values = dict(setting.split("=", 1) for setting in settings)
    with _reported():
        cluster: Cluster | Cluster07
        if version in SEVEN:
            kind = "original" if original else "python"
            cluster = Cluster07(brokers, settings=values, kind=kind, version=version, keep=keep)
        else:
            cluster = Cluster(
                version,
                brokers,
                settings=values,
                keep=keep,
                port=port,
                zookeeper_port=zookeeper_port,
                advertise=advertise,
            )
        try:
            with cluster:
                _tell(cluster, as_json)
                if detach:
                    detached.attached()
                _watch(cluster)
        except Stop:
            pass
        finally:
            if cluster.keep:
                print(f"localkafka: data and logs are in {cluster.folder}", file=sys.stderr)


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Print a LocalKafkaError as a sentence, and exit with 1."""
    try:
        yield
    except LocalKafkaError as error:
        print(f"localkafka: {error}", file=sys.stderr)
        sys.exit(1)


def _watch(cluster: Cluster | Cluster07) -> None:
    """Wait for a signal.  A broker that ends by itself is reported once; the others continue."""
    told: set[int] = set()
    while True:
        for node in cluster.nodes:
            if not node.running and node.id not in told:
                told.add(node.id)
                print(
                    f"localkafka: {node.name} has ended; the end of {node.log}:\n{last_lines(node.log)}",
                    file=sys.stderr,
                    flush=True,
                )
        time.sleep(0.5)


def _tell(cluster: Cluster | Cluster07, as_json: bool) -> None:
    if as_json:
        print(json.dumps(cluster.description()), flush=True)
        return
    print(f"zookeeper  {cluster.zookeeper}\nbrokers    {cluster.brokers}", flush=True)
    print("ctrl-C ends them", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(prog_name="python -m localkafka")
