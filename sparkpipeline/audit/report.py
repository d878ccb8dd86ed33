"""The JSON report of an audit.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from sparkpipeline.audit.comparing import KINDS, Difference, Scope, Windowed, total
from sparkpipeline.audit.job import Found
from sparkpipeline.audit.matching import SOURCE, TARGET
from sparkpipeline.audit.windows import label

Offsets = Mapping[str, Mapping[str, Mapping[str, list[int]]]]  # side -> topic -> partition -> [start, until]


def document(found: Found, offsets: Offsets, block: int, allowed: Collection[str], seconds: float) -> dict[str, Any]:
    """equal: nothing differs; passed: nothing but what is allowed; offsets: what was read of each side."""
    return {
        "equal": not found.differences,
        "passed": not mismatches(found.differences, allowed),
        "allowed": sorted(allowed),
        "seconds": round(seconds, 3),
        "messages": {side: found.messages(side) for side in (SOURCE, TARGET)},
        "offsets": offsets,
        "differences": [asdict(row) for row in found.differences],
        "kinds": {kind: KINDS[kind] for kind in sorted({row.difference for row in found.differences})},
        "scopes": [_scope(scope, found, block) for scope in found.scopes],
    }


def mismatches(differences: Collection[Difference], allowed: Collection[str]) -> list[Difference]:
    """The rows that are not allowed."""
    return [row for row in differences if row.difference not in allowed]


def _scope(scope: Scope, found: Found, block: int) -> dict[str, Any]:
    sides: dict[str, Windowed] = {side: found.sums[side].get(scope, {}) for side in (SOURCE, TARGET)}
    return {
        "topic": scope.topic,
        "partition": scope.partition,
        **{
            side: {"messages": total(windows), "windows": [_window(n, windows, block) for n in sorted(windows)]}
            for side, windows in sides.items()
        },
    }


def _window(window: int, windows: Windowed, block: int) -> dict[str, Any]:
    figures = windows[window]
    return {
        "window": label(window, block),
        "messages": figures.count,
        "value_crcs": figures.value_crcs,
        "content": f"{figures.content:016x}",
        "order": None if figures.order is None else f"{figures.order:016x}",
        "first_offset": figures.first,
        "last_offset": figures.last,
    }
