"""What `mirrormaker run --profile-seconds` and `mirrormaker profile` call the bottleneck of mirrors that have one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.load import PLAIN, Mixture
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import Mirror, filled

pytestmark = pytest.mark.real

LARGE = Mixture(keyed=0.0, codecs=(PLAIN,), value_bytes=10_000)
SLOW = "import time\n\n\ndef handler(message):\n    time.sleep(0.005)\n    return message\n"


class Profiled(Mirror):
    """A mirror that takes a profile of its first seconds."""

    def begin(self, seconds: int) -> Profiled:
        command = [str(COMMAND), "run", "--profile-seconds", str(seconds), str(self.file)]
        self._child = Child("the mirror", command, self.log, env=self._env)
        return self

    def bottleneck(self) -> str:
        wait_until(lambda: "bottleneck: " in self.said(), 60, lambda: f"a profile; log\n{self.said()}")
        return next(line for line in self.said().splitlines() if line.startswith("bottleneck: "))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A folder for the control socket, as systemd gives it."""
    folder = tmp_path / "run"
    folder.mkdir()
    return {"RUNTIME_DIRECTORY": str(folder)}


def asked(mirror: Mirror, env: dict[str, str], seconds: int) -> str:
    """What `mirrormaker profile` says of a running mirror."""
    command = [str(COMMAND), "profile", str(mirror.file), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_slow_handler_is_named_and_the_mirror_goes_on(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, folder = unique.topic(), tmp_path / "code"
    folder.mkdir()
    (folder / "slow_of_profile.py").write_text(SLOW)
    filled(source, {topic: 2}, 2000, Mixture(keyed=0.0, codecs=(PLAIN,)))
    options = {"message.handler": "slow_of_profile:handler"}
    mirror = Profiled(tmp_path, source, target, unique.group(), topic, options, env={"PYTHONPATH": str(folder)})
    try:
        # The handler has ten seconds of work; on a slow machine the first set comes to it after three.
        assert mirror.begin(10).bottleneck().startswith("bottleneck: handler: "), mirror.said()
        mirror.wait_arrived(topic, 2000)
        assert mirror.stop()[0] == 0
    finally:
        mirror.close()


def test_a_slow_link_and_a_paused_target_are_named(
    own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path, env: dict[str, str]
) -> None:
    topic = unique.topic()
    source, target = own_cluster(brokers=1, proxied=True), own_cluster(brokers=1)
    load = filled(source, {topic: 2}, 4000, LARGE)  # 40 MB
    link = source.node(0).proxy
    with Mirror(tmp_path, source, target, unique.group(), topic, env=env) as mirror:
        mirror.wait_arrived(topic, 1)
        link.throttle(1_000_000)  # narrow
        assert "bottleneck: link: bytes are in transit" in (said := asked(mirror, env, 5)), said
        link.clear()
        mirror.wait_arrived(topic, 4000)
        wait_until(
            lambda: "bottleneck: source: the mirror has caught up" in asked(mirror, env, 1), 30, "it to catch up"
        )
        target.node(0).pause()
        load.produce(topic, 2, 400, LARGE)
        try:
            said = asked(mirror, env, 4)
        finally:
            target.node(0).resume()
        assert "bottleneck: target: no produce request was answered" in said
        mirror.wait_arrived(topic, 4400)
        assert mirror.stop()[0] == 0
