"""A pair of the matrix: a mirror from source to target, killed at about a third, and what became of each message."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from localkafka.child import Child
from localkafka.errors import LocalKafkaError
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from tests.matrix import messages
from tests.matrix.foreign import console_timestamps, read_by_librdkafka
from tests.matrix.messages import Topic
from tests.matrix.peer import Row
from tests.matrix.sites import Kind, Site, dropped

ARRIVE_S = 60
TIMING = {"offset.commit.interval.ms": 500, "status.interval.ms": 1000, "start.timeout.ms": 20000}


@dataclass(slots=True)
class Outcome:
    """What became of the messages of a pair; each number counts messages.

    repeated     stored again after the kill                     disordered  behind a later one of their partition
    timestamps   equal at both, different, or lost: the target's format has none
    headers      equal at both (where a message has any), different, or dropped
    problems     sentences; none: the pair is as it should be
    """

    source: str
    target: str
    messages: int = 0
    lost: int = 0
    foreign: int = 0
    disordered: int = 0
    repeated: int = 0
    aborted: int = 0  # of aborted transactions, and stored all the same
    timestamps: dict[str, int] = field(default_factory=dict)
    headers: dict[str, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    read_by: list[str] = field(default_factory=list)
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


class Pair:
    """A mirror from one site to another.

    pinned    with the releases as options, else they are asked for
    made      the target has the topics already, else the mirror makes them
    console   the target is also read with the console consumer of its release
    """

    def __init__(
        self,
        source: Site,
        target: Site,
        folder: Path,
        tag: str,
        *,
        pinned: bool = False,
        made: bool = False,
        console: bool = False,
    ) -> None:
        self.source, self.target, self.folder = source, target, folder
        self.pinned, self.made, self.console = pinned, made, console
        self.group = f"mirror-{tag}"
        self.topics = messages.topics(tag, source.kind)
        folder.mkdir(parents=True, exist_ok=True)
        self.file, self.log = folder / "mirror.yaml", folder / "mirror.log"
        self._child: Child | None = None

    @property
    def names(self) -> list[str]:
        return [topic.name for topic in self.topics]

    def run(self) -> Outcome:
        """Write a half, mirror, kill -9 at a third of all, write the rest, start again, wait for the end, compare."""
        outcome = Outcome(self.source.kind.name, self.target.kind.name)
        began = time.monotonic()
        try:
            self._mirror()
            self._compare(outcome)
        except (LocalKafkaError, OSError) as error:
            outcome.problems.append(str(error))
            if self.log.name not in str(error) and "log ends" not in str(error):
                outcome.problems.append(self._said_last())
        finally:
            self.close()
        outcome.seconds = round(time.monotonic() - began, 1)
        return outcome

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    # ---- the run

    def _mirror(self) -> None:
        half = messages.COUNT // 2
        for topic in self.topics:
            self.source.create(topic.name, messages.PARTITIONS, topic.config)
            if self.made:
                self.target.create(topic.name, messages.PARTITIONS)
            if topic.transactional:
                self._transactions(topic)
            else:
                self._send(topic, 0, half)
        self._configure()
        self._start()
        third = len(self.topics) * messages.COUNT // 3
        wait_until(lambda: self._arrived() >= third, ARRIVE_S, lambda: f"{third} messages; {self._said_last()}")
        assert self._child is not None
        self._child.kill()
        for topic in self.topics:
            if not topic.transactional:
                self._send(topic, half, messages.COUNT - half)
        self._start()
        for topic in self.topics:
            self.source.peer.send(messages.marks(topic, self.source.kind), **self._producer("none"))
        self.target.peer.wait(messages.MARK.replace(" ", "_"), self.names, messages.PARTITIONS, ARRIVE_S)
        wait_until(lambda: not self._uncounted(), ARRIVE_S, lambda: f"losses in the status line; {self._said_last()}")
        code = self._child.stop(20)
        if code:
            raise LocalKafkaError(f"SIGTERM: the mirror ended with {code}")

    def _send(self, topic: Topic, first: int, count: int) -> None:
        rows = messages.rows(topic, self.source.kind, first, count)
        self.source.peer.send(rows, **self._producer(topic.codec))

    def _producer(self, codec: str) -> dict[str, object]:
        if self.source.kind.number < (0, 9):
            return {"compression_codec": codec}
        return {"compression_type": codec}

    def _transactions(self, topic: Topic) -> None:
        for commit, rows in messages.transactions(topic, self.source.kind):
            self.source.peer.transaction(rows, commit, transactional_id=topic.name)

    def _arrived(self) -> int:
        assert self._child is not None
        if not self._child.running:
            raise LocalKafkaError(f"the mirror ended with {self._child.exit_code}")
        return sum(self.target.peer.ends(self.names).values())

    def _configure(self) -> None:
        source: dict[str, Any] = {"name": "source", "group.id": self.group, **self.source.as_source}
        target: dict[str, Any] = {"metadata.broker.list": self.target.brokers}
        if self.target.kind.number < (0, 10):
            target["target.zookeeper.connect"] = self.target.zookeeper
        if self.pinned:
            source["version"], target["target.version"] = self.source.kind.pin, self.target.kind.pin
        names = "|".join(name.replace(".", r"\.") for name in self.names)
        lost = dropped(self.source.kind, self.target.kind)
        drops = {"drop.fields": list(lost)} if lost else {}
        document = {"sources": [source], "target": target, "mirror": {"whitelist": names, **TIMING, **drops}}
        self.file.write_text(yaml.safe_dump(document, sort_keys=False))

    def _start(self) -> None:
        self._child = Child("the mirror", [str(COMMAND), "run", str(self.file)], self.log)

    def _said_last(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "the mirror's log ends:\n" + "\n".join(line[:500] for line in lines[-5:])

    # ---- the comparison

    def _compare(self, outcome: Outcome) -> None:
        sent = self.source.peer.read(self.names)
        stored = self.target.peer.read(self.names)
        outcome.messages = len(sent)
        outcome.topics = dict(Counter(row.topic for row in sent))
        outcome.read_by.append(f"the clients of {self.target.kind.version}")
        aborted = self._aborted()
        outcome.aborted = sum((row.topic, row.value) in aborted for row in stored)
        compare(outcome, sent, stored, self.source.kind, self.target.kind)
        self._check_counts(outcome, sent)
        if self.target.kind.number >= (0, 11):
            also = read_by_librdkafka(self.target.brokers, self.names)
            outcome.read_by.append("librdkafka")
            if also != [_bare(row) for row in stored]:
                outcome.problems.append(f"librdkafka reads other messages: {len(also)} of {len(stored)}")
        if self.console and self.target.kind.number >= (0, 11):
            self._read_by_console(outcome, stored)
        for said in ("parked", "Traceback"):
            if said in self._said():
                outcome.problems.append(f"the mirror's log says {said!r}; {self._said_last()}")
        ends = self.target.peer.ends(self.names)
        if len(ends) != messages.PARTITIONS * len(self.topics):
            outcome.problems.append(f"the target has {len(ends)} partitions, not the source's: {sorted(ends)}")

    def _read_by_console(self, outcome: Outcome, stored: Sequence[Row]) -> None:
        """The last topic: number of messages, and their timestamps."""
        version, topic = self.target.kind.version, self.topics[-1].name
        times = sorted(-1 if row.timestamp_ms is None else row.timestamp_ms for row in stored if row.topic == topic)
        if console_timestamps(version, self.target.brokers, topic, len(times)) != times:
            outcome.problems.append(f"the console consumer of {version} prints other timestamps of {topic}")
        outcome.read_by.append("console consumer")

    def _aborted(self) -> set[tuple[str, bytes | None]]:
        """Values that only aborted transactions have."""
        return {
            (topic.name, row.value)
            for topic in self.topics
            if topic.transactional
            for commit, rows in messages.transactions(topic, self.source.kind)
            if not commit
            for row in rows
            if row.value
        }

    def _check_counts(self, outcome: Outcome, sent: Sequence[Row]) -> None:
        """What was sent is what the source holds, less what was aborted."""
        expected = sum(len(self._committed(topic)) for topic in self.topics)
        if len(sent) != expected:
            outcome.problems.append(f"the source has {len(sent)} messages, and {expected} were sent")

    def _committed(self, topic: Topic) -> list[Row]:
        kind = self.source.kind
        if not topic.transactional:
            return [*messages.rows(topic, kind, 0, messages.COUNT), *messages.marks(topic, kind)]
        done = [row for commit, rows in messages.transactions(topic, kind) if commit for row in rows]
        return [*done, *messages.marks(topic, kind)]

    def _uncounted(self) -> list[str]:
        """Fields that messages lose on this way, and that no status line has counted yet."""
        said, lost = self._said(), dropped(self.source.kind, self.target.kind)
        return [name for name in lost if f" without {name} (mirror.drop.fields)" not in said]

    def _said(self) -> str:
        return self.log.read_text(errors="replace")


def compare(outcome: Outcome, sent: Sequence[Row], stored: Sequence[Row], source: Kind, target: Kind) -> None:
    """Every stored message against the sent one of its partition, key and value."""
    parts = _by_partition(stored)
    for place, rows in _by_partition(sent).items():
        _compare_partition(outcome, rows, parts.pop(place, []), source, target)
    outcome.foreign += sum(map(len, parts.values()))
    for name in ("lost", "foreign", "disordered"):
        if getattr(outcome, name):
            outcome.problems.append(f"{name}: {getattr(outcome, name)} messages")
    for name in ("timestamps", "headers"):
        if getattr(outcome, name).get("different"):
            outcome.problems.append(f"{name}: {getattr(outcome, name)['different']} messages have others")


def _compare_partition(
    outcome: Outcome, sent: Sequence[Row], stored: Sequence[Row], source: Kind, target: Kind
) -> None:
    places = {(row.key, row.value): at for at, row in enumerate(sent)}
    assert len(places) == len(sent), f"{sent[0].topic}: two messages are alike"
    seen: set[int] = set()
    furthest = -1
    times, headers = Counter(outcome.timestamps), Counter(outcome.headers)
    for row in stored:
        at = places.get((row.key, row.value))
        if at is None:
            outcome.foreign += 1
            continue
        outcome.repeated += at in seen
        outcome.disordered += at not in seen and at != furthest + 1
        seen.add(at)
        furthest = max(furthest, at)
        times[_timestamp(sent[at], row, source, target)] += 1
        if sent[at].headers or row.headers:
            headers[_header(sent[at], row, target)] += 1
    outcome.lost += len(sent) - len(seen)
    outcome.timestamps, outcome.headers = dict(times), dict(headers)


def _timestamp(sent: Row, stored: Row, source: Kind, target: Kind) -> str:
    if not target.timestamps:
        return "dropped" if source.timestamps else "none"
    if not source.timestamps:
        return "none" if stored.timestamp_ms == -1 else "different"
    return "equal" if sent.timestamp_ms == stored.timestamp_ms else "different"


def _header(sent: Row, stored: Row, target: Kind) -> str:
    if not target.headers:
        return "dropped"
    return "equal" if sent.headers == stored.headers else "different"


def _by_partition(rows: Sequence[Row]) -> Mapping[tuple[str, int], list[Row]]:
    return {place: list(part) for place, part in groupby(rows, lambda row: (row.topic, row.partition))}


def _bare(row: Row) -> tuple[object, ...]:
    return row.topic, row.partition, row.offset, row.timestamp_ms, row.key, row.value, row.headers
