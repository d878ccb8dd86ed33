"""A job held against its disk: the ledger's own look, and the footer of every live file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from groundwork.plural import counted
from sparkpipeline.errors import LedgerDamaged, Mismatch
from sparkpipeline.ledger import verification as verifying
from sparkpipeline.ledger.base import needs_spark
from sparkpipeline.ledger.footers import Footer, read_footers
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.model import LiveFile
from sparkpipeline.ledger.verification import Finding, Verdict
from sparkpipeline.paths import FinalName


def verify(ledger: Ledger, spark: Any | None, with_footers: bool = True) -> Verdict:
    """Findings of the ledger's verify, and of kind footer: rows other than the manifest's, offsets outside of the range
    in the file's name, a name that is no load's.  Reads only; no footers where the ledger does not tell the files."""
    verdict = verifying.verify(ledger)
    if not with_footers:
        return verdict
    missing = {finding.file for finding in verdict.findings if finding.what == "missing"}
    try:
        files = ledger.live_files().values()
    except LedgerDamaged:
        return verdict  # the damage is among the findings
    live = {path: file for file in files if (path := ledger.path(file.final)) not in missing}
    ends = read_footers(live, spark, not needs_spark(ledger.base))
    wrong = {path: why for path, file in live.items() if (why := _wrong(file, ends[path])) is not None}
    found = [Finding("footer", path, why) for path, why in wrong.items()]
    return replace(verdict, findings=tuple(sorted((*verdict.findings, *found))))


def _wrong(file: LiveFile, footer: Footer | Mismatch) -> str | None:
    name = FinalName.of(file.final)
    if name is None:
        return "its name is not one that a load gives"
    if isinstance(footer, Mismatch):
        return footer.sentence
    if footer.rows != file.rows:
        return f"has {counted(footer.rows, 'row')}, its manifest says {file.rows}"
    first, last = footer.first, footer.last
    if first is not None and last is not None and not name.start <= first <= last < name.until:
        return f"has offsets {first} to {last}, outside of the range that its name says"
    return None
