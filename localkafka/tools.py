"""The JVM's console programs of a version, as child processes: the reference for tests, demo and benchmarks.

They read and write text: keys and values are UTF-8.  A program's log goes to a file in the cluster's work folder
(tools/), which errors quote.  `python -m localkafka.tools` runs one from a shell.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import IO

import click

from groundwork.decimals import MAX_INT64, decimal_int
from kafkawire.model import TopicPartition
from localkafka import java, releases
from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.errors import LocalKafkaError
from localkafka.programs import ConsoleConsumer, feed, mirror_arguments, printed, work_files, write_properties

# (first release, class): the last row that is not newer than the release applies
CONSOLE_CONSUMER = (
    ((0,), "kafka.consumer.ConsoleConsumer"),
    ((0, 8, 2), "kafka.tools.ConsoleConsumer"),
    ((3,), "org.apache.kafka.tools.consumer.ConsoleConsumer"),
)
CONSOLE_PRODUCER = (
    ((0,), "kafka.producer.ConsoleProducer"),
    ((0, 8, 2), "kafka.tools.ConsoleProducer"),
    ((4,), "org.apache.kafka.tools.ConsoleProducer"),
)


def java_command(version: str, main: str, arguments: Sequence[str], flags: Sequence[str] = ()) -> list[str]:
    """Return the command line that runs a class from a version's jars, with the JVM's defaults unless flags are given.
    It logs to standard error at WARN."""
    return java.command(releases.release(version), main, arguments, flags=flags)


def console_consumer(
    cluster: ClusterClient,
    topic: str = "",
    group: str = "",
    *,
    whitelist: str = "",
    from_beginning: bool = True,
    config: Mapping[str, object] | None = None,
    key_separator: str = "",
    arguments: Sequence[str] = (),
) -> ConsoleConsumer:
    """Start a console consumer of a topic, or of a whitelist (a Java regex).

    group: if empty, the program generates one.  config: consumer properties.  key_separator: print key and separator
    before each value.  0.8.2 refuses from_beginning for a group that has offsets.
    """
    properties = {**({"group.id": group} if group else {}), **(config or {})}
    work = work_files(cluster.folder, "console-consumer")
    write_properties(work.with_suffix(".properties"), properties)
    argv = ["--topic", topic] if topic else ["--whitelist", whitelist]
    argv += _reach(cluster, "--bootstrap-server")
    argv += ["--consumer.config", str(work.with_suffix(".properties"))] if properties else []
    argv += ["--from-beginning"] if from_beginning else []
    argv += _separated_keys("print.key", key_separator)
    main = class_of(CONSOLE_CONSUMER, cluster.version)
    return ConsoleConsumer(_child(cluster, work, main, [*argv, *arguments], stdout=subprocess.PIPE))


def console_producer(
    cluster: ClusterClient,
    topic: str,
    lines: Iterable[str],
    *,
    codec: str = "none",
    key_separator: str = "",
    acks: int = -1,
    arguments: Sequence[str] = (),
    timeout_s: float = 60,
) -> None:
    """Send each line as a message with the console producer, and wait for its end.

    codec: none, gzip, snappy, lz4; key_separator: the text before the first one in a line is the key.
    Raises LocalKafkaError when it fails or logs that it dropped messages (its exit code does not show that)."""
    argv = ["--broker-list", cluster.brokers, "--topic", topic, "--request-required-acks", str(acks)]
    argv += ["--message-send-max-retries", "20", *_codec_option(cluster, codec)]
    argv += _separated_keys("parse.key", key_separator)
    work = work_files(cluster.folder, "console-producer")
    main = class_of(CONSOLE_PRODUCER, cluster.version)
    feed(_child(cluster, work, main, [*argv, *arguments], stdin=subprocess.PIPE), lines, timeout_s)


def _separated_keys(switch: str, separator: str) -> list[str]:
    if "=" in separator:
        raise LocalKafkaError(f"key separator {separator!r}: the JVM's --property KEY=VALUE does not allow a second =")
    return ["--property", f"{switch}=true", "--property", f"key.separator={separator}"] if separator else []


def _codec_option(cluster: ClusterClient, codec: str) -> list[str]:
    if codec == "none":
        return []
    if releases.release(cluster.version).number >= (0, 8, 2):
        return ["--compression-codec", codec]
    if codec == "gzip":
        return ["--compress"]
    raise LocalKafkaError(f"the console producer of {cluster.version} compresses with gzip only, not {codec}")


def mirror_maker(
    sources: Sequence[ClusterClient],
    target: ClusterClient,
    *,
    whitelist: str,
    group: str,
    num_streams: int = 1,
    consumer: Mapping[str, object] | None = None,
    producer: Mapping[str, object] | None = None,
    flags: Sequence[str] = java.SMALL,
    arguments: Sequence[str] = (),
) -> Child:
    """Start the JVM's MirrorMaker of the target's version, with the old consumer (releases up to 1.1).  Unless the
    properties differ, it starts at the smallest offset and waits for all replicas."""
    work = work_files(target.folder, "mirror-maker")
    reads = [
        {"zookeeper.connect": source.zookeeper, "group.id": group, "auto.offset.reset": "smallest", **(consumer or {})}
        for source in sources
    ]
    waits = {"request.required.acks": -1, "producer.type": "async", "queue.enqueue.timeout.ms": -1}
    sends = {"metadata.broker.list": target.brokers, **waits, **(producer or {})}
    argv = mirror_arguments(work, whitelist, num_streams=num_streams, consumers=reads, producer=sends)
    return _child(target, work, "kafka.tools.MirrorMaker", [*argv, *arguments], flags=flags)


@dataclass(frozen=True, slots=True)
class CheckedOffset:
    """A row of the ConsumerOffsetChecker.  owner: None for a partition without owner; a number is None when unknown."""

    group: str
    topic: str
    partition: int
    _: KW_ONLY
    offset: int | None
    log_size: int | None
    lag: int | None
    owner: str | None


def consumer_offset_checker(cluster: ClusterClient, group: str, topic: str) -> list[CheckedOffset]:
    """Return the rows of the JVM's ConsumerOffsetChecker (0.8 to 0.10) for a group and a topic."""
    option = "--zkconnect" if releases.release(cluster.version).number < (0, 8, 2) else "--zookeeper"
    argv = ["--group", group, "--topic", topic, option, cluster.zookeeper]
    rows = []
    for line in run(cluster, "kafka.tools.ConsumerOffsetChecker", argv).splitlines():
        words = line.split()
        if len(words) == 7 and words[0] == group:
            offset, size, lag = (decimal_int(word, least=-MAX_INT64) for word in words[3:6])
            owner = None if words[6] == "none" else words[6]
            rows.append(
                CheckedOffset(words[0], words[1], int(words[2]), offset=offset, log_size=size, lag=lag, owner=owner)
            )
    return rows


