"""File of the limits that survive restarts: JSON in the state folder, replaced atomically.

It names the groups of its mirror, so that the file of another mirror is refused instead of pausing the wrong topics.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from groundwork.durable import replace
from groundwork.jsontext import json_value
from mirrormaker.limits import Pause, Throttle

NAME = "limits.json"
VERSION = 1
Groups = Mapping[str, str]  # the group of each source, by its name


class KeptFileUnreadable(Exception):
    """Raised when the state folder, or the file in it, cannot be read or written."""


class KeptFileWrong(Exception):
    """Raised when the file is damaged or belongs to another mirror."""


class KeptFile:
    """File of one mirror."""

    def __init__(self, folder: Path, groups: Groups) -> None:
        self.path = folder / NAME
        self._groups = dict(groups)

    def read(self) -> list[Pause | Throttle]:
        """Return the kept limits; nothing if there is no file.  Raises KeptFileUnreadable and KeptFileWrong."""
        try:
            text = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return []  # statefolder reports it if the state folder is not a folder
        except OSError as reason:
            raise KeptFileUnreadable(f"{self.path} cannot be read: {reason.strerror}") from reason
        try:
            return self._parsed(json_value(text))
        except (ValueError, TypeError, KeyError, AttributeError) as reason:
            raise KeptFileWrong(
                f"{self.path}, which holds the kept pauses and throttles, is damaged ({reason!r}): mend it, or move it "
                "away to start without them"
            ) from reason

    def _parsed(self, found: Any) -> list[Pause | Throttle]:
        if found["version"] != VERSION:
            raise KeptFileWrong(
                f"{self.path} has version {found['version']}, but this program writes version {VERSION}: move it away"
            )
        groups = dict(found["groups"])
        if groups and not groups.items() & self._groups.items():
            raise KeptFileWrong(
                f"{self.path} is of another mirror (groups {_listed(groups)}, this one's are {_listed(self._groups)}): "
                "give each mirror a state folder of its own"
            )
        limits: list[Pause | Throttle] = [Pause(**row, kept=True) for row in found["pauses"]]
        limits += [_throttle(row) for row in found["throttles"]]
        for limit in limits:
            if not isinstance(limit.source, str) or not isinstance(limit.topic, str) or limit.since_ms < 0:
                raise ValueError(limit)
        return limits

    def write(self, limits: Iterable[Pause | Throttle]) -> None:
        """Replace the file with those of the limits that are kept; the file is durable on return.  Blocks.  Raises
        KeptFileUnreadable."""
        kept = [limit for limit in limits if limit.kept]
        text = json.dumps(
            {
                "version": VERSION,
                "groups": self._groups,
                "pauses": [_row(limit) for limit in kept if isinstance(limit, Pause)],
                "throttles": [_row(limit) for limit in kept if isinstance(limit, Throttle)],
            },
            indent=2,
        )
        try:
            if not kept and not self.path.exists():
                return
            replace(self.path, text + "\n")
        except OSError as reason:
            raise KeptFileUnreadable(f"{self.path} cannot be written: {reason.strerror}") from reason


def _row(limit: Pause | Throttle) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(limit).items() if name != "kept"}


def _throttle(row: dict[str, Any]) -> Throttle:
    made = Throttle(**row, kept=True)
    rates = [rate for rate in (made.bytes_per_s, made.messages_per_s) if rate is not None]
    if not rates or min(rates) <= 0:
        raise ValueError(row)
    return made


def _listed(groups: Groups) -> str:
    return ", ".join(f"{group} of {source}" for source, group in sorted(groups.items()))
