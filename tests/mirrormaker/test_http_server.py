"""What the HTTP server of a mirror answers: health, status, history, the page and its policy."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import logging
import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from groundwork.httpserver import Request, Response
from groundwork.loopdelay import HubLag
from groundwork.tasks import TaskGroup, connect, sleep
from mirrormaker.attention import view
from mirrormaker.http import server as module
from mirrormaker.http.server import MAX_PARTITIONS, POINTS, History, StatusServer, page, policy
from mirrormaker.listen import Address, listen_address, unsafe
from mirrormaker.report import MirrorReport, ProduceReport, ReloadReport, as_json
from tests.fakes.reports import STARTED_MS, happening, partition, report, source


def asked(server: StatusServer, path: str) -> Response:
    return server.answer(Request("GET", path, {}))


def showing(make: Callable[[], MirrorReport], tasks: TaskGroup) -> StatusServer:
    return StatusServer(make, HubLag("the mirror", 1e9), tasks)


def test_paths(tasks: TaskGroup) -> None:
    server = showing(report, tasks)
    assert (asked(server, "/livez").status, asked(server, "/livez").body) == (200, b"alive\n")
    assert (asked(server, "/readyz").status, asked(server, "/readyz").body) == (200, b"ready\n")
    assert json.loads(asked(server, "/status").body) == json.loads(json.dumps(view(report())))
    assert asked(server, "/status").content_type == "application/json"
    assert b"mirrormaker_ready 1.0" in asked(server, "/metrics").body
    assert asked(server, "/").content_type == "text/html; charset=utf-8"
    assert asked(server, "/nothing").status == 404
    assert asked(server, "/metrics/").status == 404


def test_readiness_says_each_reason_in_a_line(tasks: TaskGroup) -> None:
    reasons = ("source dc1 is joining", "target: broker 0:\n  Connection refused")
    got = asked(showing(lambda: report(not_ready=reasons), tasks), "/readyz")
    assert got.status == 503
    assert got.body.decode().splitlines() == ["source dc1 is joining", "target: broker 0: Connection refused"]


def test_a_mirror_that_is_not_ready_is_alive(tasks: TaskGroup) -> None:
    assert asked(showing(lambda: report(not_ready=("no",)), tasks), "/livez").status == 200


def test_a_report_is_made_once_however_many_ask(tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MirrorReport] = []

    def make() -> MirrorReport:
        made.append(report())
        return made[-1]

    at = [100.0]
    monkeypatch.setattr(module, "now", lambda: at[0])
    server = showing(make, tasks)
    for path in ("/status", "/metrics", "/readyz", "/status"):
        asked(server, path)
    assert len(made) == 1
    at[0] += 1
    asked(server, "/status")
    assert len(made) == 2


def fetched(url: str, path: str) -> bytes:
    host, port = url.removeprefix("http://").rstrip("/").rsplit(":", 1)
    with closing(connect((host.strip("[]"), int(port)), 20)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        received = b""
        while more := connection.recv(65536):
            received += more
    return received


def test_it_listens_and_keeps_a_history(tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_S", 0.02)
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    server = showing(report, tasks)
    url = server.start(Address("127.0.0.1", 0))
    assert fetched(url, "/livez").endswith(b"\r\n\r\nalive\n")
    while len(json.loads(asked(server, "/history").body)["at_ms"]) < 3:
        sleep(0.02)
    server.close()
    sleep(0.05)
    with pytest.raises(OSError):
        fetched(url, "/livez")


def test_a_report_that_cannot_be_made_ends_nothing(
    tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "STEP_S", 0.02)
    broken = [True]

    def make() -> MirrorReport:
        if broken[0]:
            raise RuntimeError("half built")
        return report()

    server = showing(make, tasks)
    with caplog.at_level(logging.ERROR):
        url = server.start(Address("127.0.0.1", 0))
        assert fetched(url, "/status").startswith(b"HTTP/1.1 500 ")
        assert fetched(url, "/livez").startswith(b"HTTP/1.1 200 ")
    assert "half built" in caplog.text
    broken[0] = False
    assert fetched(url, "/status").startswith(b"HTTP/1.1 200 ")
    while not json.loads(asked(server, "/history").body)["at_ms"]:
        sleep(0.02)


# ---- history ----------------------------------------------------------------------------------------------------


def test_history_keeps_the_newest_points_of_what_is_owned() -> None:
    history = History()
    for n in range(POINTS + 5):
        rows = [partition(0, lag=n, messages_per_s=2.0 * n)]
        if n >= POINTS:
            rows.append(partition(1, lag=None))
        history.add(report(at_ms=STARTED_MS + n, partitions=tuple(rows), sources=(source(lag=n),)))
    found: dict[str, Any] = json.loads(json.dumps(history.as_json()))
    assert found["at_ms"] == [STARTED_MS + n for n in range(5, POINTS + 5)]
    assert found["mirror"][-1] == [POINTS + 4, 120.0, 12_000.0]
    points = {tuple(row[:3]): row[3] for row in found["partitions"]}
    assert points["dc1", "orders", "0"] == [[n, 2.0 * n] for n in range(5, POINTS + 5)]
    assert points["dc1", "orders", "1"] == [None] * (POINTS - 5) + [[None, 120.0]] * 5
    history.add(report(partitions=()))
    assert history.as_json()["partitions"] == []


def test_history_of_very_many_partitions_is_that_of_the_mirror() -> None:
    history = History()
    history.add(report(partitions=tuple(partition(n) for n in range(MAX_PARTITIONS + 1))))
    assert history.as_json()["partitions"] == []
    assert len(history.as_json()["mirror"]) == 1


def test_the_lag_of_a_mirror_is_unknown_where_a_source_does_not_know_it() -> None:
    history = History()
    for sources in (
        (source(lag=3), source(name="b", lag=4)),
        (source(lag=3), source(name="b", lag=None)),
        (source(lag=3), source(name="old", lag=4096, lag_unit="bytes")),
        (source(lag=4096, lag_unit="bytes"),),
    ):
        history.add(report(sources=sources))
    assert [point[0] for point in history.as_json()["mirror"]] == [7, None, 3, 4096]


# ---- the page ---------------------------------------------------------------------------------------------------


def test_the_page_loads_nothing_from_elsewhere_and_allows_only_its_own_style_and_script() -> None:
    html = page().body.decode()
    allowed = page().headers["Content-Security-Policy"]
    assert "default-src 'none'" in allowed
    assert "unsafe" not in allowed
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", html)
    assert not re.search(r"@import|url\(", html)
    assert not re.search(r"""\s(?:style|on\w+)=["']""", html), "the policy would refuse it"
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", html)
    for tag in ("style", "script"):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert len(texts) == 1
        digest = base64.b64encode(hashlib.sha256(texts[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in allowed
    assert "'sha256-" in policy("<style>a</style><script>b</script>")


# ---- the option -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "address"),
    [
        (9308, ("127.0.0.1", 9308)),
        ("9308", ("127.0.0.1", 9308)),
        (":9308", ("127.0.0.1", 9308)),
        ("localhost:9308", ("localhost", 9308)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:9308", ("::1", 9308)),
    ],
)
def test_addresses(raw: object, address: tuple[str, int]) -> None:
    assert listen_address(raw) == address


@pytest.mark.parametrize("raw", ["", "localhost", "localhost:", "host:0", "host:65536", "::1:9308", True, "a:b", 0])
def test_what_is_no_address(raw: object) -> None:
    with pytest.raises(ValueError, match="host:port"):
        listen_address(raw)


def test_an_address_that_others_reach_is_named_as_unsafe() -> None:
    for local in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        assert unsafe(Address(local, 9308)) == ""
    assert "http.listen=0.0.0.0:9308: its clients read" in unsafe(Address("0.0.0.0", 9308))
    assert "http.listen=[::]:9308" in unsafe(Address("::", 9308))


# ---- the report as JSON -----------------------------------------------------------------------------------------


def test_the_report_as_json_has_every_field_and_rows_as_objects() -> None:
    shown = report(
        left_out={("dc1", "orders", "skip"): 3},
        gaps={("dc1", "orders"): 4},
        reload=ReloadReport(at_ms=5, problem="line 3"),
        produced=ProduceReport(requests=1, retries=0, unknown_outcomes=0, errors={6: 2}),
        not_ready=("it is stopping",),
        happenings=(happening("parked"),),
        sources=(source(merged=("a", "b")),),
    )
    found = json.loads(json.dumps(as_json(shown)))
    assert found.keys() == {field.name for field in dataclasses.fields(MirrorReport)} | {"ready"}
    assert found["partitions"] == [dataclasses.asdict(partition())]
    assert found["sources"][0]["merged"] == ["a", "b"]
    assert found["left_out"] == [{"source": "dc1", "topic": "orders", "reason": "skip", "messages": 3}]
    assert found["gaps"] == [{"source": "dc1", "topic": "orders", "missing": 4}]
    assert found["reload"] == {"at_ms": 5, "problem": "line 3", "pending": []}
    assert found["produced"]["errors"] == {"6": 2}
    assert (found["ready"], found["not_ready"]) == (False, ["it is stopping"])
    assert found["happenings"][0]["text"] == "parked"


# ---- contrast ---------------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for(scheme: str) -> None:
    light, dark = re.findall(r":root \{(.*?)\}", page().body.decode(), re.DOTALL)[:2]
    colours = dict(re.findall(r"--([\w-]+): (#\w+);", light if scheme == "light" else dark))
    pairs = [(text, back) for text in ("text", "soft", "link", "warn", "bad") for back in ("back", "card")]
    pairs += [(word, f"{word}-back") for word in ("bad", "warn", "good")]
    for text, back in pairs:
        lighter, darker = sorted((luminance(colours[text]), luminance(colours[back])), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (text, back)
