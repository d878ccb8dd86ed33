"""Publishing a manifest: superseded files to trash, staged files to their final names, done.

Any number of times, by any number of drivers at once, and again by one that slept meanwhile.  Superseded files go
first: whoever lists the folders sees too few rows for as long as the renames last, and never the same ones twice.
(Whoever must not see that either reads the files of the manifests: reports.files_of.)
"""

from __future__ import annotations

from collections.abc import Callable

from groundwork.failpoints import failpoint
from sparkpipeline.errors import LedgerDamaged
from sparkpipeline.ledger.files import Files, info
from sparkpipeline.ledger.model import FileEntry, Manifest
from sparkpipeline.paths import Layout


def publish(files: Files, layout: Layout, manifest: Manifest, tell: Callable[[str], None]) -> None:
    """Bring all of a committed manifest to where it says.  Raises LedgerDamaged for a file that is nowhere."""
    if files.exists(layout.done(manifest.batch)):
        return
    for final in manifest.supersedes:
        failpoint("ledger before trash")
        if not _trashed(files, layout, manifest.batch, final) and not files.exists(layout.done(manifest.batch)):
            tell(f"batch {manifest.batch} supersedes {final}, which somebody else has deleted")
    for file in manifest.files:
        failpoint("ledger during publish")
        _move(files, layout, manifest, file)
    failpoint("ledger before done")
    files.create(layout.done(manifest.batch), b"{}\n")
    failpoint("ledger after done")


def _trashed(files: Files, layout: Layout, batch: int, final: str) -> bool:
    """Whether the file lies in the batch's trash now."""
    trash = layout.trashed(batch, final)
    return files.rename(layout.final(final), trash) or files.exists(trash)


def _move(files: Files, layout: Layout, manifest: Manifest, file: FileEntry) -> None:
    source = f"{layout.staging(manifest.batch, manifest.attempt)}/{file.staged}"
    target = layout.final(file.final)
    if files.rename(source, target):
        return
    there = info(files, target)
    if there is not None and there.size == file.bytes:
        return  # moved before, by us or by another driver
    if files.exists(layout.done(manifest.batch)):
        return  # published meanwhile, and perhaps superseded already
    if there is not None:
        raise LedgerDamaged(
            f"there is a file of {there.size} bytes, and the batch has one of {file.bytes}; "
            "move the foreign one away and run again",
            batch=manifest.batch,
            file=target,
        )
    raise LedgerDamaged(
        f"the batch is committed, and its file is neither here nor at {source}: it was deleted from outside; "
        "put it back (a snapshot, the file system's trash) and run again",
        batch=manifest.batch,
        file=target,
    )
