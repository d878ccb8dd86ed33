"""Command lines of JVMs: the java program, flags, and log configuration."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from localkafka import jars
from localkafka.errors import LocalKafkaError
from localkafka.releases import Release

# Fast to start, and small.  Benchmarks pass their own flags: without TieredStopAtLevel the JIT optimises fully.
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SMALL = ("-Xmx256m", *QUICK)
# In this environment so do Spark's: its launcher, drivers, and a standalone master and its workers.
QUICK_SPARK = {f"SPARK_{name}": " ".join(QUICK) for name in ("LAUNCHER_OPTS", "SUBMIT_OPTS", "DAEMON_JAVA_OPTS")}

# To standard error: some tools print their data to standard output, and a server's two streams go to one file.
LOG4J = """\
log4j.rootLogger={level}, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.Target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d{{HH:mm:ss,SSS}} %p %c{{1}} %m%n
"""
LOG4J2 = """\
rootLogger.level={level}
rootLogger.appenderRef.err.ref=err
appender.err.name=err
appender.err.type=Console
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d{{HH:mm:ss,SSS}} %p %c{{1}} %m%n
"""


def executable() -> str:
    """The java program of JAVA_HOME, else of the PATH.  Raises LocalKafkaError when there is none."""
    home = os.environ.get("JAVA_HOME")
    if home and Path(home, "bin", "java").is_file():
        return str(Path(home, "bin", "java"))
    found = shutil.which("java")
    if found is None:
        raise LocalKafkaError(
            "java is not on the PATH and JAVA_HOME names none; install Java 17 "
            "(Debian: apt install openjdk-17-jre-headless)"
        )
    return found


@functools.cache
def feature_version(java: str) -> int:
    """The feature release (8, 11, 17, ...) that `java -version` prints.  Raises LocalKafkaError when it prints none."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=60)
    said = done.stderr + done.stdout
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise LocalKafkaError(f"{java} -version says nothing of a version, but: {said.strip() or 'nothing'}")
    return int(found.group(1))


def ready(release: Release) -> tuple[str, str]:
    """The java program and the class path for a version, its jars fetched.
    Raises LocalKafkaError when java is missing or too old, or the jars cannot be fetched."""
    java = executable()
    have = feature_version(java)
    if have < release.java:
        raise LocalKafkaError(
            f"{java} is Java {have}, and Kafka {release.version} needs Java {release.java} or later; "
            "set JAVA_HOME to one"
        )
    return java, jars.class_path(release.version)


def command(
    release: Release,
    main: str,
    arguments: Sequence[str],
    *,
    flags: Sequence[str] = SMALL,
    level: str = "WARN",
) -> list[str]:
    """The command line that runs a class from a version's jars, logging to standard error from `level` on.
    Raises LocalKafkaError when java is missing or too old, or the jars cannot be fetched."""
    java, _ = ready(release)
    _log_config(release, level)
    return command_line(java, str(jars.cache()), release, main=main, arguments=arguments, flags=flags, level=level)


def command_line(
    java: str, cache: str, release: Release, *, main: str, arguments: Sequence[str], flags: Sequence[str], level: str
) -> list[str]:
    """The command line of a class, given a java and the cache folder that has the jars and log configurations."""
    fixed = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Djava.net.preferIPv4Stack=true")
    logging = f"-D{'log4j2.configurationFile=' if release.log4j2 else 'log4j.configuration=file:'}"
    logging += f"{cache}/{_log_config_name(release, level)}"
    return [java, *flags, *fixed, logging, "-cp", f"{cache}/jars/{release.version}/*", main, *arguments]


def _log_config_name(release: Release, level: str) -> str:
    return f"{'log4j2' if release.log4j2 else 'log4j'}-{level}.properties"


def _log_config(release: Release, level: str) -> None:
    """Write the log configuration of this level into the cache folder, atomically."""
    path = jars.cache() / _log_config_name(release, level)
    wanted = (LOG4J2 if release.log4j2 else LOG4J).format(level=level)
    if not path.is_file() or path.read_text(encoding="utf-8") != wanted:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as draft:
            draft.write(wanted)
        os.replace(draft.name, path)
