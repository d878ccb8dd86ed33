"""`mirrormaker topics --explain`: why a topic is mirrored or not, under which name, who reads it, and how it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from groundwork.commands import Command, output_option
from groundwork.output import fail, print_note, print_text, write
from kafkawire.cluster.metadata import Unreachable
from mirrormaker import exits
from mirrormaker.commands.running import (
    explained,
    opened,
    reader_may_leave,
    socket_option,
    source_option,
    split_file,
)
from mirrormaker.config import Configuration, from_yaml
from mirrormaker.control.client import NoMirror, Refused
from mirrormaker.control.topicrows import TopicFacts, rows_of
from zkconsumer.errors import ConsumerError
from zkconsumer.errors import Unreachable as ZooKeeperUnreachable

SHORT = ("source", "topic", "partitions", "mirrored", "target", "state")


@click.command(
    cls=Command,
    examples=[
        "mirrormaker topics mirror.yaml",
        "mirrormaker topics mirror.yaml --explain",
        "mirrormaker topics mirror.yaml orders --explain -o json",
    ],
)
@click.argument("words", nargs=-1, metavar="[FILE] [TOPIC]...")
@socket_option
@source_option
@click.option(
    "--explain", is_flag=True, help="Say for each topic by which rule, under which name, who owns it, and why."
)
@output_option(("table", "json"))
def topics(words: Sequence[str], *, socket_path: Path | None, source: str | None, explain: bool, output: str) -> int:
    """List the topics of the sources, mirrored or not.

    With the name of each in the target.

    Asks the running mirror.  Where none runs, the sources are read, as `check --online` does; then FILE is needed,
    and states are not known.
    """
    file, names = split_file(words)
    found = _of_running(file, socket_path, source, names)
    if found is None:
        assert file is not None
        found = _of_clusters(from_yaml(file), source, names)
        print_note("no mirror runs: states are not known")
    with reader_may_leave():
        _print(found["rows"], explain, output)
    for problem in found["problems"]:
        print_note(f"error: {problem}")
    return exits.UNREACHABLE if found["problems"] else exits.CLEAN


def _of_running(
    file: Path | None, socket_path: Path | None, source: str | None, names: list[str]
) -> Mapping[str, Any] | None:
    """Return what the running mirror says, or None if no mirror runs and the file names the sources."""
    arguments = {"topics": names} | ({"source": source} if source else {})
    try:
        found: Mapping[str, Any] = next(opened(file, socket_path).answers("topics", arguments))
    except NoMirror:
        if file is not None and socket_path is None and file.exists() and file.suffix != ".properties":
            return None
        with explained():
            raise
    except Refused:
        with explained():
            raise
    return found


def _of_clusters(configuration: Configuration, only: str | None, names: list[str]) -> Mapping[str, Any]:
    """Return the rows as the sources themselves show them.  Ends the command for a source or topic that does not
    exist."""
    from mirrormaker.commands.online import source_topics  # connects: loaded only then

    sources = [source for source in configuration.sources if only in (None, source.name)]
    if not sources:
        fail(f"there is no source {only}: {', '.join(s.name for s in configuration.sources)}", exits.REFUSED)
    rows, problems = [], []
    for source in sources:
        try:
            partitions, owners = source_topics(source)
        except (ConsumerError, Unreachable, ZooKeeperUnreachable) as reason:
            problems.append(f"source {source.name}: {reason}")
            continue
        wanted = [name for name in sorted(partitions) if not names or name in names]
        facts = TopicFacts(topics=wanted, partitions=partitions, owners=owners)
        rows += rows_of(configuration.selection(source), facts)
    missing = [name for name in names if name not in {row["topic"] for row in rows}]
    if missing and not problems:
        fail(f"no source has a topic {missing[0]}", exits.REFUSED)
    return {"rows": rows, "problems": problems}


def _print(rows: Sequence[Mapping[str, Any]], explain: bool, output: str) -> None:
    if output == "json":
        print_text(json.dumps(list(rows), indent=2))
    elif not explain:
        write([{**row, "mirrored": _yes(row), "target": row["target"] or None} for row in rows], SHORT)
    else:
        for row in rows:
            print_text("\n".join(explanation(row)))


def _yes(row: Mapping[str, Any]) -> str:
    return "yes" if row["mirrored"] else "no"


def explanation(row: Mapping[str, Any]) -> list[str]:
    """A topic in a few lines."""
    count = row["partitions"]
    lines = [f"{row['source']}: {row['topic']}, {count} partition{'' if count == 1 else 's'}"]
    lines.append(f"  {'mirrored' if row['mirrored'] else 'not mirrored'}: {row['rule']}")
    if not row["mirrored"]:
        return lines
    by = f" ({row['naming']})" if row["naming"] else " (its own name)"
    lines.append(f"  target topic: {row['target']}{by}")
    lines += [f"  {override}" for override in row["overrides"]]
    if row["route"]:
        lines.append(f"  route: {row['route']}")
    owners = ", ".join(row["owners"]) or "none"
    here = f"; {row['owned_here']} partitions here" if row["owned_here"] else ""
    lines.append(f"  owners: {owners}{here}")
    if row["state"]:
        reason = f": {row['reason']}" if row["reason"] else ""
        lines.append(f"  state: {row['state']}{reason}")
    return lines
