"""Metrics of a comparison, for the textfile collector of node_exporter: `mirrormaker verify --metrics-file`.

A comparison has ended long before it is scraped, and the mirror runs as another user: a file is what both have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from groundwork.durable import READABLE, replace
from mirrormaker.verify.result import COLUMNS, VerifyResult

PREFIX = "mirrormaker_verify_"
COMPLETE = f"{PREFIX}complete_timestamp_seconds"
_COMPLETE = re.compile(rf"^{COMPLETE}\{{.*\}} ([0-9.]+)$", re.MULTILINE)
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def write_metrics(path: Path, name: str, code: int, found: VerifyResult | None, at_s: float) -> None:
    """Replace the file.  name: of the mirror; code: how the comparison ended; found: None: there was none.  Raises
    OSError."""
    complete_s = at_s if found is not None and not found.unreachable else _complete_s(path)
    replace(path, "".join(f"{line}\n" for line in lines(name, code, found, at_s, complete_s)), READABLE)


def _complete_s(path: Path) -> float | None:
    """When everything was compared before, as the file says; None: it does not."""
    try:
        said = _COMPLETE.search(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None
    return float(said[1]) if said is not None else None


def lines(name: str, code: int, found: VerifyResult | None, at_s: float, complete_s: float | None) -> Iterator[str]:
    """Return the lines of the file.  complete_s: when everything was compared last; None: never."""
    label = f'name="{name.translate(_ESCAPED)}"'

    def gauge(what: str, help: str, values: dict[str, float]) -> Iterator[str]:
        yield f"# HELP {what} {help}"
        yield f"# TYPE {what} gauge"
        for more, value in values.items():
            yield f"{what}{{{label}{more}}} {value:.15g}"

    yield from gauge(
        f"{PREFIX}exit_code", "Exit code of the last mirrormaker verify; 4: messages are missing.", {"": code}
    )
    yield from gauge(f"{PREFIX}timestamp_seconds", "When it ended, since 1970.", {"": at_s})
    if complete_s is not None:
        yield from gauge(COMPLETE, "When one last compared all that it was to compare, since 1970.", {"": complete_s})
    if found is not None:
        counts = {f',result="{column}"': float(found.total(column)) for column in COLUMNS[2:-1]}
        yield from gauge(f"{PREFIX}messages", "Messages by the columns of mirrormaker verify.", counts)
