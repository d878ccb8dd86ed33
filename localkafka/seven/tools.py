"""The original 0.7's own programs as child processes, from KAFKA_07_HOME: the oracles of tests on 0.7.

They read and write text.  What a program logs goes to a file in the cluster's work folder (tools/), which every error
quotes.  The cluster may be of either kind: only the programs are the original's.
"""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from localkafka import java, releases
from localkafka.child import Child
from localkafka.client import text_of
from localkafka.console import ConsoleConsumer
from localkafka.errors import LocalKafkaError
from localkafka.seven import original
from localkafka.seven.cluster import Cluster07

CONSUMED = b"consumed: "
QUICK_SESSION = {"zk.sessiontimeout.ms": 3000, "zk.connectiontimeout.ms": 15000, "zk.synctime.ms": 200}

_numbers = itertools.count(1)


class ShellConsumer(ConsoleConsumer):
    """A running ConsumerShell: .lines are the messages it consumed."""

    def _collect(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.startswith(CONSUMED):
                self.lines.append(line[len(CONSUMED) :].rstrip(b"\n"))


def console_producer(cluster: Cluster07, topic: str, lines: Iterable[str], timeout_s: float = 60) -> None:
    """Send each line as a gzip wrapper of its own to a drawn broker-partition, and wait for the program's end.  Always
    --sync: without it the program does not end.  Raises LocalKafkaError when it fails or logs an error."""
    work = _work(cluster, "console-producer")
    argv = ["--zookeeper", cluster.zookeeper, "--topic", topic, "--sync"]
    _feed(_child(work, "kafka.producer.ConsoleProducer", argv, stdin=subprocess.PIPE), lines, timeout_s)


def producer_shell(
    cluster: Cluster07,
    topic: str,
    lines: Iterable[str],
    config: Mapping[str, object] | None = None,
    timeout_s: float = 60,
) -> None:
    """Send each line (blanks at its ends are lost) with kafka.producer.Producer, and wait for the program's end.

    config: producer properties on top of zk.connect, synchronous, uncompressed; broker.list takes zk.connect away.
    Raises LocalKafkaError when it fails or logs an error."""
    wanted = {"producer.type": "sync", "compression.codec": 0, **(config or {})}
    where = {} if "broker.list" in wanted else {"zk.connect": cluster.zookeeper}
    work = _work(cluster, "producer-shell")
    _write(work, {"serializer.class": "kafka.serializer.StringEncoder", **where, **wanted})
    argv = ["--props", str(work.with_suffix(".properties")), "--topic", topic]
    _feed(_child(work, "kafka.tools.ProducerShell", argv, stdin=subprocess.PIPE), lines, timeout_s)


def console_consumer(
    cluster: Cluster07,
    topic: str = "",
    group: str = "",
    whitelist: str = "",
    from_beginning: bool = False,
    commit_ms: int = 500,
    arguments: Sequence[str] = (),
) -> ConsoleConsumer:
    """Start a console consumer of a topic, or of a whitelist (a Java regex); it registers `*1*topic` either way.

    from_beginning deletes the group's whole path first, nodes of other members included.  Its session is 6 s."""
    argv = ["--zookeeper", cluster.zookeeper, "--autocommit.interval.ms", str(commit_ms)]
    argv += ["--topic", topic] if topic else ["--whitelist", whitelist]
    argv += ["--group", group] if group else []
    argv += ["--from-beginning"] if from_beginning else []
    work = _work(cluster, "console-consumer")
    main = "kafka.consumer.ConsoleConsumer"
    return ConsoleConsumer(_child(work, main, [*argv, *arguments], stdout=subprocess.PIPE))


def consumer_shell(
    cluster: Cluster07, topic: str, group: str, streams: int = 1, config: Mapping[str, object] | None = None
) -> ShellConsumer:
    """Start a ConsumerShell: createMessageStreams, which registers `{ "topic": streams }`.

    config: consumer properties on top of zk.connect, groupid, a start at the smallest position, a commit every 0.5 s
    and a session of 3 s."""
    usual = {"autooffset.reset": "smallest", "autocommit.interval.ms": 500, **QUICK_SESSION}
    work = _work(cluster, "consumer-shell")
    _write(work, {"zk.connect": cluster.zookeeper, "groupid": group, **usual, **(config or {})})
    argv = ["--props", str(work.with_suffix(".properties")), "--topic", topic, "--partitions", str(streams)]
    return ShellConsumer(_child(work, "kafka.tools.ConsumerShell", argv, stdout=subprocess.PIPE))


def mirror_maker(
    sources: Sequence[Cluster07],
    target: Cluster07,
    whitelist: str,
    group: str,
    num_streams: int = 1,
    consumer: Mapping[str, object] | None = None,
    producer: Mapping[str, object] | None = None,
    flags: Sequence[str] = java.SMALL,
    arguments: Sequence[str] = (),
) -> Child:
    """Start 0.7's MirrorMaker; it starts at the smallest position, sends asynchronously and blocks when its queue is
    full unless consumer and producer properties say otherwise."""
    work = _work(target, "mirror-maker")
    argv = ["--whitelist", whitelist, "--num.streams", str(num_streams)]
    for number, source in enumerate(sources):
        reads = {"zk.connect": source.zookeeper, "groupid": group, "autooffset.reset": "smallest", **QUICK_SESSION}
        path = work.with_suffix(f".consumer{number}")
        path.write_text(_properties({**reads, **(consumer or {})}), encoding="utf-8")
        argv += ["--consumer.config", str(path)]
    sends = {"zk.connect": target.zookeeper, "producer.type": "async", "queue.enqueueTimeout.ms": -1}
    path = work.with_suffix(".producer")
    path.write_text(_properties({**sends, **(producer or {})}), encoding="utf-8")
    argv += ["--producer.config", str(path)]
    return _child(work, "kafka.tools.MirrorMaker", [*argv, *arguments], flags=flags)


def run(cluster: Cluster07, main: str, arguments: Sequence[str], timeout_s: float = 60) -> str:
    """Run a class of the original to its end; its standard output.  LocalKafkaError when it fails."""
    work = _work(cluster, main.rpartition(".")[2])
    with _child(work, main, arguments, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        alarm = threading.Timer(timeout_s, child.kill)
        alarm.start()
        try:
            printed = child.stdout.read().decode(errors="replace")
        finally:
            alarm.cancel()
        if child.wait(15) != 0:
            raise LocalKafkaError(f"{child.name} ended with {child.exit_code}: {printed[-500:]}\n{child.log_end()}")
    return printed


def _feed(child: Child, lines: Iterable[str], timeout_s: float) -> None:
    with child:
        assert child.stdin is not None
        try:
            child.stdin.write("".join(f"{line}\n" for line in lines).encode())
            child.stdin.close()
        except BrokenPipeError:
            pass  # it ended early; its exit code and log say why
        code = child.wait(timeout_s)
        if code != 0 or " ERROR " in child.log.read_text(errors="replace"):
            ended = "still runs" if code is None else f"ended with {code}"
            raise LocalKafkaError(f"{child.name} {ended} and did not send every line; {child.log_end()}")


def _child(
    work: Path,
    main: str,
    arguments: Sequence[str],
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    flags: Sequence[str] = java.SMALL,
) -> Child:
    argv = original.command(main, arguments, work.parent, flags, level="WARN")
    name = f"{main.rpartition('.')[2]} of the original 0.7"
    return Child(name, argv, work.with_suffix(".log"), stdin=stdin, stdout=stdout)


def _work(cluster: Cluster07, name: str) -> Path:
    """A name for this run's files, without suffix."""
    folder = cluster.folder / "tools"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}-{threading.get_native_id()}-{next(_numbers)}"


def _write(work: Path, values: Mapping[str, object]) -> None:
    work.with_suffix(".properties").write_text(_properties(values), encoding="utf-8")


def _properties(values: Mapping[str, object]) -> str:
    return releases.properties({key: text_of(value) for key, value in values.items()})
