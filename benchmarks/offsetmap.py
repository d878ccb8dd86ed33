"""What keeping an offset map costs a mirror: the same messages with and without it, in turns, on the same clusters.

    python benchmarks/offsetmap.py [--small] [--count 1000000] [--size 100] [--rounds 3] [--json FILE]

Printed: messages per CPU second of the whole process, and the ratio with / without (1.0: it costs nothing).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
from arena import Arena, Work, ground
from common import Report, turns


def mapped(arena: Arena, topic: str, work: Work) -> Sequence[str]:
    """Ours with an offset map."""
    folder = arena.folder / f"state-{topic}"
    folder.mkdir()
    return arena.ours(topic, work, **{"offset.map.folder": str(folder)})


@click.command()
@click.option("--small", is_flag=True, help="One run of each.")
@click.option("--count", default=1_000_000, help="Messages of a run.")
@click.option("--size", default=100, help="Bytes of a value.")
@click.option("--rounds", default=3, help="Runs of each.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, count: int, size: int, rounds: int, file: Path | None) -> None:
    """Mirror with and without an offset map, in turns, and print the ratio."""
    work, report = Work(f"offset map, {size} B", size, count), Report("offsetmap", short=small)
    with ground() as (folder, source, target):
        arena = Arena(folder, source, target)
        ways = {"without": arena.ours, "with a map": partial(mapped, arena)}
        for who in turns(list(ways), 1 if small else rounds):
            report.add(arena.run(work, who, ways[who]))
    report.compare(work.name, "with a map", "without")
    report.end(file)


if __name__ == "__main__":
    main()