def topic_command(cluster: ClusterClient, *arguments: str) -> str:
    """Run the JVM's TopicCommand (releases up to 2.8) on the cluster, and return its output."""
    return run(cluster, "kafka.admin.TopicCommand", ["--zookeeper", cluster.zookeeper, *arguments])


def run(cluster: ClusterClient, main: str, arguments: Sequence[str], timeout_s: float = 60) -> str:
    """Run a class of the cluster's jars to its end, and return its standard output.  Raises LocalKafkaError when it
    fails."""
    work = work_files(cluster.folder, main.rpartition(".")[2])
    return printed(_child(cluster, work, main, arguments, stdout=subprocess.PIPE), timeout_s)


# DumpLogSegments --print-data-log prints (0.8 to 0.10):
#
#   offset: 7 position: 0 isvalid: true payloadsize: 5 magic: 0 compresscodec: NoCompressionCodec crc: 99 keysize: 1 \
#       key: k payload: hello
#
# Sizes count bytes, so keys and payloads may hold any UTF-8, also line ends.  From 0.9 on the key of a message without
# payload is not printed, only its size.
DUMP_HEAD = re.compile(
    rb"offset: (?P<offset>\d+) position: (?P<position>\d+)(?: \w+Time: (?P<time>-?\d+))? isvalid: (?P<valid>\w+)"
    rb" payloadsize: (?P<payload>-?\d+) magic: (?P<magic>\d+) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+)"
    rb"(?: keysize: (?P<key>-?\d+))?"
)
DUMP_FILE = b"Dumping "
DUMP_KEY, DUMP_PAYLOAD = b" key: ", b" payload: "


@dataclass(frozen=True, slots=True)
class Dumped:
    """A message as the JVM read it.  position: byte in the segment file; codec: the JVM's name for it.  A key is None
    when it is null (then key_size is −1) or was not printed.  timestamp_ms: None if the format has none."""

    file: str  # segment that contains it
    offset: int
    position: int
    valid: bool  # its CRC is right
    crc: int
    magic: int
    codec: str
    key: str | None
    payload: str | None
    key_size: int = -1
    timestamp_ms: int | None = None


def dump_log(cluster: ClusterClient, segments: Sequence[Path], deep_iteration: bool = True) -> Iterator[Dumped]:
    """Yield every message of these segment files, also active ones, as the JVM's DumpLogSegments reads them (text
    payloads). deep_iteration: the messages inside compressed entries instead of the entries."""
    if not segments:
        return
    argv = ["--files", ",".join(map(str, segments)), "--print-data-log", "--max-message-size", str(1 << 26)]
    argv += ["--deep-iteration"] if deep_iteration else []
    work = work_files(cluster.folder, "dump-log")
    flags = ("-Xmx512m", *java.QUICK)
    with _child(cluster, work, "kafka.tools.DumpLogSegments", argv, stdout=subprocess.PIPE, flags=flags) as child:
        assert child.stdout is not None
        yield from parse_dump(child.stdout)
        if child.wait(15) != 0:
            raise LocalKafkaError(f"{child.name} ended with {child.exit_code}; {child.log_end()}")


