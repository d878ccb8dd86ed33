"""Snapshots: the sum of all batches up to one, so that a start reads the newest one and a few manifests, not thousands.

    00000100.files.gz    one line of JSON a live file: [final, rows, bytes, batch], in the order of the names
    00000100.json        through, newest (the last batch that was not abandoned), abandoned, files, rows, bytes, crc32

The second names the first one's checksum and is made after it, both exclusively: a snapshot is whole or not there, and
two drivers that make the same one make the same bytes.  The last KEPT stay, for readers that are just at one.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass

from groundwork.failpoints import failpoint
from groundwork.jsontext import json_value
from sparkpipeline.errors import LedgerDamaged, Missing
from sparkpipeline.ledger.files import Files
from sparkpipeline.ledger.manifests import FORMAT, LiveFile, Manifest, live_file
from sparkpipeline.paths import Layout, batch_of

KEPT = 3
Live = dict[str, LiveFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Sum of batches 1 to through. newest: the last one that was not abandoned, 0 if there is none."""

    through: int = 0
    newest: int = 0
    abandoned: frozenset[int] = frozenset()
    files: int = 0
    rows: int = 0
    bytes: int = 0
    crc32: int = 0


class Snapshots:
    """Snapshots of one ledger."""

    def __init__(self, files: Files, layout: Layout) -> None:
        self._files = files
        self._layout = layout

    def newest(self, up_to: int | None = None) -> Sum:
        """Return the newest sum (of at most that batch), or the empty one."""
        for _ in range(3):  # another driver may delete old ones between our list and our read
            found = [n for n in self.all() if up_to is None or n <= up_to]
            if not found:
                break
            try:
                return self._sum(found[-1])
            except Missing:
                continue
        return Sum()

    def all(self) -> list[int]:
        entries = self._files.list(self._layout.folder("snapshots"))
        return sorted(n for entry in entries if (n := batch_of(entry.name)) is not None)

    def live(self, of: Sum) -> Live:
        """Return the live files of a sum.  Raises LedgerDamaged, and Missing when another driver has deleted it
        meanwhile."""
        if of.through == 0:
            return {}
        path = self._layout.snapshot_files(of.through)
        data = self._files.read(path)
        if zlib.crc32(data) != of.crc32:
            raise LedgerDamaged("its checksum is not the one its snapshot names; delete both files, a new one is made",
                                file=path)  # fmt: skip
        try:
            found = [live_file(json_value(line)) for line in gzip.decompress(data).splitlines()]
        except (OSError, EOFError, zlib.error, TypeError, ValueError) as exc:
            raise LedgerDamaged(
                f"is not the live files of a ledger ({exc}); delete both files of the snapshot, a new one is made",
                file=path,
            ) from None
        return {file.final: file for file in found}

    def write(self, through: int, newest: int, abandoned: frozenset[int], live: Live) -> None:
        """Write the snapshot of batches 1 to through, all of them published, and delete old ones."""
        rows = (json.dumps([f.final, f.rows, f.bytes, f.batch]) for _, f in sorted(live.items()))
        data = self._packed(through, "".join(f"{row}\n" for row in rows).encode())
        failpoint("ledger during snapshot")
        row = {
            "abandoned": sorted(abandoned),
            "bytes": sum(file.bytes for file in live.values()),
            "crc32": zlib.crc32(data),
            "files": len(live),
            "format": FORMAT,
            "newest": newest,
            "rows": sum(file.rows for file in live.values()),
            "through": through,
        }
        self._files.create(self._layout.snapshot(through), (json.dumps(row, sort_keys=True) + "\n").encode())
        for old in self.all()[:-KEPT]:
            self._files.delete(self._layout.snapshot(old))
            self._files.delete(self._layout.snapshot_files(old))

    def _packed(self, through: int, lines: bytes) -> bytes:
        """Create or find the file of the lines: another driver's zlib may compress the same lines to other bytes."""
        path = self._layout.snapshot_files(through)
        data = gzip.compress(lines, mtime=0)
        if self._files.create(path, data):
            return data
        try:
            if gzip.decompress(data := self._files.read(path)) == lines:
                return data
        except (OSError, EOFError, zlib.error):
            pass  # not a gzip file: an error below
        raise LedgerDamaged("is not the live files of these batches; delete it, a new one is made", file=path)

    def _sum(self, through: int) -> Sum:
        path = self._layout.snapshot(through)
        try:
            row = json_value(self._files.read(path))
            if row.pop("format") != FORMAT or row["through"] != through:
                raise ValueError(f"format or number is another: {row}")
            return Sum(**{**row, "abandoned": frozenset(row["abandoned"])})
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise LedgerDamaged(
                f"is not a snapshot of a ledger ({exc}); delete it, a new one is made", file=path
            ) from exc


def fold(live: Live, manifest: Manifest) -> None:
    """Apply a manifest to the live files.  Raises LedgerDamaged if it supersedes a file that is not live."""
    for final in manifest.supersedes:
        if live.pop(final, None) is None:
            raise LedgerDamaged(f"the manifest supersedes {final}, which is not live", batch=manifest.batch)
    for file in manifest.files:
        if file.final in live:
            raise LedgerDamaged(f"the manifest brings {file.final}, which is live already", batch=manifest.batch)
        live[file.final] = LiveFile(file.final, file.rows, file.bytes, manifest.batch)
