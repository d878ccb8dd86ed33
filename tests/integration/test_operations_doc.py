"""Commands for a running mirror that the pages of a mirror show: run as they stand there, in their order."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka import ports
from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.docpages import text_of
from tests.integration.mirroring import PLAIN_ONLY, Mirror, filled
from tests.integration.sparktopics import produce

PAGES = ("mirror.md", "mirror-data.md", "offset-map.md", "exactly-once.md", "monitoring.md", "operations.md")
FILE, ADDRESS = "orders.yaml", "127.0.0.1:9308"
KINDS = ("check", "status", "topics", "pause", "resume", "throttle", "parked", "set-log-level", "verify")
SHOWN = re.compile(rf"^(?:mirrormaker (?:{'|'.join(KINDS)}) {FILE}|mirrormaker parked \w+ {FILE}|curl -s ).*$", re.M)
LACKING = 4  # of verify: what `parked release --execute` of the page left out before it is missing in the target


def shown() -> list[str]:
    """The commands of the pages, without what they say behind them, each where it stands last: on the first screen of
    a page is what a later section explains."""
    found = [re.split(r"\s+# ", line)[0] for line in SHOWN.findall("\n".join(map(text_of, PAGES)))]
    return [command for at, command in enumerate(found) if command not in found[at + 1 :]]


def test_the_page_shows_commands_of_each_kind() -> None:
    assert {command.split()[1] for command in shown() if command.startswith("mirrormaker")} == set(KINDS)
    assert sum(command.startswith("curl") for command in shown()) == 3


@pytest.mark.real
def test_each_command_does_what_the_page_says(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    clicks, payments = unique.topic("clicks"), unique.topic("pay")
    folders = {"RUNTIME_DIRECTORY": tmp_path / "run", "STATE_DIRECTORY": tmp_path / "state"}
    for folder in folders.values():
        folder.mkdir()
    env = {name: str(folder) for name, folder in folders.items()}
    target.create_topic(clicks, 4, config={"max.message.bytes": "20000"})
    filled(source, {payments: 1, clicks: 4}, 100, PLAIN_ONLY)
    produce(source, TopicPartition(clicks, 3), [(None, b"large" * 6_000)])
    reserved = ports.reserve()
    reserved.release()
    more = {"http.listen": reserved.number, "offset.commit.interval.ms": 200}
    with Mirror(tmp_path, source, target, unique.group(), f"{clicks},{payments}", more, env=env) as mirror:
        mirror.wait_said(f"parked 1: {clicks}/3")
        here = f"127.0.0.1:{reserved.number}"
        names = {FILE: str(mirror.file), "clicks": clicks, "pay.*": f"{payments}.*", ADDRESS: here}
        of_the_page = re.compile("|".join(map(re.escape, names)))
        released = False
        for command in shown():
            words = [of_the_page.sub(lambda found: names[found[0]], word) for word in shlex.split(command)]
            if words[0] == "curl":
                assert answer(words[2])
            elif "--watch" in words:
                watched([str(COMMAND), *words[1:]], env, tmp_path / "watch.log")
            else:
                done = subprocess.run(
                    [str(COMMAND), *words[1:]], env={**os.environ, **env}, capture_output=True, text=True, timeout=120
                )
                expected = LACKING if words[1] == "verify" and "--topics" not in words and released else 0
                assert done.returncode == expected, (command, done.stdout, done.stderr, mirror.said())
                released = released or (words[1:3] == ["parked", "release"] and "--execute" in words)
        assert mirror.stop()[0] == 0


def answer(url: str) -> str:
    """What is answered, whatever its status: /readyz may say why it is not ready."""
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.read().decode()


def watched(argv: list[str], env: dict[str, str], log: Path) -> None:
    """Two looks of a watch, then ctrl-C."""
    child = Child("the watch", argv, log, env=env)
    try:
        wait_until(lambda: log.exists() and log.read_text().count(" into ") >= 2, 30, "two looks")
        child.send(signal.SIGINT)
        assert child.wait(20) in (0, 130), log.read_text()
    finally:
        child.close()
