"""format("kafka08") in the sessions of stages, installed or in a zip of --py-files.  No Spark."""

from __future__ import annotations

from typing import Any

import pytest

from sparkpipeline import sparksession
from sparkpipeline.datasource import Kafka08DataSource


class Known:
    """A session as Spark 4.3 has it: it knows what was registered in it while it was the active one."""

    active: Known | None = None

    def __init__(self) -> None:
        self.formats: list[type] = []
        self.dataSource = self

    def newSession(self) -> Known:
        return Known()

    def createDataFrame(self, rows: list[Any], schema: str) -> None:
        Known.active = self

    def register(self, kind: type) -> None:
        assert Known.active is self, "Spark would look into another session, and find it there"
        self.formats.append(kind)


@pytest.mark.parametrize("in_a_zip", [True, False])
def test_the_session_of_a_stage_knows_our_format_however_we_came(
    in_a_zip: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where we are installed: Spark does not see an install that is an import hook."""
    monkeypatch.setattr(sparksession, "_in_a_zip", lambda: in_a_zip)
    monkeypatch.setattr(Known, "active", None)
    assert sparksession.session_beside(Known()).formats == [Kafka08DataSource]
