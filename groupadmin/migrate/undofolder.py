"""Undo files of a migration, in a folder beside the journal: GROUP.STEP.json, written atomically.

An existing file is kept: it has the state before the first attempt.  If a later attempt of the step has another state,
it gets a number: GROUP.STEP.2.json.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from groundwork.durable import make_folder, replace
from groupadmin.files.model import OffsetsFile
from groupadmin.files.write import write_offsets
from groupadmin.migrate.rules.states import StepName
from zkconsumer.errors import ConsumerError

LONGEST = 200  # characters of a name; file systems take 255 bytes


class UndoFolder:
    """Undo files of one plan in the folder `path`, which is created with the first file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, group: str, step: StepName) -> Path:
        """Return the path of the file for a group's state before a step."""
        name = quote(group, safe="")
        if len(name) > LONGEST:
            name = f"{name[:LONGEST]}~{sha256(group.encode()).hexdigest()[:16]}"
        return self.path / f"{name}.{step}.json"

    def keep(self, group: str, step: StepName, file: OffsetsFile) -> Path | None:
        """Write a file durably; return its path, or None when there is nothing to undo."""
        if not file.rows:
            return None
        path, text = self.file(group, step), write_offsets(file, "json")
        try:
            if path.exists():
                if path.read_text(encoding="utf-8") == text:
                    return path
                path = self._numbered(path)
            make_folder(path.parent)
            replace(path, text)
        except OSError as why:
            raise ConsumerError(f"undo file {path} cannot be written: {why}; nothing of {group} was written") from why
        return path

    def _numbered(self, path: Path) -> Path:
        number = 2
        while (free := path.with_suffix(f".{number}.json")).exists():
            number += 1
        return free

    def files(self, groups: list[str], step: StepName) -> dict[str, str]:
        """Return the existing files, by group."""
        paths = {group: self.file(group, step) for group in groups}
        return {group: str(path) for group, path in paths.items() if path.exists()}
