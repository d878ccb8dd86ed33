"""The command line of the simulation of whole mirrors; see __main__."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

from tests.simulation.mirrors.mutations import MUTATIONS, mutated
from tests.simulation.mirrors.run import run, shortest, told
from tests.simulation.mirrors.schedule import MODES, schedule
from tests.simulation.mirrors.stories import save
from tests.simulation.virtual import REAL

EACH = 100  # schedules from one line to the next
MODULE = "tests.simulation.mirrors"
real_s = REAL["monotonic"]
cpu_s = REAL["process_time"]


def main(argv: list[str]) -> int:
    given = _arguments(argv)
    modes = (given.mode,) if given.mode else MODES
    if given.story:
        why, lines = told(schedule(given.seed, modes))
        print("\n".join([str(schedule(given.seed, modes)), "", *lines, "", why or "all promises are kept"]))
        return 1 if why else 0
    if given.processes > 1:
        return _side_by_side(given, argv)
    with mutated(given.mutation) if given.mutation else nullcontext():
        return _one_after_the_other(given, modes)


def _one_after_the_other(given: argparse.Namespace, modes: tuple[str, ...]) -> int:
    count = math.inf if given.minutes is not None else given.schedules
    until = math.inf if given.minutes is None else real_s() + 60 * given.minutes
    began, used, done, seen, broken = real_s(), cpu_s(), 0, Counter[str](), Counter[str]()
    for seed in itertools.count(given.seed, given.step):
        if done >= count or real_s() > until:
            break
        found = run(schedule(seed, modes), seen)
        done += 1
        if found is not None and not given.go_on:
            small = shortest(schedule(seed, modes))
            if given.save is not None:
                save(given.save, given.mutation or "", small.schedule, small.why)
            again = f"python -m {MODULE} --seed {seed} --schedules 1{f' --mode {modes[0]}' if len(modes) == 1 else ''}"
            print(f"after {done} schedules:\n{small}\n\n{again}", flush=True)
            return 1
        if found is not None:
            broken[found.promise] += 1
            print(f"seed {seed}: {found.why}", flush=True)
        if done % EACH == 0:
            _rate(done, broken, real_s() - began, cpu_s() - used)
    _rate(done, broken, real_s() - began, cpu_s() - used)
    print("what happened: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(seen.items())), flush=True)
    return 1 if broken else 0


def _side_by_side(given: argparse.Namespace, argv: list[str]) -> int:
    """A process for each processor, with a share of the seeds; the first broken promise ends all."""
    each = -(-given.schedules // given.processes)
    children = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", MODULE, *argv, "--processes", "1", "--schedules", str(each)),
                *("--seed", str(given.seed + n), "--step", str(given.processes)),
            ]
        )
        for n in range(given.processes)
    ]
    try:
        while (codes := [child.poll() for child in children]) and None in codes and not any(codes):
            REAL["sleep"](0.2)
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
            child.wait()
    return 1 if any(codes) else 0


def _rate(done: int, broken: Counter[str], seconds: float, used_s: float) -> None:
    kept = "all promises kept"
    if broken:
        kept = ", ".join(f"{count:,} broke {promise}" for promise, count in broken.most_common())
    print(
        f"{done:,} schedules, {kept}: {60 * done / seconds:,.0f} a minute,"
        f" {60 * done / max(used_s, 0.001):,.0f} a CPU minute",
        flush=True,
    )


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description="Simulate whole mirrors in virtual time.")
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--minutes", type=float, help="begin schedules for so long, instead of a number of them")
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule")
    parser.add_argument("--step", type=int, default=1, help="from one seed to the next")
    parser.add_argument("--mode", choices=MODES, help="of all mirrors; default: each schedule has one of them")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--mutation", choices=MUTATIONS, help="patch this wrong decision in")
    parser.add_argument("--go-on", action="store_true", help="tell each broken promise in a line, and go on")
    parser.add_argument("--save", type=Path, help="keep the shortest story of what --mutation breaks in a file")
    parser.add_argument("--story", action="store_true", help="tell the schedule of --seed")
    return parser.parse_args(argv)
