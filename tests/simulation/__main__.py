"""Simulate groups: one schedule after the other, in so many processes, until all are done or the first is broken.

    python -m tests.simulation --schedules 100000 --seed 1
    python -m tests.simulation --seed 4711 --schedules 1 --story        one again, with everything that was said
    python -m tests.simulation --schedules 500 --mutation "no fence"    with a wrong decision patched in
    python -m tests.simulation --schedules 500 --more "disk"            with many of one fault

The iteration order of sets is part of a schedule, so it runs with PYTHONHASHSEED=0.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
from collections import Counter
from contextlib import nullcontext

from tests.simulation.mutations import ENSEMBLE_MUTATIONS, MUTATIONS, mutated
from tests.simulation.schedule import ENSEMBLE_WEIGHTS, WEIGHTS, schedule
from tests.simulation.world import World, run, shortest, virtual_time

CHUNK = 50
EACH = 500  # schedules from one line to the next
MORE = 10


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    given = _arguments()
    if given.more:
        (WEIGHTS if given.more in WEIGHTS else ENSEMBLE_WEIGHTS)[given.more] *= MORE
    if given.story:
        return _story(given.seed, given.servers)
    chunks = [
        (first, min(CHUNK, given.seed + given.schedules - first), given.mutation, given.servers)
        for first in range(given.seed, given.seed + given.schedules, CHUNK)
    ]
    began, done, seen = time.monotonic(), 0, Counter[str]()
    cpu_s = 0.0
    with multiprocessing.get_context("fork").Pool(given.processes) as pool:
        for count, seconds, some, broken in pool.imap_unordered(_chunk, chunks):
            done, cpu_s = done + count, cpu_s + seconds
            seen.update(some)
            if broken:
                print(f"after {done} schedules:\n{broken}", flush=True)
                return 1
            if done % EACH < CHUNK:
                _rate(done, began, cpu_s)
    _rate(done, began, cpu_s)
    print("what happened: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(seen.items())))
    return 0


def _rate(done: int, began: float, cpu_s: float) -> None:
    seconds = time.monotonic() - began
    print(
        f"{done:,} schedules, all promises kept: {60 * done / seconds:,.0f} a minute,"
        f" {60 * done / cpu_s:,.0f} a CPU minute",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulate groups in virtual time.")
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule; the next has the next number")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--mutation", choices=[*MUTATIONS, *ENSEMBLE_MUTATIONS], help="patch this wrong decision in")
    parser.add_argument("--servers", type=int, choices=(1, 3), default=1, help="of ZooKeeper")
    parser.add_argument(
        "--more",
        choices=[*WEIGHTS, *ENSEMBLE_WEIGHTS],
        help=f"let this happen {MORE} times as often; other schedules, then",
    )
    parser.add_argument("--story", action="store_true", help="tell the schedule of --seed")
    return parser.parse_args()


def _chunk(work: tuple[int, int, str | None, int]) -> tuple[int, float, Counter[str], str]:
    """Schedules done, CPU seconds, what happened, and the shortest story of the first broken promise."""
    first, count, mutation, servers = work
    logging.disable(logging.CRITICAL)
    seen, began = Counter[str](), time.process_time()
    with virtual_time(), mutated(mutation) if mutation else nullcontext():
        for seed in range(first, first + count):
            if run(schedule(seed, servers), seen) is not None:
                again = f"python -m tests.simulation --servers {servers} --seed {seed} --schedules 1"
                story = f"{shortest(schedule(seed, servers))}\n\n{again}"
                return seed - first + 1, time.process_time() - began, seen, story
    return count, time.process_time() - began, seen, ""


def _story(seed: int, servers: int) -> int:
    logging.disable(logging.CRITICAL)
    lines: list[str] = []
    with virtual_time():
        why = World(schedule(seed, servers), lines).run()
    print("\n".join([str(schedule(seed, servers)), "", *lines, "", why or "all promises are kept"]))
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
