"""What the benchmarks share.  Only the standard library is imported: peers.py runs where there is nothing else.

    report = Report("mirror", short=small)
    for who in turns(("jvm", "ours"), rounds):
        report.add(Run(work="plain, 100 B", who=who, messages=n, bytes=100, cpu_s=.., clock_s=.., checked=..))
    report.compare("plain, 100 B", "ours", "jvm", per_cpu=15, clock=6)        # ratios, their targets beside them
    report.figure("idle, 2,000 partitions", "% of a core", 4.1, target=5, at_most=True)
    report.end(json_file)                        # the tables; the JSON file if there is one; and the exit code

Runs are what was measured, figures what follows from them.  A figure has the target that it is to reach, or none.
`make bench` writes the JSON file of a benchmark to benchmarks/results/NAME.json, and page.py makes the tables beside
these files and the figures of docs/performance.md from them.  Every benchmark that `make bench` runs takes --small
(counts for a run of a minute or two) and --json FILE.

    peers = Peers(folder / "peers", {"kafka-python": ["kafka-python==1.4.7"]})
    peers.python, peers.absent      its interpreter; who could not be installed, and why
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NoReturn

VERSION = "0.8.2.2"
PARTITIONS = 4
INSTALL_S = 300
TICKS = os.sysconf("SC_CLK_TCK")


PER_CPU, CLOCK = "messages per CPU second", "messages per second"
BROKERS = "brokers' CPU seconds"  # of a Run.also: those of both clusters, for these messages


@dataclass(frozen=True, slots=True)
class Run:
    """What one contestant did of one work.

    work     the same text for all whom it compares: "keyed, 10,000 keys, 100 B"
    bytes    of a value
    cpu_s    seconds of processor time of its whole process, for these messages; None: not measured
    clock_s  seconds of wall time for these messages; None: not measured
    checked  counts and checksums at the target are those of the source
    also     what else was measured, by its name and unit: {"p99 ms": 41.5}
    """

    work: str
    who: str
    messages: int
    bytes: int
    cpu_s: float | None = None
    clock_s: float | None = None
    checked: bool = True
    also: Mapping[str, float] = field(default_factory=dict)

    @property
    def per_cpu_s(self) -> float | None:
        return self.messages / self.cpu_s if self.cpu_s else None

    @property
    def per_s(self) -> float | None:
        return self.messages / self.clock_s if self.clock_s else None

    def row(self) -> dict[str, object]:
        return {
            "work": self.work,
            "who": self.who,
            "messages": self.messages,
            "bytes": self.bytes,
            "seconds": _rounded(self.clock_s),
            "per second": _rounded(self.per_s),
            "CPU seconds": _rounded(self.cpu_s),
            "per CPU second": _rounded(self.per_cpu_s),
            **{name: _rounded(value) for name, value in self.also.items()},
            "checked": "yes" if self.checked else "DIFFERS",
        }


def _rounded(value: float | None) -> float | None:
    if value is None:
        return None
    return round(value) if abs(value) >= 1000 else float(f"{value:.3g}")


@dataclass(frozen=True, slots=True)
class Figure:
    """A result: how many times the peer's messages are ours, or a value with its unit.

    what     the unit of the value; of a ratio the unit of what is divided
    peer     None: no ratio
    target   what it is to reach, at_most: what it must not exceed; None: there is none
    """

    work: str
    what: str
    value: float
    who: str = "ours"
    peer: str | None = None
    target: float | None = None
    at_most: bool = False

    @property
    def reached(self) -> bool | None:
        """None: there is no target."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    def sentence(self) -> str:
        """The figure, its target and whether it is reached, in a line."""
        value = f"{_rounded(self.value):,}"
        said = f"{value} times {self.peer}, {self.what}" if self.peer else f"{value} {self.what}"
        if self.target is None:
            return f"{self.work}: {self.who} {said}"
        bound = f"at {'most' if self.at_most else 'least'} {self.target:g}"
        return f"{self.work}: {self.who} {said} ({bound}: {'reached' if self.reached else 'NOT REACHED'})"


