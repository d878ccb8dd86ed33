"""The command lines of JVMs: which java, which flags, where the logs go."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from localkafka import jars
from localkafka.errors import LocalKafkaError
from localkafka.releases import Release

# Quick to start and small.  Benchmarks pass their own: without TieredStopAtLevel the JIT optimises fully.
SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

LOG4J = """\
log4j.rootLogger={level}, out
log4j.appender.out=org.apache.log4j.{appender}
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{{HH:mm:ss,SSS}} %p %c{{1}} %m%n
"""
LOG4J2 = """\
rootLogger.level={level}
rootLogger.appenderRef.out.ref=out
appender.out.name=out
appender.out.type={appender}
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{{HH:mm:ss,SSS}} %p %c{{1}} %m%n
"""


def executable() -> str:
    """The java to use: of JAVA_HOME, else of the PATH.  Raises LocalKafkaError when there is none."""
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
    """8, 11, 17, ... as `java -version` says.  Raises LocalKafkaError when it does not."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=60)
    said = done.stderr + done.stdout
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise LocalKafkaError(f"{java} -version says nothing of a version, but: {said.strip() or 'nothing'}")
    return int(found.group(1))


def command(
    release: Release,
    main: str,
    arguments: Sequence[str],
    log_config: Path,
    flags: Sequence[str] = SMALL,
    prepend: str = "",
) -> list[str]:
    """The command line that runs a class from a version's jars.

    log_config: a file written by log_to_stdout or log_to_file; prepend: what goes before the jars in the class path.
    Raises LocalKafkaError when java is missing or too old, or the jars cannot be fetched."""
    java = executable()
    have = feature_version(java)
    if have < release.java:
        raise LocalKafkaError(
            f"{java} is Java {have}, and Kafka {release.version} needs Java {release.java} or later; "
            "set JAVA_HOME to one"
        )
    key = "log4j2.configurationFile=" if release.log4j2 else "log4j.configuration=file:"
    path = os.pathsep.join(filter(None, (prepend, jars.class_path(release.version))))
    fixed = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Djava.net.preferIPv4Stack=true")
    return [java, *flags, *fixed, f"-D{key}{log_config}", "-cp", path, main, *arguments]


def log_to_stdout(release: Release, folder: Path, level: str) -> Path:
    """Write a log configuration into folder: everything from level on to standard output (servers: their one log)."""
    if release.log4j2:
        return _write(folder / "log4j2.properties", LOG4J2.format(level=level, appender="Console"))
    return _write(folder / "log4j.properties", LOG4J.format(level=level, appender="ConsoleAppender"))


def log_to_file(release: Release, folder: Path, level: str, log: Path) -> Path:
    """Write a log configuration into folder: everything from level on to a file (tools: standard output is data)."""
    if release.log4j2:
        text = LOG4J2.format(level=level, appender="File") + f"appender.out.fileName={log}\n"
        return _write(folder / "log4j2.properties", text)
    text = LOG4J.format(level=level, appender="FileAppender") + f"log4j.appender.out.File={log}\n"
    return _write(folder / "log4j.properties", text)


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
