"""What the commands of zkconsumer share: options that look the same everywhere, a way to the cluster, its exit codes.

    @zookeeper_option() @brokers_option() @kafka_version_option @group_option() @output_option()
    with reaching(zookeeper, kafka_version) as reach: ...    a ZooKeeper session and links to brokers, closed after it
    with clear_errors(): ...                                  what we raise on purpose: one sentence and its exit code

Data on stdout, everything else on stderr.  Exit codes: groundwork.output.EXIT.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from groundwork.crew import Crew, connect
from groundwork.logs import set_up_logging
from groundwork.options import OptionError
from groundwork.output import EXIT, FORMS, failing
from kafkawire.cluster.fixed import parse_addresses
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import LocalError, WireError
from kafkawire.net.links import Links
from zkconsumer.errors import ConsumerError
from zkconsumer.groups import NoSuchGroup
from zkconsumer.lease import Lease
from zkconsumer.zksession import ZkSession

INTERRUPTED = 130
TIMEOUT_MS = 6000  # a session of a command that looks; also how long a broker may be silent
CODES: dict[type[Exception], int] = {
    NoSuchGroup: EXIT["not found"],
    OptionError: EXIT["usage"],
    ConsumerError: EXIT["runtime"],
    WireError: EXIT["runtime"],
}

F = TypeVar("F", bound=Callable[..., Any])


# options ------------------------------------------------------------------------------------------------------------


def zookeeper_option(required: bool = True) -> Callable[[F], F]:
    """-z, as zookeeper: str (None when it is not required and not given)."""
    return click.option(
        "-z", "--zookeeper", required=required, metavar="HOST:PORT/CHROOT", help="ZooKeeper of the cluster."
    )


def brokers_option(help: str = "Any brokers of the cluster, instead of ZooKeeper.") -> Callable[[F], F]:
    """-b, as brokers: list of (host, port), empty when it is not given."""
    return click.option("-b", "--brokers", metavar="HOST:PORT,…", callback=_addresses, help=help)


def group_option(required: bool = True, help: str = "Consumer group.") -> Callable[[F], F]:
    """--group, as group: str (None when it is not required and not given)."""
    return click.option("--group", required=required, help=help)


def output_option(forms: tuple[str, ...] = FORMS, default: str = "table") -> Callable[[F], F]:
    """-o, as output: one of the forms."""
    return click.option(
        "-o", "--output", type=click.Choice(forms), default=default, show_default=True, help="Form of the output."
    )


def kafka_version_option(command: F) -> F:
    """--kafka-version, as kafka_version: str that kafkawire.dialects.dialect knows."""
    option: Callable[[F], F] = click.option(
        "--kafka-version", default="0.8.2", show_default=True, callback=_release, help="Release of the brokers."
    )
    return option(command)


def _addresses(ctx: click.Context, param: click.Parameter, text: str | None) -> list[tuple[str, int]]:
    try:
        return parse_addresses(text, "-b") if text is not None else []
    except LocalError as e:
        raise click.UsageError(str(e), ctx) from None


def _release(ctx: click.Context, param: click.Parameter, text: str) -> str:
    try:
        dialect(text)
    except (LocalError, ValueError) as e:
        raise click.UsageError(str(e), ctx) from None
    return text


# reaching a cluster -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """What a command looks with; everything is called in its own (main) thread."""

    session: ZkSession
    links: Links
    dialect: Dialect


@contextmanager
def reaching(zookeeper: str, kafka_version: str = "0.8.2") -> Iterator[Reach]:
    """A session with ZooKeeper and links to brokers.  What fails in the block, too, ends the command in a sentence."""
    quiet()
    with at_interrupt(), clear_errors(), link_pool() as links:
        crew = Crew()
        session = ZkSession(zookeeper, TIMEOUT_MS, TIMEOUT_MS, crew, Lease())
        try:
            session.start()
            yield Reach(session, links, dialect(kafka_version))
        finally:
            crew.stop(1.0)
            session.close()


@contextmanager
def at_interrupt(said: str = "interrupted", code: Callable[[], int] = lambda: INTERRUPTED) -> Iterator[None]:
    """Ctrl-C in the block ends the process at once: for blocks that hold nothing which would have to be given back.

    (A KeyboardInterrupt would be raised in whatever greenlet runs, and told with a traceback by the hub.)
    """

    def end(number: int, frame: object) -> None:
        sys.stdout.flush()
        os.write(2, said.encode() + b"\n" * bool(said))
        os._exit(code())

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def link_pool() -> Iterator[Links]:
    """Links to brokers without ZooKeeper, closed at the end."""
    links = Links("zkconsumer", connect, TIMEOUT_MS)
    try:
        yield links
    finally:
        links.close()


def clear_errors() -> AbstractContextManager[None]:
    """End the command with the sentence and the exit code of what we raise on purpose."""
    return failing(CODES)


def quiet(level: str = "error") -> None:
    """Log to stderr from this level on; what kazoo has to say we say in one sentence."""
    set_up_logging(level)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)


def tell(text: str) -> None:
    """Beside the data: on stderr."""
    click.echo(text, err=True)
