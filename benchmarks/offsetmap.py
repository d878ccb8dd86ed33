"""What keeping an offset map costs a mirror: the same messages with and without it, in turns, on the same clusters.

    python benchmarks/offsetmap.py [--count 1000000] [--size 100] [--rounds 3]

Printed: messages per CPU second of the whole process, and the ratio with / without (1.0: it costs nothing).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import click
import yaml
from common import Task, leave, told
from mirror import COLUMNS, Arena, ground

from groundwork import output


class MapArena(Arena):
    """Two ways of ours."""

    def without(self, topic: str, task: Task) -> Sequence[str]:
        return self.ours(topic, task)

    def mapped(self, topic: str, task: Task) -> Sequence[str]:
        argv = self.ours(topic, task)
        file = Path(argv[-1])
        settings = yaml.safe_load(file.read_text())
        folder = self.folder / f"state-{topic}"
        folder.mkdir()
        settings["mirror"]["offset.map.folder"] = str(folder)
        file.write_text(yaml.safe_dump(settings))
        return argv


@click.command()
@click.option("--count", default=1_000_000, help="Messages of a run.")
@click.option("--size", default=100, help="Bytes of a value.")
@click.option("--rounds", default=3, help="Runs of each.")
def main(count: int, size: int, rounds: int) -> None:
    """Mirror with and without an offset map, in turns, and print the ratio."""
    task = Task(size, -1, count)
    with ground() as (folder, source, target):
        arena = MapArena(folder, source, target)
        results = told(arena.run(who, task) for _ in range(rounds) for who in ("without", "mapped"))
    output.write([result.row() for result in results], COLUMNS)
    plain, mapped = (
        median(result.per_cpu_second for result in results if result.who == who) for who in ("without", "mapped")
    )
    print(f"\nwith a map {mapped / plain:.2f} times the messages per CPU second")
    leave(results)


if __name__ == "__main__":
    main()
