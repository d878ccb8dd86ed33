"""One run of a mirror whose handler quotes messages, under umask 0: what it says, writes and listens at."""

from __future__ import annotations

import json
import os
import secrets
import signal
import stat
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka import ports
from localkafka.client import ClusterClient
from localkafka.mirror import COMMAND
from tests.conftest import Unique
from tests.integration.badlogs import letters
from tests.integration.mirroring import Mirror
from tests.integration.sparktopics import produce
from tests.security.test_listeners import listening

pytestmark = pytest.mark.real

ROOT = str(Path(__file__).parents[2])
PIECE = 8  # so many bytes in a row of a message are in nothing that is shown


class MirrorOfUmask0(Mirror):
    def start(self) -> MirrorOfUmask0:
        before = os.umask(0)
        try:
            super().start()
        finally:
            os.umask(before)
        return self


def test_nothing_of_a_message_is_shown_and_nothing_of_the_mirror_is_for_others(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    token = secrets.token_hex(16)
    parked, lettered, dead = unique.topic("parked"), unique.topic("lettered"), unique.topic("dead")
    key, poison, number = f"key-{token}".encode(), f"poison {token}".encode(), f"number {token}".encode()
    for topic in (parked, lettered):
        source.create_topic(topic, 1)
        produce(source, TopicPartition(topic, 0), [(key, f"fine {token}".encode()), (key, poison), (key, number)])
    folders = {"RUNTIME_DIRECTORY": tmp_path / "run", "STATE_DIRECTORY": tmp_path / "state"}
    for folder in folders.values():
        folder.mkdir(mode=0o700)
    env = {name: str(folder) for name, folder in folders.items()} | {"PYTHONPATH": ROOT}
    reserved = ports.reserve()
    port = reserved.number
    reserved.release()
    settings = {
        "message.handler": "tests.integration.hooks:quotes", "dead.letter.topic": dead, "http.listen": port,
        "state.folder": str(tmp_path / "state"), "log.level": "debug", "parked.retry.ms": 300,
        "topic.overrides": [{"topics": lettered, "handler.error.policy": "dead-letter"}],
    }  # fmt: skip
    shown = []
    with MirrorOfUmask0(tmp_path, source, target, unique.group(), f".*{unique.tag}", settings, env=env) as mirror:
        mirror.wait_said(
            f"parked 1: {parked}/0 at 1: message.handler tests.integration.hooks:quotes raised ValueError: "
        )
        mirror.wait_for(lambda: mirror.committed([lettered])[TopicPartition(lettered, 0)] == 3, "letters for both")
        for path in ("", "status", "metrics", "history", "readyz", "nothing"):
            shown.append(answer(f"http://127.0.0.1:{port}/{path}"))
        for words in (["status"], ["status", "-o", "json"], ["topics"], ["parked"], ["pause", "--keep"]):
            name, more = words[0], words[1:]
            argument = [parked, *more] if name == "pause" else more
            done = subprocess.run(
                [str(COMMAND), name, str(mirror.file), *argument],
                env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (words, done.stderr)
            shown.append(done.stdout + done.stderr)
        for number_of, says in ((signal.SIGUSR1, "not acknowledged"), (signal.SIGQUIT, "Thread")):
            mirror.signal(number_of)
            mirror.wait_said(says)
        assert set(listening(mirror.pid)) == {"127.0.0.1"}
        made = {path.relative_to(tmp_path).as_posix(): path.lstat() for path in tmp_path.rglob("*")}
        assert mirror.stop()[0] == 0
    said = mirror.said()
    assert said.count("Traceback (most recent call last):") >= 2
    assert "raised ValueError: cannot read b'" in said
    assert json.loads(shown[1])["partitions"]
    for text in (said, *shown):
        for secret in (token, token.encode().hex()):
            for at in range(len(secret) - PIECE + 1):
                assert secret[at : at + PIECE] not in text, text[max(0, text.find(secret[at : at + PIECE]) - 300) :][
                    :600
                ]
    found = letters(target, dead, [lettered])
    assert [letter.data for letter in found] == [poison, number]  # what a dead letter is for
    assert not any(token in letter.reason for letter in found)
    for name, status in made.items():
        mode = stat.S_IMODE(status.st_mode)
        if name.startswith(("run/", "state/")):
            others = 0o044 if name.endswith(".offsetmap") else 0
            assert mode & 0o077 == others, f"{name}: {mode:04o}"
    assert {"state/limits.json", "state/dc1.offsetmap", "state/dc1.offsetmap.lock"} <= made.keys()
    assert any(stat.S_ISSOCK(status.st_mode) for status in made.values())


def answer(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.read().decode()


def test_what_a_consumer_says_beside_its_messages_holds_none_of_them(
    source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    token, topic = secrets.token_hex(16), unique.topic()
    source.create_topic(topic, 1)
    produce(source, TopicPartition(topic, 0), [(b"k", f"fine {token}".encode()), (b"k", b"\xff\x00" + token.encode())])
    done = subprocess.run(
        [str(COMMAND.with_name("zkconsumer")), "consume", "--topic", topic, "-z", source.zookeeper,
         "--from-beginning", "--max-messages", "2"],
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert token.encode() in done.stdout
    assert token.encode() not in done.stderr
