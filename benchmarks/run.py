"""Runs the benchmarks one after the other, and prints one summary: figure, target, reached or not.

    python benchmarks/run.py [--full] [--only mirror,latency] [--folder benchmarks/results]

What `make bench` does.  Each benchmark writes FOLDER/NAME.json, is told as it goes, and has its own exit code; the
summary is of all JSON files of the folder, also of those of an earlier run.  The short form (the default) takes about
fifteen minutes on two cores; --full, several times the messages, an hour.  Afterwards page.py writes
benchmarks/results/README.md and the figures of docs/performance.md from these files, with their charts.

Exit code 0: all benchmarks ran, and no message was lost; targets that are not reached are said.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import page
from common import Figure, table

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
NAMES = ("mirror", "mirror_modern", "latency", "scaling", "longlink", "workers", "handlers", "produce", "spark")
MORE = ("mirror07", "consume", "decode07", "verify", "security", "offsetmap", "httplisten")  # with --full
LIMIT_S = 3600


def figures(document: Mapping[str, Any]) -> list[Figure]:
    return [
        Figure(**{name: value for name, value in each.items() if name != "reached"}) for each in document["figures"]
    ]


def summary(found: Sequence[Mapping[str, Any]]) -> str:
    """All figures that have a target, as a table, and how many reach it."""
    rows = []
    for document in found:
        for figure in figures(document):
            if figure.target is not None:
                rows.append(
                    {
                        "benchmark": document["benchmark"],
                        "work": figure.work,
                        "who": figure.who,
                        "figure": float(f"{figure.value:.3g}"),
                        "target": f"{'at most' if figure.at_most else 'at least'} {figure.target:g}",
                        "of": f"times {figure.peer}, {figure.what}" if figure.peer else figure.what,
                        "reached": "yes" if figure.reached else "NO",
                    }
                )
    if not rows:
        return "no figures with a target"
    reached = sum(row["reached"] == "yes" for row in rows)
    lost = [document["benchmark"] for document in found if not all(run["checked"] for run in document["runs"])]
    told = [table(rows, list(rows[0])), f"{reached} of {len(rows)} targets reached"]
    short = [document["benchmark"] for document in found if document["short"]]
    if short:
        told.append(f"short form: {', '.join(short)}")
    if lost:
        told.append(f"MESSAGES DIFFER in {', '.join(lost)}")
    return "\n".join(told)


def ran(name: str, folder: Path, full: bool) -> str:
    """How one benchmark ended; "": well."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(folder / f"{name}.json")]
    began = time.monotonic()
    try:
        code = subprocess.run([*command, *([] if full else ["--small"])], timeout=LIMIT_S).returncode
    except subprocess.TimeoutExpired:
        return f"{name}: not done after {LIMIT_S} s"
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return f"{name} ended with {code}" if code else ""


@click.command()
@click.option("--full", is_flag=True, help="All messages, and the benchmarks without targets, too: an hour.")
@click.option("--only", default="", help="Names of benchmarks, separated by commas.")
@click.option(
    "--folder", default=RESULTS, type=click.Path(path_type=Path), show_default=True, help="Folder of the JSON files."
)
@click.option("--page/--no-page", "writes", default=True, help="Write the pages of results and their charts.")
def main(full: bool, only: str, folder: Path, writes: bool) -> None:
    """Run the benchmarks and print one summary."""
    names = only.split(",") if only else [*NAMES, *(MORE if full else ())]
    folder.mkdir(parents=True, exist_ok=True)
    ended = [ran(name, folder, full) for name in names]
    found = page.read(folder)
    print("\n" + summary(found))
    for problem in filter(None, ended):
        print(problem)
    if writes:
        page.write(found)
    sys.exit(1 if any(ended) else 0)


if __name__ == "__main__":
    main()
