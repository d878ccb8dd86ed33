"""Spark session with the settings that every job here relies on, and a filter for its JVM's stderr."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from groundwork.sentences import printable
from groundwork.streams import write_stderr
from sparkpipeline.errors import OptionRefused

# Python data sources have admission control and AvailableNow in this version and later, and a name can be registered
# twice.
LEAST_SPARK = (4, 2)
ALWAYS = {  # but for what the caller's own conf says
    # Hours are UTC hours, whatever the machine's zone is.
    "spark.sql.session.timeZone": "UTC",
    # The default, INT96, is read by nothing but Hadoop's own tools without trouble.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Version 2 may leave files of failed task attempts behind.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1",
}
UNLESS_SET = {"spark.sql.execution.pyspark.udf.faulthandler.enabled": "true"}
# Half the cost of a Python task, and a fifth more throughput than loopback TCP.  Only where tasks run on this machine:
# the socket is made below the container's folder, and on YARN its path is longer than the 107 bytes that one may have.
LOCAL_UNLESS_SET = {"spark.python.unix.domain.socket.enabled": "true"}
# The plan of a stream shows its options: Spark masks those whose names match, by itself only "url".
REDACTION = "spark.sql.redaction.options.regex"
REDACTED, REDACTED_BY_SPARK = r"(?i:zookeeper\.auth)", "(?i)url"

UNDER_SUBMIT = "PYSPARK_GATEWAY_PORT"  # spark-submit started us, and its JVM is there already
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
LOG_OPTION = "log4j2.configurationFile"
DAEMON = {"spark.python.daemon.module": "sparkpipeline.workerdaemon"}


def spark_session(name: str, master: str | None = None, conf: Mapping[str, str] | None = None) -> Any:
    """Return the running session, or a new one.  master and conf as spark-submit takes them; conf has the last word,
    and what spark-submit, spark-defaults.conf or the running session say is only changed where jobs depend on it
    (ALWAYS).

    Workers run this interpreter unless PYSPARK_PYTHON names another: Spark's own default is whatever python3 is on the
    PATH.  Raises what Spark raises.
    """
    from pyspark.sql import SparkSession  # imported here: it takes half a second, and tasks never need it

    check_spark()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = _given(master, conf)
    builder = SparkSession.builder.appName(name)
    for key, value in {**settings_for(_known(given)), **given}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session


def quiet_session(name: str, master: str | None = None, conf: Mapping[str, str] | None = None) -> Any:
    """Return a session like spark_session, for a command whose stderr is for its own lines: a JVM started for it logs
    only errors, and nothing while it starts.  The user's settings for Spark's log have precedence."""
    check_spark()
    given = dict(conf or {})
    if not _in_a_zip() and (master or given.get("spark.master", "")).startswith("local"):
        given = {**DAEMON, **given}
    if not _logs_as_we_say(given):
        if _jvm_log is not None:  # an earlier session's JVM goes on
            _jvm_log.drop()
            _jvm_log.show()
        return spark_session(name, master, given)
    with _started_quietly({"spark.app.name": name, **_given(master, given)}):
        return spark_session(name, master, given)


def _given(master: str | None, conf: Mapping[str, str] | None) -> dict[str, str]:
    return {**({} if master is None else {"spark.master": master}), **(conf or {})}


def settings_for(known: Mapping[str, str]) -> dict[str, str]:
    """Return our settings beside those that are known: of users, administrators and spark-submit.  Pure."""
    local = known.get("spark.master", "").startswith("local")
    optional = {**UNLESS_SET, **(LOCAL_UNLESS_SET if local else {})}
    said = known.get(REDACTION, REDACTED_BY_SPARK)
    redaction = said if REDACTED in said else f"(?:{said})|{REDACTED}"
    return {**ALWAYS, **{key: value for key, value in optional.items() if key not in known}, REDACTION: redaction}


def _known(given: Mapping[str, str]) -> dict[str, str]:
    """Return all settings so far, with the given ones.  Starts the JVM, which knows spark-defaults.conf and
    spark-submit's."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if SparkContext._active_spark_context is None:
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(given.items())))
        found = dict(SparkConf().getAll())
    else:
        found = dict(SparkContext._active_spark_context.getConf().getAll())
    redaction = None if running is None else running.conf.get(REDACTION, None)
    return {**found, **({} if redaction is None else {REDACTION: redaction}), **given}


