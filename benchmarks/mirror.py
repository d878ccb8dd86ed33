"""The mirror daemon against the JVM's MirrorMaker of 0.8.2.2, on the same clusters, in the same run.

    python benchmarks/mirror.py [--small] [--works keyed,snappy] [--rounds 1] [--json FILE]

    plain, 100 B and 1 KB             bytes pass through; beside it the bare loop (bareloop.py)
    snappy, gzip                      sets of 200; the JVM opens and compresses them again
    keyed, 10,000 keys, all distinct  a target of 3 partitions, so that keys choose them; with kernels, and pure Python
    set handler, message handler      handlers that look at each value; the JVM has none, and copies
    plain to snappy                   compression.codec=snappy at the target

Each copies from one broker to another, one contestant after the other, each from a fresh topic; quick ones copy more
messages.  Printed: messages per second and per CPU second of the whole process in the steady state, the ratios, and
what they are to be at least (arena.py says how it is measured and checked).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click
from arena import DISTINCT, Arena, Work, ground
from common import PARTITIONS, Report, turns

from kafkawire import kernels

HERE = Path(__file__).resolve().parent
PURE = {"KAFKAWIRE_KERNELS": "python"}
LOADED = {"PYTHONPATH": str(HERE)}  # so that the daemon finds lookers.py
SMALL = 0.3
CORES = f"times jvm by the clock are what {os.cpu_count()} cores, shared with the brokers, allow at most"


@dataclass(frozen=True, slots=True)
class Ours:
    """One form of the daemon, and what is wanted of it, as ratios to the JVM.

    factor  how many times the JVM's messages it copies
    target  options of the target
    """

    who: str
    per_cpu: float | None
    clock: float | None
    factor: float = 1
    mirror: Mapping[str, object] = field(default_factory=dict)
    target: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A work, the forms of ours that do it, and whether the bare loop does it as well."""

    work: Work
    ours: Sequence[Ours]
    bare: float | None = None  # what ours is to reach of it


def keyed(name: str, keys: int, pure: tuple[float, float]) -> Comparison:
    return Comparison(
        Work(name, 100, 1_200_000, keys=keys, partitions=3),
        [Ours("ours", 10, 4, 2), Ours("ours, pure", *pure, environment=PURE)],
    )


COMPARISONS = (
    Comparison(
        Work("plain, 100 B", 100, 1_500_000),
        [Ours("ours", 15, 6, 3), Ours("ours, 2 connections", 15, 6, 3, target={"num.producer.connections": 2})],
        bare=0.85,
    ),
    Comparison(Work("plain, 1 KB", 1000, 500_000), [Ours("ours", 9, 2, 2)], bare=0.85),
    Comparison(Work("snappy, 100 B", 100, 1_000_000, codec="snappy"), [Ours("ours", 40, 3, 3)]),
    Comparison(Work("gzip, 100 B", 100, 800_000, codec="gzip"), [Ours("ours", 40, 3, 3)]),
    keyed("keyed, 10,000 keys, 100 B", 10_000, (3, 2)),
    keyed("keyed, all distinct, 100 B", DISTINCT, (2, 1.5)),
    Comparison(
        Work("handlers, 100 B", 100, 1_000_000),
        [
            Ours("set handler", 5, 2, 3, {"message.set.handler": "lookers:by_set"}, environment=LOADED),
            Ours("message handler", 1.5, 1, 2, {"message.handler": "lookers:by_message"}, environment=LOADED),
        ],
    ),
    Comparison(Work("plain to snappy, 100 B", 100, 1_000_000, asked="snappy"), [Ours("ours", 3, 2, 2)]),
)


def bare_loop(arena: Arena, topic: str, work: Work) -> Sequence[str]:
    """bareloop.py, which starts where the daemon starts: at the first message."""
    between = [arena.source.brokers.split(",")[0], arena.target.brokers.split(",")[0]]
    script = str(HERE / "bareloop.py")
    return [sys.executable, script, *between, topic, str(PARTITIONS), str(work.count), str(work.acks)]


def compare(arena: Arena, report: Report, comparison: Comparison, factor: float, rounds: int) -> None:
    """All contestants of a work, in turns, and the ratios."""
    forms = {form.who: form for form in comparison.ours}
    bare = ["bare loop"] if comparison.bare is not None else []
    base = comparison.work.times(factor)
    for who in turns(["jvm", *forms, *bare], rounds):
        form = forms.get(who)
        more = form.factor if form is not None else comparison.ours[0].factor if who in bare else 1
        command: Callable[[str, Work], Sequence[str]] = arena.jvm
        if form is not None:
            command = partial(arena.ours, towards=form.target, **form.mirror)  # type: ignore[arg-type]
        elif who in bare:
            command = partial(bare_loop, arena)
        report.add(arena.run(base.times(more), who, command, form.environment if form is not None else None))
    for form in comparison.ours:
        report.compare(base.name, form.who, "jvm", per_cpu=form.per_cpu, clock=form.clock)
        if bare:
            report.compare(base.name, form.who, "bare loop", per_cpu=comparison.bare)
        ours, jvm = (report.median(base.name, each, "per_s") for each in (form.who, "jvm"))
        more = report.allowed(base.name, form.who)
        if ours and jvm and more:
            report.figure(base.name, CORES, more * ours / jvm, who=f"{form.who}, to")


@click.command()
@click.option("--small", is_flag=True, help="Fewer messages: all works in about five minutes.")
@click.option("--works", default="", help="Only works whose names have one of these words, separated by commas.")
@click.option("--rounds", default=1, show_default=True, help="Runs of each contestant, in turns; the median counts.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, works: str, rounds: int, file: Path | None) -> None:
    """Mirror the same messages with the JVM's MirrorMaker and with ours, in turns, and print the ratios."""
    kernels.prepare()  # compiled once, not by a contestant
    chosen = [each for each in COMPARISONS if any(word in each.work.name for word in works.split(","))]
    report = Report("mirror", short=small, about={"kernels": kernels.name(), "acks": -1, "partitions": PARTITIONS})
    with ground() as (folder, source, target):
        arena = Arena(folder, source, target)
        for comparison in chosen:
            compare(arena, report, comparison, SMALL if small else 1, rounds)
    report.end(file)


if __name__ == "__main__":
    main()
