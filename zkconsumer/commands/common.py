"""Shared by all commands of zkconsumer: connections to the cluster, and exit codes (for options, see commands.options).

    with connected(zookeeper, kafka_version) as reach: ...    a ZooKeeper session and links to brokers, closed after it
    with link_pool(versions) as links: ...                    only brokers, for -b
    require_metadata(brokers, kafka_version)                  refuses -b for 0.7
    with clear_errors(): ...                                  errors raised on purpose: one sentence and its exit code
    print_note(text)                                          to stderr (groundwork.output)

Data goes to stdout, everything else to stderr.  Exit codes: groundwork.output.EXIT; groundwork.output.fail(text,
EXIT["refused"]) ends a command.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import click

from groundwork.logs import set_up_logging
from groundwork.options import OptionError
from groundwork.output import EXIT, failing
from groundwork.output import print_note as print_note
from groundwork.streams import write_stderr
from groundwork.tasks import TaskGroup, connect
from groundwork.zksecurity import ZooKeeper
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.zookeeper import read_brokers
from kafkawire.dialects import Dialect, expected
from kafkawire.errors import WireError
from kafkawire.net.links import Links
from zkconsumer.commands import pipes
from zkconsumer.commands.commandconfig import chosen_security
from zkconsumer.errors import ConsumerError, NoBrokers, NoSuchGroup, OtherCluster
from zkconsumer.session.lease import Lease
from zkconsumer.session.zksession import ZkSession

INTERRUPTED = 130
TIMEOUT_MS = 6000  # session timeout of a command that reads; also how long a broker may be silent
CODES: dict[type[Exception], int] = {
    NoSuchGroup: EXIT["not found"],
    OptionError: EXIT["usage"],
    NoBrokers: EXIT["refused"],
    OtherCluster: EXIT["refused"],
    ConsumerError: EXIT["runtime"],
    WireError: EXIT["runtime"],
}

# connections ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connection:
    """Connections of a command; all calls are made in its own (main) thread."""

    session: ZkSession
    links: Links
    dialect: Dialect


def require_metadata(brokers: Sequence[tuple[str, int]], kafka_version: str) -> None:
    """Refuse -b if brokers do not know their own cluster.  Raises click.UsageError."""
    if brokers and not expected(kafka_version).describes_itself:
        raise click.UsageError(
            f"-b: brokers of Kafka {kafka_version} do not know the topics and leaders of their cluster; ZooKeeper does:"
            " give -z alone"
        )


@contextmanager
def connected(zookeeper: ZooKeeper, kafka_version: str = "") -> Iterator[Connection]:
    """Open a session with ZooKeeper and links to brokers.  An error, also in the block, ends the command with a
    sentence.

    If kafka_version is "", each registered broker is asked for its release; a silent one when it is needed.
    """
    versions = ClusterVersions(kafka_version)
    with link_pool(versions) as links:
        tasks = TaskGroup()
        session = ZkSession(
            zookeeper.connect,
            session_timeout_ms=TIMEOUT_MS,
            connection_timeout_ms=TIMEOUT_MS,
            tasks=tasks,
            lease=Lease(),
            access=zookeeper.security,
        )
        try:
            session.start()
            versions.dialect.through(chosen_security().protocol)
            if not versions.pinned:
                links.meet(session.ask("read brokers", read_brokers, versions.dialect.znodes).values())
            yield Connection(session, links, versions.dialect)
        finally:
            tasks.stop(1.0)
            session.close()


@contextmanager
def at_interrupt(
    said: str = "interrupted", code: Callable[[], int] = lambda: INTERRUPTED, also: Sequence[signal.Signals] = ()
) -> Iterator[None]:
    """Let ctrl-C in the block end the process at once: for blocks that hold nothing to be released.

    (Otherwise a KeyboardInterrupt would be raised in whatever greenlet runs, and logged with a traceback by the hub.)
    `also`: other signals that do the same; without it, SIGTERM ends the process as usual.
    """

    def end(number: int, frame: object) -> None:
        try:
            pipes.leave(sys.stdout)
        except RuntimeError:
            pass  # the signal came during a write
        write_stderr(said.encode() + b"\n" * bool(said))
        os._exit(code())

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, *also)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def link_pool(versions: ClusterVersions) -> Iterator[Links]:
    """Open links to brokers without ZooKeeper.  An error, also in the block, ends the command with a sentence."""
    quiet()
    links = Links("zkconsumer", versions.connect(chosen_security().connect(connect)), TIMEOUT_MS)
    with at_interrupt(), clear_errors():
        try:
            yield links
        finally:
            links.close()


def clear_errors() -> AbstractContextManager[None]:
    """End the command with the sentence and the exit code of an error that was raised on purpose."""
    return failing(CODES)


def quiet(level: str = "error") -> None:
    """Log to stderr from this level; kazoo's errors become one sentence of ours."""
    set_up_logging(level)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)


def print_unit(dialect: Dialect) -> None:
    """Print the unit of the offsets and lags above, if it is not messages."""
    if not dialect.offsets.count_messages:
        print_note("positions, ends and lag are bytes of the logs (0.7 counts no messages)")
