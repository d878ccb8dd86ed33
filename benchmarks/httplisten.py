"""What being watched costs a mirror: the same messages with http.listen and without, in turns, on the same clusters.

    python benchmarks/httplisten.py [--count 3000000] [--size 100] [--rounds 5]

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
import yaml
from common import Task, cpu_of, leave, told
from mirror import COLUMNS, Arena, ground

from groundwork import output
from localkafka import ports
from localkafka.child import Child

STATUS_S, METRICS_S = 2.0, 5.0
ANSWERS = 300


class HttpArena(Arena):
    """Two ways of ours."""

    port = 0  # of the run; 0: nobody watches
    answer_s: ClassVar[dict[str, list[float]]] = {"/status": [], "/metrics": []}  # CPU seconds of one, in each run

    def without(self, topic: str, task: Task) -> Sequence[str]:
        self.port = 0
        return self.ours(topic, task)

    def watched(self, topic: str, task: Task) -> Sequence[str]:
        argv = self.ours(topic, task)
        reserved = ports.reserve()
        self.port = reserved.number
        reserved.release()
        file = Path(argv[-1])
        settings = yaml.safe_load(file.read_text())
        settings["mirror"]["http.listen"] = self.port
        file.write_text(yaml.safe_dump(settings))
        return argv

    def timed(self, who: str, command: Sequence[str], topic: str, task: Task) -> tuple[float, float]:
        """Seconds and CPU seconds from the first message at the target to the last."""
        child = Child(who, command, self.folder / f"{who}{self.runs}.log")
        try:
            with watching(self.port):
                began, cpu_before = self.wait_for(topic, 1, child), cpu_of(child.pid)
                took = self.wait_for(topic, task.count, child) - began, cpu_of(child.pid) - cpu_before
            for path, answers in self.answer_s.items() if self.port else ():
                cpu_before = cpu_of(child.pid)
                for _ in range(ANSWERS):
                    ask(self.port, path)
                answers.append((cpu_of(child.pid) - cpu_before) / ANSWERS)
            return took
        finally:
            child.stop(timeout_s=20)


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
@click.option("--count", default=3_000_000, help="Messages of a run.")
@click.option("--size", default=100, help="Bytes of a value.")
@click.option("--rounds", default=5, help="Runs of each.")
def main(count: int, size: int, rounds: int) -> None:
    """Mirror with and without http.listen, in turns, and print the ratio."""
    task = Task(size, -1, count)
    with ground() as (folder, source, target):
        arena = HttpArena(folder, source, target)
        results = told(arena.run(who, task) for _ in range(rounds) for who in ("without", "watched"))
    output.write([result.row() for result in results], COLUMNS)
    without, watched = (
        median(result.per_cpu_second for result in results if result.who == who) for who in ("without", "watched")
    )
    print(f"\nwatched {watched / without:.3f} times the messages per CPU second")
    status_ms, metrics_ms = (1000 * median(answers) for answers in arena.answer_s.values())
    a_second = status_ms / STATUS_S + metrics_ms / METRICS_S
    busy = median(1000 * result.cpu_seconds / result.seconds for result in results if result.who == "without")
    print(
        f"/status takes {status_ms:.2f} ms of CPU, /metrics {metrics_ms:.2f} ms: {a_second:.2f} ms in a second of both"
    )
    print(f"the mirror takes {busy:.1f} ms of CPU in a second of copying: watching adds {100 * a_second / busy:.1f} %")
    leave(results)


if __name__ == "__main__":
    main()
