"""Options shared by commands: of Spark, of the output, of the report."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from groundwork.commands import key_values, option_block
from groundwork.durable import LONGEST
from groundwork.output import Progress, print_note
from sparkpipeline.errors import OptionRefused, sentence_in
from sparkpipeline.sparksession import UNDER_SUBMIT, jvm_end, register, stop_session
from sparkpipeline.sparksession import quiet_session as spark_session

F = TypeVar("F", bound=Callable[..., Any])
JVM_ENDS_S = 2.0  # from a lost connection to the end of the process
LOCAL = {  # settings of a session in this process alone, to which no other host connects
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def tell(sentence: str) -> None:
    """Print a message for the operator on stderr."""
    print_note(sentence)


class Told(list[str]):
    """Messages for the operator: each call prints one, and keeps it for the report."""

    def __call__(self, sentence: str) -> None:
        self.append(sentence)
        tell(sentence)


def spark_options(command: F) -> F:
    """Add --master and --conf, as in spark-submit: arguments master (or None) and conf (a mapping)."""
    command = click.option(
        "--conf", multiple=True, metavar="KEY=VALUE", callback=_pairs, help="A setting of Spark; repeatable."
    )(command)
    return click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[4], spark://host:7077, yarn ..; local[*,4] unless spark-submit says otherwise.",
    )(command)


def side_options(side: str, what: str, zookeeper: str = "Its ZooKeeper instead.") -> Callable[[F], F]:
    """Add --SIDE-brokers, -zookeeper, -protocol and -option of one of two clusters, for side_of().  what: its
    cluster."""
    return option_block(
        click.option(f"--{side}-brokers", metavar="HOST:PORT,…", help=f"Any brokers of the cluster that is {what}."),
        click.option(f"--{side}-zookeeper", metavar="HOST:PORT/CHROOT", help=zookeeper),
        click.option(
            f"--{side}-protocol", metavar="RELEASE", help="Release of its brokers.  [default: they are asked]"
        ),
        click.option(
            f"--{side}-option", multiple=True, metavar="KEY=VALUE", help="Any option of kafka08 for it; repeatable."
        ),
    )


def side_of(side: str, asked: Mapping[str, Any], named: Mapping[str, str | None]) -> dict[str, str]:
    """Return the options of kafka08 for one of two clusters.  Raises OptionRefused.

    asked: values of the command line.  named: further options; None: not given.
    """
    try:
        options = key_values(asked[f"{side}_option"])
    except ValueError as exc:
        raise OptionRefused(str(exc), option=f"--{side}-option") from None
    named = {
        "kafka.bootstrap.servers": asked[f"{side}_brokers"],
        "zookeeper.connect": asked[f"{side}_zookeeper"],
        "protocol": asked[f"{side}_protocol"],
        **named,
    }
    return {**options, **{key: value for key, value in named.items() if value is not None}}


def report_option(command: F) -> F:
    """Add --report FILE: argument report, a path or None."""
    return click.option(
        "--report",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_has_folder,
        metavar="FILE",
        help="Write a report of the run to this file, as JSON.",
    )(command)


@contextmanager
def session(name: str, master: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Yield a Spark session for the duration of a command; a running one is used and left running.

    SIGTERM (systemctl stop) ends the command as ctrl-C does: the next run finishes open work."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        register(running)
        yield running
        return
    given = dict(conf or {})
    if master is None and UNDER_SUBMIT not in os.environ:
        master = given.get("spark.master", "local[*,4]")
    settings = {**LOCAL, **given} if master is not None and master.startswith("local") else given
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger().addFilter(_told_anyway)
    try:
        with Progress("starting Spark") as shown:
            shown.line("starting Spark")
            spark = spark_session(name, master, settings)
        # Spark's own handler calls the JVM in the middle of another call, which fails; SparkProgress ends the jobs.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield spark
        except BaseException:
            with suppress(Exception):  # systemctl stop ends the JVM as well; the original exception is raised
                stop_session(spark)
            raise
        else:
            stop_session(spark)
    finally:
        logging.getLogger().removeFilter(_told_anyway)


@contextmanager
def session_if(needed: bool, name: str, master: str | None, conf: Mapping[str, str]) -> Iterator[Any | None]:
    """Yield a session if it is needed, on one core unless a master is given, else None: for commands without jobs."""
    if not needed:
        yield None
        return
    with session(name, master or "local[1]", conf) as spark:
        yield spark


def _told_anyway(record: logging.LogRecord) -> bool:
    """True unless the record is py4j's stack of a call that ctrl-C or a lost JVM ended, which the command reports
    itself."""
    return "while sending command" not in str(record.msg)


@contextmanager
def failure_reported(path: Path | None, **about: Any) -> Iterator[None]:
    """Write a failure to the report if the block fails: otherwise the last success would look like this run's."""
    try:
        yield
    except BaseException as exc:
        text = "interrupted" if isinstance(exc, (KeyboardInterrupt, click.Abort)) else str(exc) or type(exc).__name__
        error = sentence_in(text) or jvm_lost(exc) or text.splitlines()[0]
        try:
            write_report(path, {**about, "outcome": "failed", "error": error})
        except OptionRefused as unwritten:  # the original exception is raised
            tell(str(unwritten))
        raise


def jvm_lost(exc: BaseException) -> str | None:
    """Return how Spark's JVM ended if an error comes from that: the error itself is "connection refused"."""
    if "pyspark" not in sys.modules or not isinstance(exc, Exception):
        return None
    of_connection = isinstance(exc, (ConnectionError, EOFError)) or type(exc).__name__ == "Py4JNetworkError"
    return jvm_end(JVM_ENDS_S if of_connection else 0)


def whole_name(pattern: str) -> str:
    """Return a pattern of --topics-pattern for subscribePattern, which searches it anywhere in a name, as Spark's own
    does."""
    return f"^(?:{pattern})$"


def write_report(path: Path | None, document: Mapping[str, Any]) -> None:
    """Write the report atomically; do nothing without a path.  Raises OptionRefused if it cannot be written."""
    if path is None:
        return
    beside = path.with_name(f".{path.name[:LONGEST]}.{uuid.uuid4().hex}.new")  # two jobs may write one report
    try:
        beside.write_text(json.dumps(document, indent=2, sort_keys=True, default=str) + "\n", encoding="utf-8")
        os.replace(beside, path)
    except OSError as exc:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise OptionRefused(f"{path} cannot be written: {exc.strerror}", option="--report") from None


def _has_folder(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """Check the folder of a report before the work, not after it."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"folder {path.parent} does not exist")
    return path


def _pairs(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    if not ctx.resilient_parsing:  # a completion; --help ends before
        for name in ("pyspark", "pyarrow"):
            if find_spec(name) is None:  # reported before a cluster is asked, not when the session is created
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    try:
        return key_values(values)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None
