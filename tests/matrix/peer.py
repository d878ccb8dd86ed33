"""Kafka's own clients of a release as a child process: what writes to sources and reads targets in the matrix.

The rows of its files are `Row`: what is sent, and what is read.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from localkafka import releases, tools
from localkafka.child import Child
from localkafka.errors import LocalKafkaError

HERE = Path(__file__).parent
FLAGS = ("-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A message as a client sends or reads it.

    timestamp_ms   None: the format has none, or the client is to choose it
    timed_by       CreateTime, LogAppendTime, NoTimestampType; None: the format has none
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Headers = ()
    offset: int = -1
    timed_by: str | None = None

    def text(self) -> str:
        """The line of a file of rows."""
        headers = ",".join(f"{name.encode().hex()}={_hex(value)}" for name, value in self.headers)
        words = [self.topic, self.partition, self.offset, self.timed_by or "-", _number(self.timestamp_ms)]
        return "\t".join(map(str, [*words, _hex(self.key), _hex(self.value), headers or "-"]))

    @classmethod
    def of(cls, line: str) -> Self:
        """The row of a line."""
        topic, partition, offset, timed_by, time, key, value, headers = line.rstrip("\n").split("\t")
        pairs = [each.partition("=") for each in headers.split(",")] if headers != "-" else []
        return cls(
            topic=topic,
            partition=int(partition),
            key=_bytes(key),
            value=_bytes(value),
            timestamp_ms=None if time == "-" else int(time),
            headers=tuple((bytes.fromhex(name).decode(), _bytes(text)) for name, _, text in pairs),
            offset=int(offset),
            timed_by=None if timed_by == "-" else timed_by,
        )


class Peer:
    """The clients of `version`, for the cluster at `brokers`; their log and files are in `folder`."""

    def __init__(self, version: str, brokers: str, folder: Path) -> None:
        program = HERE / ("OldClients.java" if releases.release(version).number < (0, 9) else "NewClients.java")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._log = folder / "clients.log"
        argv = tools.java_command(version, str(program), [brokers], FLAGS)
        pipe = subprocess.PIPE
        self._child = Child(f"the clients of {version}", argv, self._log, stdin=pipe, stdout=pipe)
        self._numbers = itertools.count(1)

    def send(self, rows: Iterable[Row], **options: object) -> None:
        """Write these messages with a producer of these options (`_` for a dot); all are acknowledged."""
        file = self._file("sent")
        file.write_text("".join(f"{row.text()}\n" for row in rows))
        self._tell("send", str(file), *_options(options))
        file.unlink()

    def transaction(self, rows: Iterable[Row], commit: bool = True, **options: object) -> None:
        """Write these messages as one transaction of the producer with these options, and commit or abort it."""
        self.begin(rows, **options)
        self._tell("commit" if commit else "abort", *_options(options))

    def begin(self, rows: Iterable[Row], **options: object) -> None:
        """Begin a transaction with these messages, and leave it open."""
        self._tell("begin", *_options(options))
        self.send(rows, **options)

    def commit(self, **options: object) -> None:
        """Commit the open transaction of the producer with these options."""
        self._tell("commit", *_options(options))

    def read(self, topics: Sequence[str]) -> list[Row]:
        """All committed messages of these topics, by topic, partition and order in the log."""
        file = self._file("read")
        self._tell("read", str(file), *topics)
        with file.open() as lines:
            rows = [Row.of(line) for line in lines]
        file.unlink()
        return sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))

    def ends(self, topics: Sequence[str]) -> dict[tuple[str, int], int]:
        """The end of each partition that exists."""
        ends = {}
        for word in self._tell("ends", *topics).split():
            place, _, end = word.rpartition("=")
            topic, _, partition = place.rpartition("/")
            ends[topic, int(partition)] = int(end)
        return ends

    def wait(self, mark: str, topics: Sequence[str], partitions: int, timeout_s: float) -> None:
        """Until the last message of each of the first partitions of these topics begins with the mark.
        Raises LocalKafkaError."""
        self._tell("await", mark, str(int(timeout_s * 1000)), str(partitions), *topics)

    def close(self) -> None:
        self._child.close()

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}-{next(self._numbers)}"

    def _tell(self, *words: str) -> str:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(" ".join(words).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            pass  # there is no answer then
        answer = self._child.stdout.readline().decode().rstrip("\n")
        said, _, rest = answer.partition(" ")
        if said != "ok":
            raise LocalKafkaError(
                f"{self._child.name}: {words[0]}: {rest or 'ended without an answer'}; {self._child.log_end()}"
            )
        return rest


def _options(options: dict[str, object]) -> list[str]:
    return [f"{name.replace('_', '.')}={value}" for name, value in options.items()]


def _hex(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
