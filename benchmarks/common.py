"""What the benchmarks share.  Only the standard library is imported: peers.py runs where there is nothing else.

peers = Peers(folder / "peers", {"kafka-python": ["kafka-python==1.4.7"]})
peers.python, peers.absent      its interpreter; who could not be installed, and why
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar

VERSION = "0.8.2.2"
PARTITIONS = 4
INSTALL_S = 300
TICKS = os.sysconf("SC_CLK_TCK")


class Peers:
    """A virtual environment with other clients; folder is made, and thrown away with what holds it.

    packages  what each of them needs; one that cannot be installed is in .absent, with the reason
    beside    folders whose packages the environment sees as well
    """

    def __init__(self, folder: Path, packages: Mapping[str, Sequence[str]], beside: Iterable[Path] = ()) -> None:
        venv.create(folder, with_pip=True)
        self.python = folder / "bin" / "python"
        self.absent: dict[str, str] = {}
        own = next((folder / "lib").glob("python*/site-packages"))
        (own / "outer.pth").write_text("".join(f"{path}\n" for path in beside))
        for who, wanted in packages.items():
            why = self._installed(wanted)
            if why is not None:
                self.absent[who] = f"not installed: {why}"

    def _installed(self, packages: Sequence[str]) -> str | None:
        command = [str(self.python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
        return last_line(done.stderr, "pip failed") if done.returncode else None


def last_line(printed: str, otherwise: str) -> str:
    """What a process said at its end; otherwise, when it said nothing."""
    return (printed.strip().splitlines() or [otherwise])[-1]


def tell(row: Mapping[str, object]) -> None:
    """A result on stderr, the moment it is there."""
    print(", ".join(f"{name} {value}" for name, value in row.items()), file=sys.stderr, flush=True)


def checked(same: bool) -> str:
    """How a table says whether all messages were there."""
    return "yes" if same else "DIFFERS"


class Row(Protocol):
    """What a contestant did.  checked: all messages were there."""

    @property
    def checked(self) -> bool: ...

    def row(self) -> Mapping[str, object]: ...


R = TypeVar("R", bound=Row)


def told(runs: Iterable[R | None]) -> list[R]:
    """The result of each run, told the moment it is there; None: that contestant cannot take part."""
    results = []
    for result in runs:
        if result is not None:
            tell(result.row())
            results.append(result)
    return results


def leave(results: Sequence[Row]) -> NoReturn:
    """End the process: 0 when there are results, and all messages were there."""
    sys.exit(0 if results and all(result.checked for result in results) else 1)


@dataclass(frozen=True, slots=True)
class Task:
    """One comparison: so many messages of so many bytes, acknowledged so."""

    size: int
    acks: int
    count: int


@dataclass(frozen=True, slots=True)
class Result:
    """What it took one of them; cpu_seconds are those of the whole process, its start included."""

    task: Task
    who: str
    seconds: float
    cpu_seconds: float
    checked: bool

    @property
    def per_second(self) -> float:
        return self.task.count / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.task.count / self.cpu_seconds

    def row(self) -> dict[str, object]:
        return {
            "bytes": self.task.size,
            "acks": self.task.acks,
            "who": self.who,
            "messages": self.task.count,
            "seconds": round(self.seconds, 2),
            "per second": round(self.per_second),
            "CPU seconds": round(self.cpu_seconds, 2),
            "per CPU second": round(self.per_cpu_second),
            "checked": checked(self.checked),
        }


def seconds_between(began: str, ended: str) -> float:
    """Of two times as kafka.tools' performance tests print them."""
    first, last = (datetime.strptime(text, "%Y-%m-%d %H:%M:%S:%f") for text in (began, ended))
    return (last - first).total_seconds()


class Watch:
    """What passes from its making on: seconds, and those that this process's threads had a processor."""

    def __init__(self) -> None:
        self._began, self._cpu_began = time.monotonic(), time.process_time()

    def passed(self) -> dict[str, float]:
        return {"seconds": time.monotonic() - self._began, "cpu": time.process_time() - self._cpu_began}


def cpu_of(pid: int, with_children: bool = False) -> float:
    """User and system seconds a process has used so far, all its threads; with_children: and those of its children
    that have ended.  Raises OSError when there is no such process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_children else 13])) / TICKS


def confluent_consumer(broker: str, fetch_bytes: int) -> dict[str, object]:
    """Settings of a confluent_kafka.Consumer that reads 0.8.2 as fast as it can; checksums are off, its default."""
    return {
        "bootstrap.servers": broker,
        "group.id": "bench",
        "api.version.request": False,
        "broker.version.fallback": VERSION,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.message.max.bytes": fetch_bytes,
        "queued.min.messages": 1_000_000,  # with its defaults it stops fetching for a second at a time
        "queued.max.messages.kbytes": 512_000,
        "fetch.queue.backoff.ms": 5,
        "fetch.error.backoff.ms": 10,
    }
