"""Stories of whole mirrors: schedules that once broke a promise, as few events as it took, kept in tests/scenarios.

A file begins with the story as it is told, each line behind a #; then come, as JSON, the mutation that puts the fault
back, the seed of all that is left to chance, the setup and the events.  It holds whatever schedules are made of seeds
later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.simulation.mirrors.schedule import MirrorEvent, MirrorSchedule
from tests.simulation.mirrors.setup import Setup, Source

FOLDER = Path(__file__).parents[2] / "scenarios" / "mirror"


def stories() -> Iterator[tuple[str, str, MirrorSchedule]]:
    """Yield the name of each story, its mutation and its schedule."""
    for path in sorted(FOLDER.glob("*.txt")):
        yield path.stem, *_read(path.read_text())


def save(path: Path, mutation: str, given: MirrorSchedule, why: str) -> None:
    """Keep a schedule that breaks a promise (`why`) with a mutation."""
    told = "".join(
        f"# {line}".rstrip() + "\n" for line in (f"with the mutation {mutation!r}", *str(given).split("\n"), why)
    )
    events = [[event.at, event.what, event.who, event.a, event.b] for event in given.events]
    rows = ",\n  ".join(json.dumps(event) for event in events)
    fields = {"mutation": mutation, "seed": given.seed, "setup": asdict(given.setup)}
    head = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items())
    path.write_text(f'{told}{{{head},\n"events": [\n  {rows}\n]}}\n')


def _read(text: str) -> tuple[str, MirrorSchedule]:
    found: dict[str, Any] = json.loads("\n".join(line for line in text.split("\n") if not line.startswith("#")))
    setup = dict(found["setup"])
    sources = tuple(Source(**source) for source in setup.pop("sources"))
    setup = Setup(**{**setup, "sources": sources, "daemons": tuple(setup["daemons"])})
    return found["mutation"], MirrorSchedule(
        found["seed"], setup, tuple(MirrorEvent(*event) for event in found["events"])
    )
