"""A real mirror over HTTP: metrics, health, the status page in a real Chromium, the commands of its page, its end."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from localkafka import ports
from localkafka.client import ClusterClient
from localkafka.mirror import COMMAND
from tests.browser import Browser, chromium
from tests.conftest import Unique
from tests.integration.mirroring import PLAIN_ONLY, Mirror, filled
from tests.mirrormaker.test_status_page import ROWS, picture, row

pytestmark = pytest.mark.real

DOCS = Path(__file__).resolve().parents[2] / "docs"
HANDLER = """
def first_400(message):
    if "parks" in message.topic and message.offset >= 400:
        raise ValueError("<script>window.attacked = 1</script>")
    return message
"""


@pytest.fixture
def port() -> int:
    reserved = ports.reserve()
    number = reserved.number
    reserved.release()
    return number


def get(port: int, path: str) -> tuple[int, str]:
    """Status and text."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def answers(port: int, path: str) -> bool:
    try:
        return get(port, path)[0] == 200
    except OSError:
        return False


def status(port: int) -> Any:
    return json.loads(get(port, "/status")[1])


def metrics(port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    _, text = get(port, "/metrics")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_health_and_status_of_a_mirror_from_its_start_to_its_end(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, port: int
) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 2}, 500, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), topic, {"http.listen": port}) as mirror:
        mirror.wait_for(lambda: answers(port, "/livez"), "it to listen")
        mirror.wait_for(lambda: answers(port, "/readyz"), "it to be ready")
        mirror.wait_arrived(topic, 500)
        mirror.wait_all_committed([topic])
        mirror.wait_for(lambda: status(port)["messages"] == 500, "the report to count 500 messages")
        found = status(port)
        assert (found["ready"], found["release"], [one["state"] for one in found["sources"]]) == (
            True,
            "0.1.0",
            ["running"],
        )
        assert sum(one["done"] for one in found["partitions"]) == 500
        before = metrics(port)
        assert before["mirrormaker_acked_messages_total", ()] == 500
        assert before["mirrormaker_ready", ()] == 1
        assert before["mirrormaker_rebalances_total", (("source", "dc1"),)] >= 1
        load.produce(topic, 2, 250, PLAIN_ONLY)
        mirror.wait_arrived(topic, 750)
        mirror.wait_all_committed([topic])
        mirror.wait_for(lambda: metrics(port)["mirrormaker_acked_messages_total", ()] == 750, "it to count 750")
        after = metrics(port)
        for name, labels in before:
            if name.endswith("_total") and name.startswith("mirrormaker_"):
                assert after[name, labels] >= before[name, labels], name
        committed = "mirrormaker_last_commit_timestamp_seconds", (("source", "dc1"),)
        assert after[committed] > before[committed]
        offsets = {
            name: sum(value for (sample, _), value in after.items() if sample == f"mirrormaker_{name}")
            for name in ("acked_offset", "committed_offset", "source_end_offset", "lag_messages")
        }
        assert offsets == {"acked_offset": 750, "committed_offset": 750, "source_end_offset": 750, "lag_messages": 0}
        for command in curls_of_the_page(port):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, command
            assert done.stdout
        assert mirror.stop()[0] == 0, mirror.said()
    with pytest.raises(OSError):
        get(port, "/livez")


def curls_of_the_page(port: int) -> list[list[str]]:
    """The commands of docs/monitoring.md that ask the mirror, for this port."""
    if shutil.which("curl") is None:
        return []
    page = (DOCS / "monitoring.md").read_text(encoding="utf-8")
    lines = re.findall(r"^(curl -s http://127\.0\.0\.1:9308/\S*)", page, re.MULTILINE)
    assert len(lines) >= 3
    return [shlex.split(line.replace("9308", str(port))) for line in lines]


def test_a_port_that_is_taken_ends_the_start_with_78_and_a_sentence(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = {"http.listen": taken.getsockname()[1]}
        with Mirror(tmp_path, source, target, unique.group(), unique.topic(), settings) as mirror:
            assert mirror.exit_code(30) == 78, mirror.said()
    assert (
        f"http.listen=127.0.0.1:{settings['http.listen']}: cannot listen there: Address already in use" in mirror.said()
    )
    assert "Traceback" not in mirror.said()


@pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine (chromium-headless-shell)")
def test_the_status_page_of_a_live_mirror(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, port: int
) -> None:
    """Partitions appear, a chart moves, a parked one says why and comes first, at both widths; then it is killed."""
    (tmp_path / "refusing.py").write_text(HANDLER)
    topic, bad = unique.topic("flows"), unique.topic("parks")
    load = filled(source, {topic: 3, bad: 1}, 400, PLAIN_ONLY)
    settings = {"http.listen": port, "message.handler": "refusing:first_400", "parked.retry.ms": 0}
    env = {"PYTHONPATH": str(tmp_path), "RUNTIME_DIRECTORY": str(tmp_path)}
    with (
        Browser(tmp_path) as browser,
        Mirror(tmp_path, source, target, unique.group(), f"{topic},{bad}", settings, env=env) as mirror,
    ):
        mirror.wait_for(lambda: answers(port, "/readyz"), "it to be ready")
        browser.open(f"http://127.0.0.1:{port}/", width=1600)
        browser.until(f"{ROWS} === 4")
        browser.until("document.getElementById('verdict').className === 'verdict good'")
        points = f"{row(f'{topic}/0')}.querySelectorAll('svg polyline')[1].getAttribute('points')"
        still = browser.until(points)
        load.produce(topic, 3, 3000, PLAIN_ONLY)
        browser.until(f"({points}) !== {json.dumps(still)}")
        browser.until("document.querySelector('#tiles dd').textContent.trim() !== '0 acknowledged'")
        load.produce(bad, 1, 1, PLAIN_ONLY)
        browser.until("document.getElementById('verdict').textContent === '1 parked'")
        browser.until(f"document.querySelector('#partitions tr strong').textContent === '{bad}/0'")
        reason = browser.value("document.querySelector('#partitions tr .reason').textContent")
        assert "message.handler refusing:first_400 raised ValueError: <script>window.attacked" in reason
        pause = [str(COMMAND), "pause", str(mirror.file), f"{topic}:1"]
        subprocess.run(pause, env={**os.environ, **env}, check=True, capture_output=True, timeout=60)
        paused = f"{row(f'{topic}/1')}.querySelector('.reason').textContent"
        assert browser.until(paused).startswith("paused by operator since ")
        assert browser.value(f"{row(f'{topic}/1')}.rowIndex") == 2, "behind the parked one, before what flows"
        picture(browser, "live-1600")
        browser.resize(400)
        assert browser.value("document.documentElement.scrollWidth") <= 400
        assert browser.value("getComputedStyle(document.querySelector('#partitions td.wide')).display") == "none"
        picture(browser, "live-400")
        assert browser.value("window.attacked") is None
        assert browser.messages == []
        mirror.kill()
        browser.until("document.getElementById('verdict').textContent.startsWith('The mirror has not answered since')")
