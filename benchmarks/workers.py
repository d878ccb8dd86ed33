"""Two workers against one process: the same messages through `mirrormaker run --workers 1` and `--workers 2`, in turns.

    python benchmarks/workers.py [--small] [--json FILE] [--count 200000] [--workers 2] [--rounds 3]

Works: pass-through, which brokers limit, and a message handler that takes about 20 us of CPU a message (it hashes each
value over and over, as dear as parsing a document of 1 KB), which the mirror's own CPU limits: of it two workers are to
copy 1.7 times as much as one process.  The mirror starts with its topic paused, so that its start and its rebalances
are not measured; from `resume` on the clock runs until the target has every message.  CPU seconds are of all its
processes, those of the brokers are told beside them.

Workers gain what there are cores for: beside the ratio stands what these cores allow, which is the cores divided by the
CPU seconds that mirror and brokers together take for a second of copying with one worker.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import click
from arena import Arena, Progress, Work, cpu_now, fill, ground, same
from common import BROKERS, CLOCK, PARTITIONS, PER_CPU, Report, Run, turns

from localkafka.child import Child
from localkafka.waiting import wait_until
from mirrormaker.control.client import Connection

TARGET = 1.7
WORKS = {"pass-through": {}, "message handler of 20 us": {"message.handler": "benchworkers:hashed"}}
# as many messages of each: the start of fetching is not to be measured
TIMES = {"pass-through": 15, "message handler of 20 us": 1}
HANDLER = """\
from hashlib import sha256

from mirrormaker.handler import DROP


def hashed(message):
    digest = message.value
    for _ in range(30):
        digest = sha256(digest).digest()
    return DROP if digest == b"" else message
"""


class WorkersArena(Arena):
    """One process and several."""

    def copied(self, work: Work, options: Mapping[str, object], count: int) -> Run:
        """Mirror a fresh topic with so many workers."""
        self.runs += 1
        topic = f"workers{self.runs}"
        for cluster in (self.source, self.target):
            cluster.create_topic(topic, partitions=PARTITIONS, replication=1)
        fill(self.source, topic, work)
        state, control = self.folder / f"{topic}.state", self.folder / "w.sock"
        state.mkdir()
        pause = {"source": "bench", "topic": topic, "partition": "", "paused": True, "since_ms": 1}
        state.joinpath("limits.json").write_text(
            json.dumps({"version": 1, "groups": {}, "pauses": [pause], "throttles": []})
        )
        kept = {"state.folder": str(state), "control.socket": str(control), "workers": count}
        argv = self.ours(topic, work, **{**options, **kept})
        log = self.folder / f"{topic}.log"
        progress = Progress(self.target, topic)
        child = Child("the mirror", argv, log, env={"PYTHONPATH": str(self.folder)})
        try:
            wait_until(lambda: "mirroring" in log.read_text(), 120, lambda: f"it to be ready; {child.log_end()}")
            cpu, brokers, began = self.cpu(child), self.brokers_s(), time.monotonic()
            next(Connection(control).answers("resume", {"what": topic}))
            wait_until(lambda: progress.messages() >= work.count, 300, lambda: f"all; {child.log_end()}", every_s=0.02)
            clock_s = time.monotonic() - began
            cpu_s, brokers_s = self.cpu(child) - cpu, self.brokers_s() - brokers
        finally:
            progress.close()
            child.stop(timeout_s=30)
        return Run(
            work=work.name,
            who=who(count),
            messages=work.count,
            bytes=work.size,
            cpu_s=cpu_s,
            clock_s=clock_s,
            checked=same(self.source, self.target, topic),
            also={"µs of CPU a message": 1e6 * cpu_s / work.count, BROKERS: brokers_s},
        )

    def cpu(self, child: Child) -> float:
        """Of the mirror's processes."""
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        return sum(map(cpu_now, [child.pid, *map(int, children)]))


def who(count: int) -> str:
    return "1 process" if count == 1 else f"{count} workers"


@click.command()
@click.option("--small", is_flag=True, help="Few messages, to try the benchmark itself.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="File for runs and figures.")
@click.option("--count", default=200_000, help="Messages of a run; of pass-through 15 times as many.")
@click.option("--size", default=100, help="Bytes of a value.")
@click.option("--workers", default=2, help="Number of workers that are compared with one process.")
@click.option("--rounds", default=3, help="Runs of each.")
def main(*, small: bool, json_file: Path | None, count: int, size: int, workers: int, rounds: int) -> None:
    """Mirror the same messages with one process and with several, in turns, and print the ratios."""
    report = Report("workers", short=small)
    with ground() as (folder, source, target):
        (folder / "benchworkers.py").write_text(HANDLER)
        arena = WorkersArena(folder, source, target)
        for kind, options in WORKS.items():
            for each in turns(("1", str(workers)), 1 if small else rounds):
                many = (50_000 if small else count) * TIMES[kind]
                report.add(arena.copied(Work(f"{kind}, {size} B", size, many), options, int(each)))
    for kind in WORKS:
        work = f"{kind}, {size} B"
        ratios = {
            name: (report.median(work, who(workers), name) or 0) / (report.median(work, who(1), name) or 1)
            for name in ("per_s", "per_cpu_s")
        }
        limit = min(float(workers), report.allowed(work, who(1)) or 1)
        of_mirror = "message.handler" in WORKS[kind]  # what is limited by the mirror alone
        target_ratio = TARGET * workers / 2 if of_mirror else None
        report.figure(work, CLOCK, ratios["per_s"], target=target_ratio, who=who(workers), peer=who(1))
        report.figure(work, PER_CPU, ratios["per_cpu_s"], who=who(workers), peer=who(1))
        cores = f"times 1 process by the clock are what {os.cpu_count()} cores, shared with the brokers, allow at most"
        report.figure(work, cores, limit, who="to")
    report.end(json_file)


if __name__ == "__main__":
    main()
