"""Programs of the original 0.7 as child processes, from KAFKA_07_HOME: the reference for tests on 0.7.

They read and write text.  A program's log goes to a file in the cluster's work folder (tools/), which errors quote.
The cluster may be of either kind: only the programs are the original's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from localkafka import java
from localkafka.child import Child
from localkafka.programs import ConsoleConsumer, feed, mirror_arguments, printed, work_files, write_properties
from localkafka.seven import original
from localkafka.seven.cluster import Cluster07

CONSUMED = b"consumed: "
QUICK_SESSION = {"zk.sessiontimeout.ms": 3000, "zk.connectiontimeout.ms": 15000, "zk.synctime.ms": 200}


class ShellConsumer(ConsoleConsumer):
    """A running ConsumerShell: .lines are the messages it consumed."""

    def _collect(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.startswith(CONSUMED):
                self.lines.append(line[len(CONSUMED) :].rstrip(b"\n"))


def console_producer(cluster: Cluster07, topic: str, lines: Iterable[str], timeout_s: float = 60) -> None:
    """Send each line in its own gzip wrapper to a random broker-partition, and wait for the program's end.  Always with
    --sync, without which the program does not end.  Raises LocalKafkaError when it fails or logs an error."""
    work = work_files(cluster.folder, "console-producer")
    argv = ["--zookeeper", cluster.zookeeper, "--topic", topic, "--sync"]
    feed(_child(work, "kafka.producer.ConsoleProducer", argv, stdin=subprocess.PIPE), lines, timeout_s)


def producer_shell(
    cluster: Cluster07,
    topic: str,
    lines: Iterable[str],
    *,
    config: Mapping[str, object] | None = None,
    timeout_s: float = 60,
) -> None:
    """Send each line (blanks at its ends are lost) with kafka.producer.Producer, and wait for the program's end.

    config: producer properties in addition to zk.connect, synchronous, uncompressed; broker.list replaces zk.connect.
    Raises LocalKafkaError when it fails or logs an error."""
    wanted = {"producer.type": "sync", "compression.codec": 0, **(config or {})}
    where = {} if "broker.list" in wanted else {"zk.connect": cluster.zookeeper}
    work = work_files(cluster.folder, "producer-shell")
    write_properties(
        work.with_suffix(".properties"), {"serializer.class": "kafka.serializer.StringEncoder", **where, **wanted}
    )
    argv = ["--props", str(work.with_suffix(".properties")), "--topic", topic]
    feed(_child(work, "kafka.tools.ProducerShell", argv, stdin=subprocess.PIPE), lines, timeout_s)


def console_consumer(
    cluster: Cluster07,
    topic: str = "",
    group: str = "",
    *,
    whitelist: str = "",
    from_beginning: bool = False,
    commit_ms: int = 500,
    arguments: Sequence[str] = (),
) -> ConsoleConsumer:
    """Start a console consumer of a topic, or of a whitelist (a Java regex); it registers `*1*topic` either way.

    from_beginning first deletes the group's whole path, nodes of other members included.  Its session timeout is 6
    s."""
    argv = ["--zookeeper", cluster.zookeeper, "--autocommit.interval.ms", str(commit_ms)]
    argv += ["--topic", topic] if topic else ["--whitelist", whitelist]
    argv += ["--group", group] if group else []
    argv += ["--from-beginning"] if from_beginning else []
    work = work_files(cluster.folder, "console-consumer")
    main = "kafka.consumer.ConsoleConsumer"
    return ConsoleConsumer(_child(work, main, [*argv, *arguments], stdout=subprocess.PIPE))


def consumer_shell(
    cluster: Cluster07, topic: str, group: str, *, streams: int = 1, config: Mapping[str, object] | None = None
) -> ShellConsumer:
    """Start a ConsumerShell: createMessageStreams, which registers `{ "topic": streams }`.

    config: consumer properties in addition to zk.connect, groupid, a start at the smallest offset, a commit every
    0.5 s and a session timeout of 3 s."""
    usual = {"autooffset.reset": "smallest", "autocommit.interval.ms": 500, **QUICK_SESSION}
    work = work_files(cluster.folder, "consumer-shell")
    write_properties(
        work.with_suffix(".properties"), {"zk.connect": cluster.zookeeper, "groupid": group, **usual, **(config or {})}
    )
    argv = ["--props", str(work.with_suffix(".properties")), "--topic", topic, "--partitions", str(streams)]
    return ShellConsumer(_child(work, "kafka.tools.ConsumerShell", argv, stdout=subprocess.PIPE))


def mirror_maker(
    sources: Sequence[Cluster07],
    target: Cluster07,
    *,
    whitelist: str,
    group: str,
    num_streams: int = 1,
    consumer: Mapping[str, object] | None = None,
    producer: Mapping[str, object] | None = None,
    flags: Sequence[str] = java.SMALL,
    arguments: Sequence[str] = (),
) -> Child:
    """Start 0.7's MirrorMaker.  Unless the properties differ, it starts at the smallest offset, sends asynchronously
    and blocks when its queue is full."""
    work = work_files(target.folder, "mirror-maker")
    reads = {"groupid": group, "autooffset.reset": "smallest", **QUICK_SESSION, **(consumer or {})}
    sends = {"zk.connect": target.zookeeper, "producer.type": "async", "queue.enqueueTimeout.ms": -1}
    consumers = [{"zk.connect": source.zookeeper, **reads} for source in sources]
    argv = mirror_arguments(
        work, whitelist, num_streams=num_streams, consumers=consumers, producer={**sends, **(producer or {})}
    )
    return _child(work, "kafka.tools.MirrorMaker", [*argv, *arguments], flags=flags)


def run(cluster: Cluster07, main: str, arguments: Sequence[str], timeout_s: float = 60) -> str:
    """Run a class of the original to its end, and return its standard output.  Raises LocalKafkaError when it fails."""
    work = work_files(cluster.folder, main.rpartition(".")[2])
    return printed(_child(work, main, arguments, stdout=subprocess.PIPE), timeout_s)


def _child(
    work: Path,
    main: str,
    arguments: Sequence[str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    flags: Sequence[str] = java.SMALL,
) -> Child:
    argv = original.command(main, arguments, work.parent, flags=flags, level="WARN")
    name = f"{main.rpartition('.')[2]} of the original 0.7"
    return Child(name, argv, work.with_suffix(".log"), stdin=stdin, stdout=stdout)
