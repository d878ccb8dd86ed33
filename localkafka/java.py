"""Command lines of JVMs: the java program, flags, and log configuration.

In the cache folder (localkafka.jars):

    classes/NAME-JAVA.jsa    classes that a program loads at its start; created by localkafka.classdata
    programs/NAME-DIGEST/    a Java source file, compiled
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from localkafka import jars
from localkafka.errors import LocalKafkaError
from localkafka.releases import Release

# Fast to start, and small.  Benchmarks pass their own flags: without TieredStopAtLevel the JIT optimises fully.
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SMALL = ("-Xmx256m", *QUICK)
WRITES_ARCHIVE = "-XX:ArchiveClassesAtExit="

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
    """Return the java program of JAVA_HOME, else of the PATH.  Raises LocalKafkaError when there is none."""
    home = os.environ.get("JAVA_HOME")
    if home and Path(home, "bin", "java").is_file():
        return str(Path(home, "bin", "java"))
    found = shutil.which("java")
    if found is None:
        raise LocalKafkaError(
            "java is not on the PATH and JAVA_HOME does not name one; install Java 17 "
            "(Debian: apt install openjdk-17-jre-headless)"
        )
    return found


@functools.cache
def _version(java: str) -> str:
    """Return the output of `java -version`."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=60)
    return done.stderr + done.stdout


def feature_version(java: str) -> int:
    """Return the feature release (8, 11, 17, ...) that `java -version` prints.  Raises LocalKafkaError when it prints
    none."""
    said = _version(java)
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise LocalKafkaError(f"{java} -version prints no version, but: {said.strip() or 'nothing'}")
    return int(found.group(1))


def archive(name: str) -> Path:
    """Return the archive of the classes that a program loads at its start, for this Java.  Raises LocalKafkaError."""
    return jars.cache() / "classes" / f"{name}-{_digest(_version(executable()).encode())}.jsa"


def archive_flags(name: str) -> tuple[str, ...]:
    """Return flags for a JVM to start from its archive, if there is one; the JVM ignores one that does not fit."""
    file = archive(name)
    # The JVM would print that on standard output, which belongs to the program.
    return (f"-XX:SharedArchiveFile={file}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if file.is_file() else ()


def quick_spark() -> dict[str, str]:
    """Return an environment in which Spark's JVMs start from archives, too: its launcher, drivers, a standalone master
    and its workers."""
    try:
        archived = archive_flags(spark_name())
    except LocalKafkaError:
        archived = ()  # without java, Spark reports it itself
    drivers = (*QUICK, *archived)
    options = {"LAUNCHER_OPTS": QUICK, "SUBMIT_OPTS": drivers, "DAEMON_JAVA_OPTS": QUICK}
    return {f"SPARK_{name}": " ".join(flags) for name, flags in options.items()}


def spark_name() -> str:
    """Return the name of the archive of Spark's drivers: of the Spark installed with this Python."""
    return f"spark-{_digest(sys.prefix.encode())}"


def archive_name(version: str, main: str) -> str:
    """Return the name of the archive of a class from a version's jars: tools load the same classes as brokers,
    ZooKeeper does not."""
    return f"{version}-{'zookeeper' if main.startswith('org.apache.zookeeper.') else 'kafka'}"


def compiled(source: Path, class_path: str) -> Path:
    """Return the folder with the classes of a source file, compiled once.  Raises LocalKafkaError when it does not
    compile."""
    digest = _digest(source.read_bytes(), class_path.encode(), _version(executable()).encode())
    ready = jars.cache() / "programs" / f"{source.stem}-{digest}"
    if not ready.is_dir():
        ready.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=ready.parent, prefix=f".{source.stem}-") as work:
            classes = Path(work, "classes")
            argv = [executable(), *QUICK, "--module", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn"]
            argv += ["-cp", os.pathsep.join(_jars(class_path)), "-d", str(classes), str(source)]
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=120)
            if done.returncode:
                raise LocalKafkaError(f"{source} does not compile: {done.stderr.strip() or done.stdout.strip()}")
            with contextlib.suppress(OSError):  # another process was first
                classes.rename(ready)
    return ready


def _jars(class_path: str) -> Iterator[str]:
    """Yield the entries of a class path, each jar of a folder by its name: javac as a module does not support
    FOLDER/*."""
    for entry in class_path.split(os.pathsep):
        yield from map(str, sorted(Path(entry[:-1]).glob("*.jar"))) if entry.endswith("/*") else [entry]


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def ready(release: Release) -> tuple[str, str]:
    """Return the java program and the class path for a version, its jars fetched.
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
    """Return the command line that runs a class from a version's jars, logging to standard error at `level`.

    main: the class, or a source file (NAME.java) of which the class NAME is run.

    Raises LocalKafkaError when java is missing or too old, the jars cannot be fetched, or the file does not compile.
    """
    java, class_path = ready(release)
    _log_config(release, level)
    programs: list[str] = []
    if main.endswith(".java"):
        source = Path(main)
        main, programs = source.stem, [str(compiled(source, class_path))]
    if not any(flag.startswith(WRITES_ARCHIVE) for flag in flags):
        flags = (*flags, *archive_flags(archive_name(release.version, main)))
    return command_line(
        java, str(jars.cache()), release, main=main, arguments=arguments, flags=flags, level=level, programs=programs
    )


def command_line(
    java: str,
    cache: str,
    release: Release,
    *,
    main: str,
    arguments: Sequence[str],
    flags: Sequence[str],
    level: str,
    programs: Sequence[str] = (),
) -> list[str]:
    """Return the command line of a class, for a java program and the cache folder with the jars and log configurations.
    programs: folders with further classes."""
    fixed = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Djava.net.preferIPv4Stack=true")
    logging = f"-D{'log4j2.configurationFile=' if release.log4j2 else 'log4j.configuration=file:'}"
    logging += f"{cache}/{_log_config_name(release, level)}"
    class_path = os.pathsep.join([f"{cache}/jars/{release.version}/*", *programs])
    return [java, *flags, *fixed, logging, "-cp", class_path, main, *arguments]


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
