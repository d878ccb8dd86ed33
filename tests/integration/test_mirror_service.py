"""The mirror as a service on real clusters: its log in the journal, what systemd hears, reloads under load."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kazoo.security import make_digest_acl_credential

from localkafka.client import ClusterClient
from tests.conftest import Unique
from tests.integration.mirroring import PLAIN_ONLY, Mirror, close_loads, filled

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def loads_end_with_their_test() -> Iterator[None]:
    yield
    close_loads()


def journal_of(mirror: Mirror) -> dict[str, str]:
    """The variable by which a program knows that its standard error is the journal: here the log file of the mirror."""
    mirror.log.touch()
    stat = mirror.log.stat()
    return {"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}


def test_each_line_of_the_journal_is_json_with_a_priority_and_what_happened_has_a_name(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    filled(source, {topic: 2}, 100, PLAIN_ONLY)
    mirror = Mirror(tmp_path, source, target, unique.group(), topic, {"log.format": "json", "log.level": "debug"})
    mirror.env(journal_of(mirror))
    with mirror:
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0, mirror.said()
    lines = [re.fullmatch(r"<([2-7])>(\{.*\})", line) for line in mirror.said().splitlines()]
    assert all(lines), mirror.said()
    records: list[dict[str, Any]] = [json.loads(line[2]) for line in lines if line]
    priority = {"debug": "7", "info": "6", "warning": "4", "error": "3", "critical": "2"}
    assert [line[1] for line in lines if line] == [priority[record["level"]] for record in records]
    events = [record["event"] for record in records if "event" in record]
    order = ["owned", "started", "stopping", "released", "stopped"]
    assert [event for event in events if event in order] == order
    begun = [record for record in records if record.get("event") == "start"]
    assert sorted((r["source"], r["topic"], r["partition"], r["offset"]) for r in begun) == [
        ("dc1", topic, 0, 0),
        ("dc1", topic, 1, 0),
    ]
    assert "debug" in {record["level"] for record in records}


def test_credentials_of_systemd_are_what_zookeeper_is_shown(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group()
    filled(source, {topic: 1}, 10, PLAIN_ONLY)
    (tmp_path / "zk").write_text("digest:mirror:s3cret\n")
    mirror = Mirror(tmp_path, source, target, group, topic, env={"CREDENTIALS_DIRECTORY": str(tmp_path)})
    settings = yaml.safe_load(mirror.file.read_text())
    settings["sources"][0] |= {"zookeeper.auth": "credential:zk", "zookeeper.set.acl": True}
    mirror.file.write_text(yaml.safe_dump(settings))
    with mirror:
        mirror.wait_all_committed([topic])
        acls, _ = source.registry().zk.get_acls(f"/consumers/{group}/offsets/{topic}/0")
        assert mirror.stop()[0] == 0, mirror.said()
    who = make_digest_acl_credential("mirror", "s3cret")
    assert {(acl.id.scheme, acl.id.id) for acl in acls} == {("digest", who), ("world", "anyone")}
    assert "s3cret" not in mirror.said()
