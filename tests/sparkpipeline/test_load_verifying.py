"""A load's ledger held against its disk where the ledger itself is damaged.  No Spark."""

from __future__ import annotations

from sparkpipeline.ledger.exactlyonce import advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.load.operations import verify
from tests.sparkpipeline.ledgerworld import BASE, CopyWork
from tests.sparkpipeline.memoryfiles import MemoryFiles


def test_a_torn_manifest_is_a_finding_among_the_others() -> None:
    files = MemoryFiles()
    for _ in range(3):
        advance(Ledger(files, BASE), CopyWork(files, (40, 30)), lambda _: None)
    path = f"{BASE}/_load/commits/00000002.json"
    data = files.read(path)
    files.delete(path)
    files.create(path, data[:50])
    verdict = verify(Ledger(files, BASE), None)
    assert [finding.file for finding in verdict.findings if finding.what == "torn"] == [path]
    assert not verdict.good
