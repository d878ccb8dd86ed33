"""Original Kafka 0.7 in the folder that KAFKA_07_HOME names: class path and command lines.

The folder holds classes/ (compiled) and lib/ (jars), or the layout of a 0.7 build or release.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from localkafka import java
from localkafka.errors import LocalKafkaError

HOME = "KAFKA_07_HOME"
JARS = (
    "*.jar",
    "lib/*.jar",
    "libs/*.jar",
    "core/target/scala_*/*.jar",
    "core/lib/*.jar",
    "core/lib_managed/scala_*/compile/*.jar",
    "project/boot/scala-*/lib/scala-library.jar",
    "perf/target/scala_*/kafka*.jar",
)
OPENS = ("--add-opens", "java.base/java.lang=ALL-UNNAMED")  # snappy-java 1.0 loads its library by reflection


def home() -> Path | None:
    """Return the folder of the original; None when KAFKA_07_HOME is not set."""
    named = os.environ.get(HOME)
    return Path(named) if named else None


def class_path() -> str:
    """Return its class path.  Raises LocalKafkaError if KAFKA_07_HOME is not set, or does not contain Kafka 0.7."""
    folder = home()
    if folder is None:
        raise LocalKafkaError(f"{HOME} is not set; set it to a folder with a built Kafka 0.7 (classes/ and lib/)")
    jars = [str(jar) for pattern in JARS for jar in sorted(folder.glob(pattern))]
    compiled = (folder / "classes" / "kafka" / "Kafka.class").is_file()
    if not compiled and not any(Path(jar).name.startswith("kafka-") for jar in jars):
        raise LocalKafkaError(f"{HOME}={folder} has neither classes/kafka/Kafka.class nor a kafka-0.7*.jar")
    return os.pathsep.join([str(folder / "classes"), *jars] if compiled else jars)


def command(
    main: str,
    arguments: Sequence[str],
    logs: Path,
    *,
    flags: Sequence[str] = java.SMALL,
    level: str = "INFO",
    source: Path | None = None,
) -> list[str]:
    """Return the command line that runs one of its classes, or that of a source file, logging to standard error.

    logs: folder for its log4j configuration.  Raises LocalKafkaError when there is no java, or no 0.7.
    """
    classes = class_path()
    if source is not None:
        classes = os.pathsep.join([str(java.compiled(source, classes)), classes])
    config = logs / f"log4j-{level.lower()}.properties"
    config.write_text(java.LOG4J.format(level=level), encoding="utf-8")
    executable = java.executable()
    opens = OPENS if java.feature_version(executable) >= 9 else ()
    fixed = ("-Dfile.encoding=UTF-8", "-Djava.net.preferIPv4Stack=true", f"-Dlog4j.configuration=file:{config}")
    return [executable, *flags, *opens, *fixed, "-cp", classes, main, *arguments]
