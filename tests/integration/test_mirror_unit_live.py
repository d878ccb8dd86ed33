"""The unit that is shipped, under a real systemd: ready, reloaded, watched, stopped, and each exit code answered."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from localkafka.client import ClusterClient, log_end_offsets
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import PLAIN_ONLY, filled
from tests.integration.realsystemd import CONFIGURATION, RealSystemd, why_not

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("mirrormaker")
UNIT = "mirrormaker@orders"


def unit(log: Path, **settings: object) -> str:
    """The shipped unit with this environment's command, which may lie in a home; settings come last and so count."""
    text = (ROOT / "systemd" / "mirrormaker@.service").read_text().replace("/usr/local/bin/mirrormaker", str(COMMAND))
    text = text.replace("/etc/mirrormaker/%i.yaml", f"{CONFIGURATION}/%i.yaml")
    ours = {"ConfigurationDirectory": "", "DynamicUser": "no"}
    ours |= {"ProtectHome": "no", "ProtectSystem": "no", "PrivateTmp": "no"}
    ours |= {"StandardOutput": f"append:{log}", "StandardError": f"append:{log}"}
    lines = "".join(f"{name}={value}\n" for name, value in {**ours, **settings}.items())
    return text.replace("\n[Install]\n", f"\n{lines}\n[Install]\n")


def configuration(source: ClusterClient, target: ClusterClient, group: str, topic: str, **mirror: object) -> str:
    return yaml.safe_dump(
        {
            "sources": [{"name": "dc1", "zookeeper.connect": source.zookeeper, "group.id": group}],
            "target": {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper},
            "mirror": {"whitelist": topic, "status.interval.ms": 300, **mirror},
        }
    )


@pytest.fixture(scope="module", autouse=True)
def systemd_can_run() -> None:
    if why := why_not():
        pytest.skip(f"no systemd of our own: {why}")


def test_the_unit_is_ready_reloaded_watched_and_stopped(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, log = unique.topic(), tmp_path / "log"
    filled(source, {topic: 1}, 100, PLAIN_ONLY)
    units = {"mirrormaker@.service": unit(log, WatchdogSec=3, RestartSec=1)}
    text = configuration(source, target, unique.group(), topic)
    with RealSystemd(tmp_path, units, {"orders.yaml": text}) as systemd:
        systemd.systemctl("start", UNIT)  # returns once the mirror says READY
        assert "event=started" in log.read_text()
        assert systemd.shown(UNIT, "ActiveState") == "active"
        wait_until(lambda: "1 partition" in systemd.shown(UNIT, "StatusText"), 20, "the status line")
        wait_until(lambda: sum(log_end_offsets(target, [topic]).values()) == 100, 20, "all to arrive")
        systemd.systemctl("reload", UNIT)
        wait_until(lambda: "event=reload-ok" in log.read_text(), 20, "the reload")
        wait_until(lambda: systemd.shown(UNIT, "ActiveState") == "active", 20, "the end of the reload")
        assert systemd.shown(UNIT, "NRestarts") == "0"
        systemd.systemctl("kill", "--signal=STOP", "--kill-whom=main", UNIT)  # no ping any more
        wait_until(lambda: systemd.shown(UNIT, "NRestarts") == "1", 40, "the watchdog")
        wait_until(lambda: systemd.shown(UNIT, "ActiveState") == "active", 60, "the restart")
        systemd.systemctl("stop", UNIT)
        assert (systemd.shown(UNIT, "ActiveState"), systemd.shown(UNIT, "Result")) == ("inactive", "success")
        assert systemd.shown(UNIT, "ExecMainStatus") == "0"
    assert log.read_text().count("event=stopped") == 1


@pytest.mark.parametrize(("code", "restarted"), [(78, False), (73, False), (69, True)])
def test_only_what_another_try_may_cure_is_restarted(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, code: int, restarted: bool
) -> None:
    topic, log = unique.topic(), tmp_path / "log"
    more = {78: {"whitelist": "("}, 73: {"offset.map.folder": "/nowhere"}, 69: {"start.timeout.ms": 500}}[code]
    text = configuration(source, target, unique.group(), topic, **more)
    if code == 69:
        text = text.replace(target.brokers, "127.0.0.1:1")
    units = {"mirrormaker@.service": unit(log, RestartSec=1)}
    with RealSystemd(tmp_path, units, {"orders.yaml": text}) as systemd:
        systemd.systemctl("start", UNIT, check=False)
        if restarted:
            wait_until(lambda: int(systemd.shown(UNIT, "NRestarts")) >= 1, 40, lambda: log.read_text())
            wait_until(lambda: systemd.shown(UNIT, "ExecMainStatus") == str(code), 40, lambda: log.read_text())
        else:
            wait_until(lambda: systemd.shown(UNIT, "ActiveState") == "failed", 40, lambda: log.read_text())
            assert systemd.shown(UNIT, "NRestarts") == "0"
            assert systemd.shown(UNIT, "ExecMainStatus") == str(code)
