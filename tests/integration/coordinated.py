"""Groups on Kafka's own coordinator: clusters, members of ours and of the JVM as processes, and who owned what when."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from kafkawire.dialects import dialect
from kafkawire.errors import WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from localkafka import tools
from localkafka.child import Child
from localkafka.waiting import wait_until
from producer.producer import Producer
from tests.integration.groupprocess import start_ours, told
from tests.integration.modern import PROGRAM
from zkconsumer.offsets.coordinator import Coordinator

JAVA_MEMBER = Path(__file__).with_name("JavaMember.java")
SESSION_MS = 3000
SMALL = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def release_of(version: str) -> str:
    return version.rpartition(".")[0] if version.count(".") == 2 else version


class Writer:
    """Writes to all partitions of a topic, on and on, each message once whichever broker dies.

    By the Java producer of the brokers' release, idempotent; brokers before 0.11 know no such, and get ours.
    """

    def __init__(self, version: str, brokers: str, topic: str, partitions: int, folder: Path) -> None:
        self.sent = [0] * partitions
        self._topic = topic
        self._producer: Producer | None = None
        self._child: Child | None = None
        if version.startswith(("0.9.", "0.10.")):
            self._producer = Producer({"metadata.broker.list": brokers, "request.required.acks": -1})
        else:
            argv = tools.java_command(version, str(PROGRAM), [brokers], SMALL)
            pipe = subprocess.PIPE
            self._child = Child("the writer", argv, folder / "writer.log", stdin=pipe, stdout=pipe)
            self._tell("open w batch.size=100000 acks=all enable.idempotence=true")  # not the default before 3.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _tell(self, line: str) -> None:
        assert self._child is not None
        to, back = self._child.stdin, self._child.stdout
        assert to is not None
        assert back is not None
        to.write(line.encode() + b"\n")
        to.flush()
        assert back.readline() == b"ok\n", self._child.log_end(25)

    def _run(self) -> None:
        while not self._stop.is_set():
            for p, first in enumerate(self.sent):
                if self._producer is None:
                    self._tell(f"send w {self._topic} {p} {first} 5 0 0 0")
                else:
                    for n in range(first, first + 5):
                        self._producer.send(self._topic, b"%s/%d #%d" % (self._topic.encode(), p, n), partition=p)
                self.sent[p] = first + 5
            self._stop.wait(0.1)
        if self._producer is None:
            self._tell("flush w")
        else:
            self._producer.flush()

    def end(self) -> list[int]:
        """Stop; how many messages each partition got."""
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        return list(self.sent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        if self._child is not None:
            self._child.close()
        if self._producer is not None:
            self._thread.join(30)
            self._producer.close()


@dataclass
class Handed:
    at: float  # monotonic seconds
    partition: int
    offset: int


@dataclass
class Period:
    """A member owned these partitions from then on, until it released them, or was killed or frozen."""

    since: float
    partitions: frozenset[int]
    until: float = float("inf")


@dataclass
class GroupProcess:
    """A member as a process; lines(): what it told so far."""

    name: str
    child: Child
    lines: Callable[[], Sequence[str]]
    events: Callable[[], Sequence[str]]  # with what it was assigned and what it released
    frozen: list[float] = field(default_factory=list)
    killed: float = float("inf")

    def handed(self) -> list[Handed]:
        rows = [line.split(" ", 3) for line in self.lines()]
        return [Handed(float(r[0]), int(r[1]), int(r[2])) for r in rows if len(r) == 4 and r[1].isdigit()]

    def periods(self) -> list[Period]:
        found: list[Period] = []
        for line in self.events():
            at, how, *partitions = line.split()
            if found and found[-1].until == float("inf"):
                found[-1].until = float(at)
            if how == "owned":
                found.append(Period(float(at), frozenset(map(int, partitions))))
        for period in found:
            for end in (*self.frozen, self.killed):
                if period.since <= end < period.until:
                    period.until = end
        return [period for period in found if period.partitions]

    @property
    def owns(self) -> frozenset[int]:
        """What it owns now."""
        last = self.periods()[-1:]
        return last[0].partitions if last and last[0].until == float("inf") else frozenset()

    def freeze(self) -> None:
        self.child.pause()
        self.frozen.append(time.monotonic())

    def kill(self) -> None:
        self.child.kill()
        self.killed = time.monotonic()

    def __repr__(self) -> str:
        return f"{self.name}: {self.periods()}; {self.child.log_end(25)}"


def ours(folder: Path, topic: str, options: Mapping[str, object], streams: int = 1) -> GroupProcess:
    child = start_ours(folder, topic, streams, options)

    def events() -> list[str]:
        """owned: 2 partitions: t/0, t/1, as JavaMember prints it; a fence releases all."""
        found = []
        for line in child.log.read_text(errors="replace").splitlines():
            at, _, rest = line.partition(" ")
            kind, _, text = rest.partition(": ")
            if kind in ("owned", "released"):
                names = text.partition(": ")[2].split(", ")
                found.append(f"{at} {kind} {' '.join(name.rpartition('/')[2] for name in names)}")
            elif kind == "fence":
                found.append(f"{at} released")
        return found

    return GroupProcess("ours", child, lambda: told(child), events)


def java(
    folder: Path, version: str, brokers: str, group: str, topic: str, options: Mapping[str, object] | None = None
) -> GroupProcess:
    """A member with the Java consumer of a release."""
    log = folder / f"java-{time.monotonic_ns()}.log"
    out = log.with_suffix(".out")
    given = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 300, **(options or {})}
    words = [brokers, group, topic, *(f"{key}={value}" for key, value in given.items())]
    argv = tools.java_command(version, str(JAVA_MEMBER), words, SMALL)
    with out.open("ab") as file:
        child = Child("a member of the JVM", argv, log, stdout=file.fileno())

    def lines() -> list[str]:
        return out.read_text(errors="replace").split("\n")[:-1]

    def events() -> list[str]:
        return [line for line in lines() if " owned" in line or " released" in line]

    return GroupProcess("java", child, lines, events)


def wait_shared(members: Sequence[GroupProcess], partitions: int, timeout_s: float = 30) -> None:
    """Wait until these members own all partitions between them, and each of them some."""

    def shared() -> bool:
        owned = [member.owns for member in members]
        return all(owned) and sum(map(len, owned)) == partitions == len(frozenset().union(*owned))

    wait_until(shared, timeout_s, lambda: f"the members to share {partitions} partitions; {members}")


def wait_reading(members: Sequence[GroupProcess], timeout_s: float = 30) -> None:
    """Wait until each of these has been handed something after now."""
    since = time.monotonic()
    wait_until(
        lambda: all(any(h.at > since for h in member.handed()) for member in members),
        timeout_s,
        lambda: f"each member to be handed messages; {members}",
    )


def check_owned_once(members: Sequence[GroupProcess]) -> None:
    """No partition is owned by two members at a time, and what was handed out was owned by its member then.

    A frozen one owns nothing from its freezing on: what it had it may not hand out once it runs again.
    """
    for member in members:
        for handed in member.handed():
            assert any(
                handed.partition in period.partitions and period.since - 0.05 <= handed.at <= period.until + 0.05
                for period in member.periods()
            ), f"{member.name} was handed {handed}, and owned {member.periods()}"
    rows = [(p, period, member) for member in members for period in member.periods() for p in period.partitions]
    for n, (partition, one, first) in enumerate(rows):
        for other_partition, other, second in rows[n + 1 :]:
            if partition == other_partition and first is not second:
                assert one.until <= other.since or other.until <= one.since, (
                    f"{partition} is owned by {first.name} in {one} and by {second.name} in {other}"
                )


def check_all_delivered(members: Sequence[GroupProcess], sent: Sequence[int]) -> None:
    delivered = {(h.partition, h.offset) for member in members for h in member.handed()}
    missing = {(p, n) for p, count in enumerate(sent) for n in range(count)} - delivered
    assert not missing, f"{len(missing)} of {sum(sent)} messages were never delivered, the first {min(missing)}"


def addresses(brokers: str) -> list[tuple[str, int]]:
    return [(host, int(port)) for host, _, port in (one.rpartition(":") for one in brokers.split(","))]


class Committed:
    """The committed offsets of a group, as its coordinator has them; a thread looks on, and they may never fall."""

    def __init__(self, version: str, brokers: str, group: str, topic: str, partitions: int) -> None:
        self._tps = [TopicPartition(topic, p) for p in range(partitions)]
        self._links = Links("test", timeout_ms=3000)
        known = [Broker(-1 - n, host, port) for n, (host, port) in enumerate(addresses(brokers))]
        self._coordinator = Coordinator(lambda: known, self._links, dialect(release_of(version)), 5, 300, 10_000)
        self._group = group
        self.fell: list[str] = []
        self._last: dict[TopicPartition, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def now(self) -> list[int]:
        """As seen last."""
        return [self._last.get(tp, 0) for tp in self._tps]

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            try:
                found = self._coordinator.fetch(self._group, self._tps, "kafka")
            except WireError:
                continue  # the coordinator moves
            seen = {tp: at for tp, at in found.items() if isinstance(at, int)}
            self.fell += [
                f"{tp} from {self._last[tp]} to {at}" for tp, at in seen.items() if at < self._last.get(tp, 0)
            ]
            self._last |= seen

    def end(self) -> None:
        """Stop looking on."""
        self._stop.set()
        self._thread.join(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()
        self._links.end()
