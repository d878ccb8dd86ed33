"""The mirror as a service on real clusters: its log in the journal, what systemd hears, reloads under load."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from kazoo.security import make_digest_acl_credential

from localkafka import tools
from localkafka.client import ClusterClient
from localkafka.load import Load
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from tests import children
from tests.conftest import Unique
from tests.integration.mirroring import KEYED, PLAIN_ONLY, Mirror, filled
from tests.terminals import leave, terminal

pytestmark = pytest.mark.real


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


def test_check_online_says_releases_and_which_messages_are_too_large(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    source.create_topic(topic, 1, config={"max.message.bytes": 3_000_000})
    target.create_topic(topic, 1, config={"max.message.bytes": 2_000_000})
    mirror = Mirror(tmp_path, source, target, unique.group(), topic)
    command = [str(COMMAND), "check", "--online", str(mirror.file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for who in ("source dc1", "target"):
        said = [line for line in done.stderr.splitlines() if line.startswith(f"{who}: broker 0 ")]
        assert len(said) == 1
        assert said[0].endswith(": Kafka 0.8.0 or 0.8.1 or 0.8.2, used as 0.8.2")
    assert (
        f"warning: source dc1: topic {topic}: max.message.bytes is 3000000 there, and max.message.bytes of target "
        f"topic {topic} 2000000: "
    ) in done.stderr


class Traffic:
    """Messages that keep coming, to some topics of one partition count, until the end of the block."""

    def __init__(self, load: Load, topics: list[str], partitions: int) -> None:
        self._load, self._topics, self._partitions = load, topics, partitions
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ending.wait(0.02):
            for topic in self._topics:
                self._load.produce(topic, self._partitions, 40, KEYED)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self._thread.join()


def payloads(cluster: ClusterClient, topic: str, partitions: int) -> Counter[str | None]:
    found = tools.dump_topic(cluster, topic, range(partitions))
    return Counter(row.payload for rows in found.values() for row in rows)


def test_a_mirror_goes_on_when_its_terminal_went_away_and_stops_in_order(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 2}, 100, PLAIN_ONLY)
    mirror = Mirror(tmp_path, source, target, unique.group(), topic)
    env = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with terminal() as (stream, window):
        os.set_blocking(window, False)
        seen = bytearray()

        def shown() -> bytes:
            with suppress(BlockingIOError):
                seen.extend(os.read(window, 1 << 16))
            return bytes(seen)

        with children.started([COMMAND, "run", mirror.file], stderr=stream, env=env) as process:
            wait_until(lambda: b"msg/s, " in shown(), 40, lambda: f"a status line: {shown().decode()}")
            wait_until(lambda: bool(shown()) and mirror.arrived(topic) == 100, 40, "all to be mirrored")
            leave(window)
            load.produce(topic, 2, 100, PLAIN_ONLY)
            wait_until(lambda: mirror.arrived(topic) == 200, 40, lambda: f"the mirror to go on: {process.poll()}")
            time.sleep(1.5)  # three status lines
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    assert sum(mirror.committed([topic]).values()) == 200


def test_a_reload_under_load_changes_topics_and_names_and_loses_and_repeats_nothing(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    kept, gone, new, renamed = topics = [unique.topic(name) for name in ("kept", "gone", "new", "renamed")]
    load = filled(source, dict.fromkeys(topics, 2), 100, KEYED)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(0.5)
        mirror = Mirror(tmp_path, source, target, unique.group(), f"{kept}|{gone}|{renamed}")
        mirror.env({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        first = yaml.safe_load(mirror.file.read_text())
        second = yaml.safe_load(mirror.file.read_text())
        second["mirror"] |= {"whitelist": f"{kept}|{new}|{renamed}", "topic.rename": {renamed: f"{renamed}.2"}}
        with mirror:
            with Traffic(load, topics, 2):
                reloaded_under_load(mirror, kept, gone, new, renamed, (first, second))
            told = heard(manager)
            mirror.wait_all_committed([kept, gone, renamed])
            assert mirror.stop()[0] == 0, mirror.said()
    reloads = [told[n : n + 2] for n, lines in enumerate(told) if "RELOADING=1" in lines]
    assert len(reloads) == 3
    assert all("MONOTONIC_USEC=" in began for began, _ in reloads)
    assert "the last reload failed: the configuration is left as it is: " in reloads[0][1]
    assert all(ended.startswith(f"READY=1\nSTATUS={mirror.file.stem}: reloaded; ") for _, ended in reloads[1:])
    assert payloads(target, kept, 2) == payloads(source, kept, 2)
    assert payloads(target, gone, 2) == payloads(source, gone, 2)
    assert payloads(target, renamed, 2) + payloads(target, f"{renamed}.2", 2) == payloads(source, renamed, 2)
    assert set(payloads(target, new, 2).values()) == {1}


def reloaded_under_load(
    mirror: Mirror, kept: str, gone: str, new: str, renamed: str, files: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    """A wrong file, the second of two, and back to the first; each seen to have its effect."""
    first, second = files
    for topic in (kept, gone, renamed):
        mirror.wait_arrived(topic, 200)
    mirror.file.write_text("mirror: {whitelist: (}\n")
    mirror.signal(signal.SIGHUP)
    mirror.wait_said("event=reload-failed")
    mirror.file.write_text(yaml.safe_dump(second))
    mirror.signal(signal.SIGHUP)
    mirror.wait_said("event=reload-ok")
    mirror.wait_arrived(new, 200)
    mirror.wait_arrived(f"{renamed}.2", 100)
    mirror.wait_arrived(kept, mirror.arrived(kept) + 200)
    there = mirror.arrived(gone)
    assert kept not in "".join(line for line in mirror.said().splitlines() if "event=released" in line)
    assert mirror.arrived(gone) == there
    mirror.file.write_text(yaml.safe_dump(first))  # and back, as it was
    mirror.signal(signal.SIGHUP)
    mirror.wait_for(lambda: mirror.said().count("event=reload-ok") == 2, "the second reload")
    mirror.wait_arrived(gone, there + 200)
    mirror.wait_arrived(renamed, mirror.arrived(renamed) + 100)


def heard(manager: socket.socket) -> list[str]:
    """What systemd has heard so far, but for status lines.  A reload's end is in the log before it is told."""
    found: list[str] = []
    until = time.monotonic() + 20
    while True:
        try:
            lines = manager.recv(4096).decode()
        except TimeoutError:
            if not found or "RELOADING=1" not in found[-1] or time.monotonic() > until:
                return found
            continue
        if not lines.startswith("STATUS="):
            found.append(lines)
