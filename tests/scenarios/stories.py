"""What all stories have in common: a file of events, a rule, and the trace that the events lead to.

    a_member_leaves.txt     events, a line each; empty lines and those that begin with # are for the reader
                            ----
                            the trace, as tell() of the folder's story.py makes it

`pytest --rewrite` writes the new traces, to be read as a diff.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

RULE = "----"
WIDTH = 118
W = TypeVar("W")


def events_of(text: str) -> Iterator[str]:
    """The events of a story, without what is for the reader."""
    return (line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#"))


def happen(effects: Mapping[str, Callable[..., object]], world: W, line: str) -> None:
    """Let an event happen.  effects: a pattern of the whole line, and what is called with the world and its groups."""
    for pattern, effect in effects.items():
        found = re.fullmatch(pattern, line)
        if found:
            effect(world, *found.groups())
            return
    raise ValueError(f"a story does not know what happens at {line!r}")


def turns(trace: list[tuple[str, str]]) -> list[str]:
    """Lines of a trace of (who, what): one paragraph for each turn of a member."""
    paragraphs: list[tuple[str, list[str]]] = []
    for name, said in trace:
        if not paragraphs or paragraphs[-1][0] != name:
            paragraphs.append((name, []))
        paragraphs[-1][1].append(said)
    return [line for name, actions in paragraphs for line in _wrapped(name, actions)]


def _wrapped(name: str, actions: list[str]) -> list[str]:
    lines = [f"{name}: {actions[0]}"]
    for action in actions[1:]:
        if len(lines[-1]) + len(action) + 2 > WIDTH:
            lines[-1] += ","
            lines.append(" " * (len(name) + 2) + action)
        else:
            lines[-1] += f", {action}"
    return lines


def check(path: Path, tell: Callable[[str], str], request: pytest.FixtureRequest) -> None:
    """Fail where the events of a story lead to another trace than it has; with --rewrite, write that into the file."""
    events, _, told = path.read_text().partition(f"\n{RULE}\n")
    trace = tell(events)
    if trace == told:
        return
    change = "\n".join(difflib.unified_diff(told.splitlines(), trace.splitlines(), "told", "now", lineterm=""))
    if request.config.getoption("--rewrite"):
        path.write_text(f"{events}\n{RULE}\n{trace}")
        print(f"{path.name}\n{change}")
        return
    pytest.fail(f"{path.name} goes otherwise (pytest --rewrite takes it over):\n{change}", pytrace=False)
