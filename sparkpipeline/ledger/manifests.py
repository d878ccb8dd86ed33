"""Content of a ledger: plans, manifests and the files they name.  Pure; their texts are JSON with sorted keys.

    plan       exact work of a batch, written before anything is read
    manifest   its result: the commit.  One whose kind is `abandoned` says that batch N will never be done

Times are milliseconds since 1970; the texts say them in UTC too, for people.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

from groundwork.jsontext import json_value
from sparkpipeline.errors import LedgerDamaged, OptionRefused
from sparkpipeline.paths import DATA, generation, is_below

ABANDONED = "abandoned"  # the kind of a manifest that ends a plan without doing it
FORMAT = 1


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A file of a batch.  staged: its path below the staging folder; final: below the base, `data/…`; rows and bytes
    as audited."""

    staged: str
    final: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that readers see, and the batch that brought it.  final: its path below the base."""

    final: str
    rows: int
    bytes: int
    batch: int


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """Audited result of executing a plan, in its staging folder. facts: content for the manifest, in JSON types;
    application: the Spark application's id."""

    files: tuple[BatchFile, ...]
    facts: dict[str, Any]
    application: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of batch number `batch`. kind: type of work ("load", "rewind", "stage", ..); work: everything needed to
    execute it, in JSON types; supersedes: final paths of live files that it replaces."""

    batch: int
    kind: str
    created_ms: int
    work: dict[str, Any]
    supersedes: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the plan's file content."""
        return _text({**_values(self), "created": utc(self.created_ms), "format": FORMAT})

    @property
    def hash(self) -> str:
        """SHA-256 of the text, in hex: a manifest names the plan that it carried out."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    @classmethod
    def of(cls, text: str, where: str = "the plan") -> Plan:
        """Read a plan's file; where names it in errors.  Raises LedgerDamaged."""
        row = _row(text, where)
        try:
            return cls(
                batch=_number(row["batch"]),
                kind=_word(row["kind"]),
                created_ms=_number(row["created_ms"]),
                work=_object(row["work"]),
                supersedes=tuple(final_path(path) for path in row["supersedes"]),
            )
        except (KeyError, TypeError) as exc:
            raise _damaged(where, "a plan", exc) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Result of a batch. attempt: the one from whose staging folder it is published; started_ms: when that attempt
    began; version: of the tool that wrote it."""

    batch: int
    kind: str
    plan_hash: str
    attempt: int
    application: str
    started_ms: int
    committed_ms: int
    files: tuple[BatchFile, ...]
    supersedes: tuple[str, ...]
    facts: dict[str, Any]
    version: str

    @property
    def abandoned(self) -> bool:
        return self.kind == ABANDONED

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def text(self) -> str:
        """Return the manifest's file content."""
        files = [asdict(file) for file in self.files]
        times = {"committed": utc(self.committed_ms), "started": utc(self.started_ms)}
        return _text({**_values(self), **times, "files": files, "format": FORMAT})

    @classmethod
    def of(cls, text: str, where: str = "the manifest") -> Manifest:
        """Read a manifest's file; where names it in errors.  Raises LedgerDamaged."""
        row = _row(text, where)
        try:
            return cls(
                batch=_number(row["batch"]),
                kind=_word(row["kind"]),
                plan_hash=_word(row["plan_hash"]),
                attempt=_number(row["attempt"]),
                application=_word(row["application"]),
                started_ms=_number(row["started_ms"]),
                committed_ms=_number(row["committed_ms"]),
                files=tuple(_entry(file) for file in row["files"]),
                supersedes=tuple(final_path(path) for path in row["supersedes"]),
                facts=_object(row["facts"]),
                version=_word(row["version"]),
            )
        except (KeyError, TypeError) as exc:
            raise _damaged(where, "a manifest", exc) from None


def utc(ms: int) -> str:
    """Return 2026-01-31T10:00:00.000Z for milliseconds since 1970."""
    whole = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def check_plan(plan: Plan) -> None:
    """Raise OptionRefused for a plan that cannot be written or executed."""
    if plan.batch < 1:
        raise OptionRefused("batches are counted from 1", batch=plan.batch)
    if not plan.kind or plan.kind == ABANDONED:
        raise OptionRefused(f"{plan.kind!r} is not a kind of work", batch=plan.batch)
    if len(set(plan.supersedes)) != len(plan.supersedes):
        raise OptionRefused("the plan supersedes a file twice", batch=plan.batch)
    try:
        same = Plan.of(plan.text()) == plan
    except (TypeError, ValueError) as exc:
        raise OptionRefused(f"the plan's work cannot be stored as JSON: {exc}", batch=plan.batch) from None
    if not same:
        raise OptionRefused("the plan's work comes back changed from JSON (keys are texts, lists not tuples)",
                            batch=plan.batch)  # fmt: skip


def check_files(batch: int, files: tuple[BatchFile, ...]) -> None:
    """Raise OptionRefused for files that may not be published: two of a name, outside of data/, without generation."""
    finals: set[str] = set()
    for file in files:
        for path in (file.staged, file.final):
            if not is_below(path):
                raise OptionRefused("is not a path below a folder", batch=batch, file=repr(path))
        if not file.final.startswith(f"{DATA}/"):
            raise OptionRefused(f"a final file lies below {DATA}/", batch=batch, file=file.final)
        if not re.search(rf"{re.escape(generation(batch))}(?!\d)", file.final.rpartition("/")[2]):
            raise OptionRefused(f"the name of a final file holds {generation(batch)}", batch=batch, file=file.final)
        if file.final in finals:
            raise OptionRefused("two files of the batch have this name", batch=batch, file=file.final)
        if file.rows < 0 or file.bytes < 0:
            raise OptionRefused("rows and bytes are counted from 0", batch=batch, file=file.final)
        finals.add(file.final)


def _values(one: Plan | Manifest) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in fields(one)}


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _row(text: str, where: str) -> dict[str, Any]:
    try:
        row = json_value(text)
    except ValueError as exc:
        raise LedgerDamaged(f"is not JSON ({exc}): torn, or not written by a ledger", file=where) from None
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        said = row.get("format") if isinstance(row, dict) else type(row).__name__
        raise LedgerDamaged(f"is of format {said}, and this version reads format {FORMAT}", file=where)
    return row


def _damaged(where: str, what: str, exc: Exception) -> LedgerDamaged:
    wrong = f"has no {exc}" if isinstance(exc, KeyError) else str(exc)
    return LedgerDamaged(f"is not {what} of a ledger: {wrong}", file=where)


def live_file(row: object) -> LiveFile:
    """Return a live file of [final, rows, bytes, batch].  Raises TypeError, ValueError."""
    if not isinstance(row, list):
        raise TypeError(f"{row!r} is not a list")
    final, rows, size, batch = row
    return LiveFile(final_path(final), _number(rows), _number(size), _number(batch))


def final_path(value: object) -> str:
    """Return a final path that a file of the ledger names: one below data/.  Raises TypeError.

    A path that leads out of the folder would have the driver read, move or delete a file of another."""
    path = _below(value)
    if not path.startswith(f"{DATA}/"):
        raise TypeError(f"{path!r} is not below {DATA}/")
    return path


def _below(value: object) -> str:
    path = _word(value)
    if not is_below(path):
        raise TypeError(f"{path!r} is not a path below a folder")
    return path


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not an integer")
    return value


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object")
    return value


def _entry(row: dict[str, Any]) -> BatchFile:
    return BatchFile(_below(row["staged"]), final_path(row["final"]), _number(row["rows"]), _number(row["bytes"]))
