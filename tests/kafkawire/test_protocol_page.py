"""docs/protocol.md: its table of versions is that of the code, and bytes that it shows are decoded."""

from __future__ import annotations

import json
import re
import shlex

from click.testing import CliRunner

from kafkawire.__main__ import main
from kafkawire.dialects import DIALECTS
from kafkawire.protocol import apis
from tests.docpages import blocks, section

SHOWN = (
    apis.PRODUCE, apis.FETCH, apis.LIST_OFFSETS, apis.METADATA, apis.OFFSET_COMMIT, apis.OFFSET_FETCH,
    apis.GROUP_COORDINATOR, apis.JOIN_GROUP,
)  # fmt: skip


def rows() -> list[str]:
    """A row for each release of 0.8 and later with which a version or the format changes."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for release, row in DIALECTS.items():
        cells = (*(str(row.versions.get(api.key, "–")) for api in SHOWN), f"v{row.magic}")
        if row.describes_itself and (not found or found[-1][1] != cells):
            found.append((release, cells))
    return [f"| {release} | {' | '.join(cells)} |" for release, cells in found]


def test_the_table_of_versions_is_that_of_the_dialects() -> None:
    text = section("protocol.md", "Versions that are used")
    assert re.findall(r"^\| \d.*$", text, re.MULTILINE) == rows()
    assert f"| from release | {' | '.join(api.name for api in SHOWN)} | message format |" in text


def test_every_command_that_brings_its_own_bytes_decodes_them() -> None:
    lines = [line for block in blocks("protocol.md") if block.language == "console" for line in block.text.splitlines()]
    decoded = []
    for words in (shlex.split(line) for line in lines if re.search(r" [0-9a-f]{12,}$", line)):
        assert words[:4] == ["$", "python", "-m", "kafkawire"]
        done = CliRunner().invoke(main, words[4:])
        assert done.exit_code == 0, (words, done.output)
        decoded.append(json.loads(done.stdout))
    assert len(decoded) >= 4
    assert decoded[0]["messages"][0]["payload_utf8"] == "testing"
