"""`python -m tests.matrix`: mirrors between real brokers of many releases, a table of what became of every message.

    python -m tests.matrix [--sources 0.8.2.2,4.3.1] [--targets 3.9.1-kraft] [--json FILE] [--keep]

Ends with 1 when a pair lost something, or delivered what was not sent.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import click

from groundwork import output
from localkafka.zookeeper import ZooKeeperServer
from tests.matrix.pair import Outcome, Pair
from tests.matrix.sites import SOURCES, TARGETS, Kind, Sites


def run(sources: Sequence[Kind], targets: Sequence[Kind], folder: Path, *, pinned: bool, made: bool) -> list[Outcome]:
    """The outcome of each pair, printed the moment it is there."""
    outcomes = []
    (folder / "from").mkdir()
    (folder / "to").mkdir()
    with (
        closing(ZooKeeperServer(folder / "zookeeper")) as zookeeper,
        Sites(folder / "from", zookeeper) as ours,
        Sites(folder / "to", zookeeper) as theirs,
    ):
        zookeeper.start()
        for source in sources:
            for target in targets:
                tag = f"{source.name}-to-{target.name}"
                sites = ours.site(source), theirs.site(target)
                pair = Pair(*sites, folder / tag, tag, pinned=pinned, made=made, console=True)
                outcomes.append(pair.run())
                said = "; ".join(outcomes[-1].problems).partition("\n")[0]
                print(f"{tag}: {said or 'ok'}, {outcomes[-1].seconds} s", file=sys.stderr, flush=True)
            ours.end(source)
    return outcomes


def row(outcome: Outcome) -> dict[str, object]:
    """A line of the table."""
    return {
        "source": outcome.source,
        "target": outcome.target,
        "messages": outcome.messages,
        "lost": outcome.lost,
        "foreign": outcome.foreign,
        "aborted": outcome.aborted,
        "disordered": outcome.disordered,
        "repeated": outcome.repeated,
        "timestamps": _counts(outcome.timestamps),
        "headers": _counts(outcome.headers),
        "seconds": outcome.seconds,
        "result": "ok" if outcome.ok else "NOT OK",
    }


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "-"


def _kinds(known: Sequence[Kind], names: str) -> list[Kind]:
    chosen = [kind for kind in known if not names or kind.name in names.split(",")]
    missing = set(names.split(",")) - {""} - {kind.name for kind in chosen}
    if missing:
        raise click.BadParameter(f"{', '.join(sorted(missing))}; known are {', '.join(kind.name for kind in known)}")
    return chosen


@click.command()
@click.option("--sources", default="", help="Releases to mirror from (default: all).")
@click.option("--targets", default="", help="Releases to mirror to (default: all).")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for the outcomes as JSON.")
@click.option("--pinned", is_flag=True, help="With the options version and target.version; default: brokers are asked.")
@click.option("--made", is_flag=True, help="The targets have the topics already; default: the mirror makes them.")
@click.option("--keep", is_flag=True, help="Keep the folder with configurations and logs.")
def main(sources: str, targets: str, file: Path | None, pinned: bool, made: bool, keep: bool) -> None:
    """Mirror between real brokers of these releases, kill the mirror at a third, and compare message by message."""
    froms, tos = _kinds(SOURCES, sources), _kinds(TARGETS, targets)
    folder = Path(tempfile.mkdtemp(prefix="matrix-"))
    outcomes = []
    try:
        outcomes = run(froms, tos, folder, pinned=pinned, made=made)
    finally:
        if keep or not outcomes:
            print(f"logs: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    output.write([row(outcome) for outcome in outcomes], list(row(outcomes[0])))
    for outcome in outcomes:
        for problem in outcome.problems:
            print(f"{outcome.source} to {outcome.target}: {problem}")
    if file is not None:
        file.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    sys.exit(0 if all(outcome.ok for outcome in outcomes) else 1)


if __name__ == "__main__":
    main()