def dump_partition(cluster: ClusterClient, topic: str, partition: int) -> Iterator[Dumped]:
    """Yield every message of a partition's log on its leader's disk, as the JVM reads it."""
    return dump_log(cluster, cluster.segments(TopicPartition(topic, partition)))


def dump_topic(cluster: ClusterClient, topic: str, partitions: Sequence[int]) -> dict[int, list[Dumped]]:
    """Return every message of these partitions, read by one run of the JVM's DumpLogSegments."""
    files = {
        str(segment): partition
        for partition in partitions
        for segment in cluster.segments(TopicPartition(topic, partition))
    }
    dumped: dict[int, list[Dumped]] = {partition: [] for partition in partitions}
    for row in dump_log(cluster, [Path(file) for file in files]):
        dumped[files[row.file]].append(row)
    return dumped


def parse_dump(output: IO[bytes]) -> Iterator[Dumped]:
    """Yield the messages of a dump.  Raises LocalKafkaError if a key or payload does not have its printed size."""
    lines = iter(output.readline, b"")
    file = ""
    for line in lines:
        head = DUMP_HEAD.match(line)
        if head is None:  # "Dumping FILE", "Starting offset: N"
            if line.startswith(DUMP_FILE):
                file = line[len(DUMP_FILE) :].decode().rstrip()
            continue
        sizes = [int(head[name]) if head[name] is not None else -1 for name in ("key", "payload")]
        if sizes[1] < 0 and not line.startswith(DUMP_KEY, head.end()):
            yield _dumped(file, head, line, key_size=-1, payload_size=-1)
            continue
        rest = sum(len(label) + size for label, size in zip((DUMP_KEY, DUMP_PAYLOAD), sizes, strict=True) if size >= 0)
        while len(line) < head.end() + rest + 1:
            more = next(lines, None)
            if more is None:
                break
            line += more
        yield _dumped(file, head, line, key_size=sizes[0], payload_size=sizes[1])


def _dumped(file: str, head: re.Match[bytes], line: bytes, *, key_size: int, payload_size: int) -> Dumped:
    at = head.end()
    key, at = _dumped_text(line, at, DUMP_KEY, key_size)
    payload, at = _dumped_text(line, at, DUMP_PAYLOAD, payload_size)
    return Dumped(
        file=file,
        offset=int(head["offset"]),
        position=int(head["position"]),
        valid=head["valid"] == b"true",
        crc=int(head["crc"]),
        magic=int(head["magic"]),
        codec=head["codec"].decode(),
        key=key,
        payload=payload,
        key_size=int(head["key"]) if head["key"] is not None else -1,
        timestamp_ms=int(head["time"]) if head["time"] is not None else None,
    )


def _dumped_text(line: bytes, at: int, label: bytes, size: int) -> tuple[str | None, int]:
    if size < 0:
        return None, at
    end = at + len(label) + size
    if not line.startswith(label, at) or end >= len(line):
        raise LocalKafkaError(
            f"DumpLogSegments printed no{label.decode()}of {size} bytes (is it text?): {line[:200]!r}"
        )
    return line[at + len(label) : end].decode(errors="replace"), end


def _child(
    cluster: ClusterClient,
    work: Path,
    main: str,
    arguments: Sequence[str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    flags: Sequence[str] = java.SMALL,
) -> Child:
    argv = java_command(cluster.version, main, arguments, flags)
    return Child(
        f"{main.rpartition('.')[2]} {cluster.version}", argv, work.with_suffix(".log"), stdin=stdin, stdout=stdout
    )


def class_of(classes: Sequence[tuple[releases.Number, str]], version: str) -> str:
    """Return the class of a program in a release: CONSOLE_CONSUMER, CONSOLE_PRODUCER."""
    number = releases.release(version).number
    return [name for since, name in classes if number >= since][-1]


def _reach(cluster: ClusterClient, bootstrap_option: str) -> list[str]:
    """Return the options that name the cluster: ZooKeeper if the release has the old consumer."""
    if releases.release(cluster.version).number < (2,):
        return ["--zookeeper", cluster.zookeeper]
    return [bootstrap_option, cluster.brokers]


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    }
)
@click.option("--version", default=releases.DEFAULT, show_default=True, help="Kafka's version.")
@click.argument("main_class", metavar="CLASS")
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
def main(version: str, main_class: str, arguments: tuple[str, ...]) -> None:
    """Run a class of Kafka's jars with Java, as bin/kafka-run-class.sh does; Maven fetches the jars once.

    python -m localkafka.tools kafka.tools.ConsoleConsumer --zookeeper 127.0.0.1:2181/kafka --topic orders
    """
    try:
        argv = java_command(version, main_class, arguments)
    except LocalKafkaError as error:
        print(f"localkafka.tools: {error}", file=sys.stderr)
        sys.exit(1)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(prog_name="python -m localkafka.tools")