def session_beside(spark: Any) -> Any:
    """Return a separate session in the same application, with its own views and settings."""
    session = spark.newSession()
    session.createDataFrame([], "a int")  # makes it the active one: there Spark looks whether a format is known
    register(session)
    return session


def check_spark(version: str | None = None) -> None:
    """Raise OptionRefused where Spark is older than the commands need.  version: of pyspark, as it is installed."""
    if version is None:
        import pyspark

        version = pyspark.__version__
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) < LEAST_SPARK:
        least = ".".join(map(str, LEAST_SPARK))
        raise OptionRefused(
            f"Spark {least} or later is needed, and this is {version}: pip install 'pyspark>={least}', or give"
            " spark-submit of such a release"
        )


def register(session: Any) -> None:
    """Make the format kafka08 known to this session; each session has its own formats.

    Spark also finds it by itself, as a module named pyspark_*, but only in a folder of sys.path: not in a zip that
    comes later, and not where an editable install is an import hook.
    """
    from sparkpipeline.datasource import Kafka08DataSource

    check_spark()  # an older one says "Data source 'kafka08' already exists"
    session.dataSource.register(Kafka08DataSource)


def _in_a_zip() -> bool:
    """True if this package came by --py-files."""
    return not os.path.isfile(__file__)


# ---- the JVM's stderr ------------------------------------------------------------------------------------------------


def _logs_as_we_say(conf: Mapping[str, str]) -> bool:
    """True if a JVM will be started, and the user has no settings for its log."""
    from pyspark import SparkContext
    from pyspark.find_spark_home import _find_spark_home

    if UNDER_SUBMIT in os.environ or SparkContext._gateway is not None or _in_a_zip():
        return False
    options = [conf.get(f"spark.driver.{name}JavaOptions", "") for name in ("default", "extra")]
    if any("log4j" in text for text in (*options, os.environ.get("SPARK_SUBMIT_OPTS", ""))):
        return False
    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))
    return not any(folder.glob("log4j2.*"))


@contextmanager
def _started_quietly(conf: Mapping[str, str]) -> Iterator[None]:
    """Start the JVM and a context; what it wrote until the end of the block is only shown when that fails."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    global _jvm_log
    _jvm_log = log = _JvmLog()
    before = os.environ.get("SPARK_SUBMIT_OPTS")
    os.environ["SPARK_SUBMIT_OPTS"] = f"-D{LOG_OPTION}={LOG_SETTINGS.as_uri()} {before or ''}".strip()
    try:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark reads it once, now
        told = SparkConf().setAll(list(conf.items()))
        try:
            with _interrupted_afterwards():
                gateway = launch_gateway(told, {"stderr": log.write_end})
        finally:
            log.handed_over()
        SparkContext._ensure_initialized(gateway=gateway)
        SparkContext(conf=SparkConf().setAll(list({**settings_for(_known(conf)), **conf}.items())))
        yield
    except Exception:  # not ctrl-C: what a JVM says when it starts helps nobody then
        log.show()
        raise
    finally:
        if before is None:
            del os.environ["SPARK_SUBMIT_OPTS"]
        else:
            os.environ["SPARK_SUBMIT_OPTS"] = before
    log.drop()
    log.show()


@contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """Defer ctrl-C and SIGTERM to the end of the block: a JVM only notices our end after it has reported its port, and
    otherwise would run for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, frame: noted.append(number)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if noted:
            signal.raise_signal(noted[0])


