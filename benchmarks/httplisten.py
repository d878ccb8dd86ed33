"""What being watched costs a mirror: the same messages with http.listen and without, in turns, on the same clusters.

    python benchmarks/httplisten.py [--small] [--count 3000000] [--rounds 5] [--json FILE]

Watched: a status page that is open (/status every 2 s), and Prometheus (/metrics every 5 s, thrice as often as usual).
Printed: messages per CPU second of the mirror from the first message at the target to the last, and the ratio with /
without (1.0: it costs nothing).  On a machine that does other things, too, that ratio is mostly noise; so also what the
answers took of the mirror's CPU, asked many times behind each run, as a share of what it took while it copied.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import ClassVar

import click
from arena import Arena, Moment, Work, cpu_now, ground
from common import Report, turns

from localkafka import ports
from localkafka.child import Child

STATUS_S, METRICS_S = 2.0, 5.0
ANSWERS = 300


class HttpArena(Arena):
    """Two ways of ours."""

    port = 0  # of the run; 0: nobody watches
    answer_s: ClassVar[dict[str, list[float]]] = {"/status": [], "/metrics": []}  # CPU seconds of one, in each run

    def without(self, topic: str, work: Work) -> Sequence[str]:
        self.port = 0
        return self.ours(topic, work)

    def watched(self, topic: str, work: Work) -> Sequence[str]:
        reserved = ports.reserve()
        self.port = reserved.number
        reserved.release()
        return self.ours(topic, work, **{"http.listen": self.port})

    def measured(self, topic: str, count: int, child: Child) -> tuple[Moment, Moment]:
        """The same, watched where somebody watches."""
        with watching(self.port):
            found = super().measured(topic, count, child)
        for path, answers in self.answer_s.items() if self.port else ():
            cpu_before = cpu_now(child.pid)
            for _ in range(ANSWERS):
                ask(self.port, path)
            answers.append((cpu_now(child.pid) - cpu_before) / ANSWERS)
        return found


def ask(port: int, path: str) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
        response.read()


@contextmanager
def watching(port: int) -> Iterator[None]:
    """A page and Prometheus, while the block runs."""
    ended = threading.Event()

    def keep_asking(path: str, every_s: float) -> None:
        while not ended.wait(every_s):
            try:
                ask(port, path)
            except OSError:
                time.sleep(0.1)  # it is not there yet

    asking = [
        threading.Thread(target=keep_asking, args=each) for each in (("/status", STATUS_S), ("/metrics", METRICS_S))
    ]
    for thread in asking if port else ():
        thread.start()
    yield
    ended.set()
    for thread in asking if port else ():
        thread.join()


@click.command()
@click.option("--small", is_flag=True, help="One run of each.")
@click.option("--count", default=3_000_000, help="Messages of a run.")
@click.option("--size", default=100, help="Bytes of a value.")
@click.option("--rounds", default=5, help="Runs of each.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, count: int, size: int, rounds: int, file: Path | None) -> None:
    """Mirror with and without http.listen, in turns, and print the ratio."""
    work, report = Work(f"http.listen, {size} B", size, count), Report("httplisten", short=small)
    with ground() as (folder, source, target):
        arena = HttpArena(folder, source, target)
        ways = {"without": arena.without, "watched": arena.watched}
        for who in turns(list(ways), 1 if small else rounds):
            report.add(arena.run(work, who, ways[who]))
    report.compare(work.name, "watched", "without")
    status_ms, metrics_ms = (1000 * median(answers) for answers in arena.answer_s.values())
    a_second = status_ms / STATUS_S + metrics_ms / METRICS_S
    busy = median(1000 * (run.cpu_s or 0) / (run.clock_s or 1) for run in report.runs if run.who == "without")
    report.figure(work.name, "ms of CPU an answer of /status", status_ms)
    report.figure(work.name, "ms of CPU an answer of /metrics", metrics_ms)
    report.figure(work.name, "% of the mirror's CPU on top, watched", 100 * a_second / busy)
    report.end(file)


if __name__ == "__main__":
    main()