class Report:
    """Runs and figures of one benchmark: told as they come, printed and written at the end.

    about  what else says how it was measured, by name: {"kernels": "numba 0.60"}
    """

    def __init__(self, benchmark: str, short: bool = False, about: Mapping[str, object] | None = None) -> None:
        self.benchmark, self.short, self.about = benchmark, short, dict(about or {})
        self.runs: list[Run] = []
        self.figures: list[Figure] = []
        self.absent: dict[str, str] = {}  # who takes no part, and why
        self._began = datetime.now(UTC)

    def add(self, run: Run) -> Run:
        """Keep a run, and tell it on stderr."""
        self.runs.append(run)
        tell(run.row())
        return run

    def compare(
        self, work: str, who: str, peer: str, *, per_cpu: float | None = None, clock: float | None = None
    ) -> None:
        """Add the ratios of two contestants of a work, with their targets; the median of the runs of each counts.
        A ratio that one of them has no runs for is left out."""
        for what, name, target in ((PER_CPU, "per_cpu_s", per_cpu), (CLOCK, "per_s", clock)):
            ours, theirs = (self.median(work, each, name) for each in (who, peer))
            if ours is not None and theirs:
                self.figures.append(Figure(work, what, ours / theirs, who, peer, target))

    def median(self, work: str, who: str, name: str) -> float | None:
        """Of an attribute of these runs, or of what else was measured; None: there is no such run."""
        runs = [run for run in self.runs if (run.work, run.who) == (work, who)]
        values = [run.also.get(name) if name in run.also else getattr(run, name, None) for run in runs]
        known = [value for value in values if value is not None]
        return median(known) if known else None

    def allowed(self, work: str, who: str) -> float | None:
        """How many times as fast, by the clock, a contestant could be at most on these cores: if they had worked all
        the time for what it and the brokers took.  None: that was not measured."""
        clock_s, cpu_s, brokers_s = (self.median(work, who, name) for name in ("clock_s", "cpu_s", BROKERS))
        if clock_s is None or cpu_s is None or brokers_s is None:
            return None
        return (os.cpu_count() or 1) * clock_s / (cpu_s + brokers_s)

    def figure(
        self,
        work: str,
        what: str,
        value: float,
        *,
        target: float | None = None,
        at_most: bool = False,
        who: str = "ours",
        peer: str | None = None,
    ) -> None:
        """Add a figure."""
        self.figures.append(Figure(work, what, value, who, peer, target, at_most))

    @property
    def checked(self) -> bool:
        return bool(self.runs) and all(run.checked for run in self.runs)

    def print(self) -> None:
        """Both tables on stdout."""
        rows = [run.row() for run in self.runs]
        columns = list(dict.fromkeys(name for row in rows for name in row if name != "checked"))
        print(table(rows, [*columns, "checked"]))
        print()
        for figure in self.figures:
            print(figure.sentence())
        for who, why in self.absent.items():
            print(f"without {who}: {why}")

    def document(self) -> dict[str, object]:
        """What the JSON file has."""
        return {
            "benchmark": self.benchmark,
            "short": self.short,
            "at": self._began.isoformat(timespec="seconds"),
            "machine": {"cores": os.cpu_count(), "cpu": _cpu_model(), "python": platform.python_version()},
            "about": self.about,
            "runs": [{**asdict(run), "also": dict(run.also)} for run in self.runs],
            "figures": [{**asdict(figure), "reached": figure.reached} for figure in self.figures],
            "absent": self.absent,
        }

    def end(self, file: Path | None = None) -> NoReturn:
        """Print, write the file, and end the process: 0 when there are runs and all messages were there, else 1.
        A target that is not reached is said, and changes nothing of the exit code."""
        self.print()
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(self.document(), indent=1) + "\n")
        sys.exit(0 if self.checked else 1)


def turns(who: Sequence[str], rounds: int = 1) -> Iterator[str]:
    """Contestants in turns, each round begun by another one."""
    for number in range(rounds):
        first = number % len(who)
        yield from (*who[first:], *who[:first])


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """Rows as aligned lines, numbers to the right; what a row lacks is a dash."""
    cells = [list(columns), *[[_cell(row.get(name)) for name in columns] for row in rows]]
    right = [all(isinstance(row.get(name), (int, float, type(None))) for row in rows) for name in columns]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def _cpu_model() -> str:
    found = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return found[0].partition(":")[2].strip() if found else platform.machine()


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