def jvm_end(wait_s: float = 0) -> str | None:
    """Return how the JVM that this process started ended; None while it runs, and for one that spark-submit started.

    wait_s: for an end that shows as a lost connection first."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=wait_s)
    if process.returncode is None:
        return None
    if process.returncode >= 0:
        return f"Spark's JVM ended with code {process.returncode}"
    name = signal.Signals(-process.returncode).name
    helps = ": did memory run out (dmesg, the limit of a container)?" if name == "SIGKILL" else ""
    return f"Spark's JVM was ended by {name}{helps}"


def stop_session(spark: Any) -> None:
    """Stop a session of spark_session: what a quiet JVM still writes while it goes is dropped.

    Idle Python workers of the driver's planner see their connections go before they are ended themselves, and report
    it: PySpark gives those no other daemon than its own."""
    if _jvm_log is not None:
        _jvm_log.hold()
    spark.stop()


class _JvmLog:
    """The JVM's stderr, line by line: held until show(), then passed on to ours.

    A JVM that starts writes of modules, host names and log levels before any setting of the log counts."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._held: list[bytes] | None = []
        self._lock = threading.Lock()
        threading.Thread(target=self._follow, name="spark-stderr", daemon=True).start()

    def handed_over(self) -> None:
        """Close our copy of the pipe's end, which the JVM has: then the JVM's exit is the end of file."""
        os.close(self.write_end)

    def hold(self) -> None:
        """Pass nothing on until show()."""
        with self._lock:
            self._held = self._held or []

    def drop(self) -> None:
        """Forget what is held."""
        with self._lock:
            self._held = None if self._held is None else []

    def show(self) -> None:
        """Pass on what is held, and everything after it."""
        with self._lock:
            lines, self._held = self._held or [], None
            write_stderr(_printable(b"".join(lines)))

    def _follow(self) -> None:
        with open(self._read_end, "rb") as stream:
            for lines in shortened(stream):
                with self._lock:
                    if self._held is None:
                        write_stderr(_printable(lines))
                    else:
                        self._held.append(lines)


JAVA_FRAMES = (b"\tat ", b"\t... ")
OURS = re.compile(rb"sparkpipeline\.errors\.\w+: KAFKA08_")
MOST_SHOWN = 1000  # tracebacks that are remembered: a JVM that goes on for ever tells no more of them
_jvm_log: _JvmLog | None = None  # of the JVM that this process started; there is one at most


def _printable(lines: bytes) -> bytes:
    """Return lines with escapes for terminal control characters, but not for the \r of Spark's progress."""
    return printable(lines.decode("utf-8", "backslashreplace"), keep="\n\t\r").encode()


def shortened(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of the JVM's stderr without uninformative ones: each attempt of a task logs an error three times.

    Java's frames                           left out
    a traceback of PySpark's daemon         left out: it is about a worker whose JVM has left it, since it was idle or
                                            its task needed no more of it (LIMIT)
    a traceback that ends in our own error  its last line alone, once: it says what is wrong
    any other traceback                     once
    """
    held: list[bytes] = []
    shown: set[bytes] = set()
    for line in lines:
        if line.startswith(JAVA_FRAMES) or (not held and line in shown):
            continue
        if line.startswith(b"Traceback (most recent call last)"):
            yield from held
            held = [line]
        elif not held:
            yield line
        elif line.startswith(b"  "):
            held.append(line)
        else:
            frames = [frame for frame in held if frame.startswith(b'  File "')]
            of_daemon = bool(frames) and all(b'pyspark/daemon.py"' in frame for frame in frames)
            if not (of_daemon and line.startswith((b"BrokenPipeError", b"ConnectionResetError"))):
                text = line if OURS.match(line) else b"".join((*held, line))
                if text not in shown and len(shown) < MOST_SHOWN:
                    shown.add(text)
                    yield text
            held = []
    yield from held
