"""Figures of the last full run of the fault matrix: their sum in docs/reliability.md, each row in results.md here.

    python -m tests.faults.report [FILE]     writes both from the lines of FILE (tests/faults/results.jsonl)

Each run of a row appends its verdict to the file that FAULT_REPORT names.  The page has a sentence between the lines
<!-- results --> and <!-- end of results -->; the rest is written by hand.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.harness.oracles import Verdict

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
TABLE = HERE / "results.md"
PAGE = HERE.parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"
WHOLE = """\
# Figures of the fault matrix

The last full run, a line for each row ([what it demands](../../docs/reliability.md#rows)).  `outside` counts duplicates
that no fault explains; `recovery` is measured if a fault stops partitions; `memory` is the largest growth of a daemon.
Made by `python -m tests.faults.report`.
"""
HEAD = ("row", "fault", "runs", "messages", "lost", "duplicates: max ≤ bound", "outside", "unsafe commits",
        "recovery s: p50, max ≤ bound", "memory MB", "passed")  # fmt: skip


def note(verdict: Verdict) -> None:
    """Append a verdict to the file that FAULT_REPORT names, if it names one."""
    file = os.environ.get("FAULT_REPORT")
    if file:
        with Path(file).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(dataclasses.asdict(verdict), default=str) + "\n")


def read(file: Path) -> list[dict[str, Any]]:
    """The verdicts of a file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def table(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """A line for each row of the matrix, in its order, over all its runs."""
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for verdict in verdicts:
        rows[verdict["row"], verdict["title"]].append(verdict)
    ordered = sorted(rows.items(), key=lambda item: (int("".join(filter(str.isdigit, item[0][0]))), item[0]))
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(_line(number, title, runs)) + " |" for (number, title), runs in ordered]
    return "\n".join(lines) + "\n"


def _line(number: str, title: str, runs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    def most(name: str) -> Any:
        return max(run[name] for run in runs)

    recoveries = [run["recovery_s"] for run in runs if run["recovery_s"] is not None]
    recovery = f"{statistics.median(recoveries):.1f}, {max(recoveries):.1f}" if recoveries else ""
    bound = runs[0]["recovery_bound_s"]
    return (
        number,
        title,
        str(len(runs)),
        f"{sum(run['messages'] for run in runs):,}",
        str(sum(run["lost"] for run in runs)),
        f"{most('duplicates'):,} ≤ {most('duplicates_bound'):,}",
        str(sum(run["outside"] for run in runs)),
        str(sum(run["unsafe_commits"] for run in runs)),
        recovery + (f" ≤ {bound:g}" if bound is not None and recovery else ""),
        f"{most('grown_bytes') / 1e6:.0f}",
        f"{sum(not run['failures'] for run in runs)} of {len(runs)}",
    )


def whole_table(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of results.md."""
    return f"{WHOLE}\n{table(verdicts)}"


def summary(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return the sums of all runs as a sentence."""

    def total(name: str) -> str:
        return f"{sum(verdict[name] for verdict in verdicts):,}"

    passed = sum(not verdict["failures"] for verdict in verdicts)
    return (
        f"{passed} of {len(verdicts)} runs passed.  Of {total('messages')} messages {total('lost')} were lost; "
        f"{total('unsafe_commits')} commits were unsafe, and {total('outside')} duplicates outside a fault's window.  "
        f"A daemon grew by {max(verdict['grown_bytes'] for verdict in verdicts) / 1e6:.0f} MB at most.\n"
    )


def made(page: str, verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with the sums of these verdicts."""
    before, rest = page.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{summary(verdicts)}\n{END}{rest.split(END, 1)[1]}"


if __name__ == "__main__":
    given = read(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
    TABLE.write_text(whole_table(given), encoding="utf-8")
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8"), given), encoding="utf-8")
