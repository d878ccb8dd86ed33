"""The status page in a real headless Chromium, with a mirror that does not exist behind the real server.

Set STATUS_PAGE_PICTURES to a folder for pictures of it.  With a real mirror: tests/integration/test_mirror_views.py.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.browser import Browser, chromium
from tests.children import started
from tests.mirrormaker.statuspage import PENDING

ROOT = Path(__file__).resolve().parents[2]
Serve = Callable[[int], tuple[str, "subprocess.Popen[str]"]]

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine (chromium-headless-shell)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as made:
        yield made


@pytest.fixture
def serve(browser: Browser) -> Iterator[Serve]:
    """Starts a program that serves a mirror of so many partitions; its URL, and the program."""
    browser.messages.clear()
    with ExitStack() as stack:

        def start(partitions: int) -> tuple[str, subprocess.Popen[str]]:
            command = [sys.executable, "-m", "tests.mirrormaker.statuspage", str(partitions)]
            process = stack.enter_context(started(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            return process.stdout.readline().strip(), process

        yield start
        browser.call("Page.navigate", url="about:blank")


WRONG = "1 parked, 1 looking for leader, 1 stalled, 3 without owner, 1 waiting, 1 paused, 1 throttled"
ROWS = "document.querySelectorAll('#partitions tr').length"


def row(name: str) -> str:
    rows = "[...document.querySelectorAll('#partitions tr')]"
    return f"{rows}.find(r => r.querySelector('strong').textContent === '{name}')"


def picture(browser: Browser, name: str) -> None:
    if folder := os.environ.get("STATUS_PAGE_PICTURES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.picture(Path(folder) / f"{name}.png")


@pytest.mark.parametrize(("width", "dark"), [(1600, False), (400, True)])
def test_it_shows_what_is_wrong_first_and_nothing_is_html(
    browser: Browser, serve: Serve, width: int, dark: bool
) -> None:
    url, _ = serve(24)
    browser.open(url, width=width, dark=dark)
    browser.until(f"{ROWS} === 24")
    assert browser.value("document.getElementById('verdict').className") == "verdict bad"
    assert browser.value("document.getElementById('verdict').textContent") == WRONG
    assert browser.value("document.title") == f"! {WRONG} – orders to kafka1:9092"
    assert browser.value("document.querySelector('h1').textContent") == "Mirror orders to kafka1:9092"
    first = browser.value("[...document.querySelectorAll('#partitions tr strong')].slice(0, 5).map(e => e.textContent)")
    in_order = ["orders-0/1", "orders-0/4", "orders-0/3", "orders-0/0", "orders-0/2"]
    assert first == in_order, "parked, stalled with its lag, no leader, paused, throttled"
    stalled = browser.value(f"{row('orders-0/4')}.querySelector('.state').className")
    assert stalled == "state warn", "never green while nothing arrives"
    assert "<script>window.attacked" in browser.value(f"{row('orders-0/1')}.querySelector('.reason').textContent")
    assert "paused by an operator since 12:01" in browser.value(f"{row('orders-0/0')}.textContent")
    reasons = browser.value("[...document.querySelectorAll('#reasons li')].map(e => e.textContent)")
    assert reasons[0].startswith("source dc1: 3 partitions have no owner in the group")
    assert reasons[1].startswith("source dc2-with-a-long-name: out of reach: ZooKeeper")
    assert any("target topic news <script>" in text for text in reasons)
    assert "limit: dc1: elsewhere: paused by operator since 11:00" in reasons
    assert f"pending: {PENDING}" in reasons
    assert sum("throttled to 1,000,000 B/s" in text for text in reasons) == 1, "its partition says so already"
    assert browser.value("window.attacked") is None
    assert browser.value("document.querySelectorAll('main script, main img').length") == 0
    assert browser.value("document.documentElement.scrollWidth") <= width, "the page does not scroll sideways"
    visible = "getComputedStyle(document.querySelector('{}')).display !== 'none'"
    assert browser.value(visible.format("#partitions td.wide")) == (width == 1600)
    assert browser.value(visible.format("#partitions .only-narrow")) == (width == 400)
    picture(browser, f"{width}")
    assert browser.messages == []


@pytest.mark.thorough
def test_charts_begin_with_what_the_server_kept_and_move(browser: Browser, serve: Serve) -> None:
    url, _ = serve(8)
    browser.open(url, width=1600)
    plot = "document.querySelector('#tiles .plot')"
    points = f"{row('orders-0/5')}?.querySelector('svg polyline').getAttribute('points')"
    before = browser.until(points)
    browser.until(f"({points}) !== '{before}'")
    assert browser.value(f"{row('orders-0/5')}.querySelector('svg').getAttribute('aria-label')").startswith(
        "lag of orders-0/5 in the last "
    )
    tile = "document.querySelector('#tiles svg polyline').getAttribute('points')"
    assert browser.value(tile).count(",") >= 2
    assert re.fullmatch(
        r"[\d,.]+ MB|[\d,.]+ kB|[\d,.]+ B|[\d,.]+", browser.value(f"{plot}.querySelector('.scale').textContent")
    )
    assert re.fullmatch(r"\d+ s|\d+ min \d+ s", browser.value(f"{plot}.querySelector('.ago').textContent"))


def test_a_chart_under_the_pointer_says_when_and_how_much(browser: Browser, serve: Serve) -> None:
    url, _ = serve(8)
    browser.open(url, width=1600)
    chart = "document.querySelector('#tiles svg')"
    browser.until(f"{chart}?.querySelector('polyline').getAttribute('points')")
    place = {side: browser.value(f"{chart}.getBoundingClientRect().{side}") for side in ("left", "right", "top")}
    x, y = (place["left"] + place["right"]) / 2, place["top"] + 5
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    tip = "document.getElementById('tip')"
    picture(browser, "chart")
    said = browser.until(f"!{tip}.hidden && {tip}.textContent")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: [\d,]+", said)
    assert browser.value(f"{chart}.querySelector('line').style.visibility") == "visible"
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    browser.until(f"{tip}.hidden")
    assert browser.messages == []


def test_all_times_are_the_mirror_s_with_their_dates(browser: Browser, serve: Serve) -> None:
    """The browser lives elsewhere; the mirror's local time is two hours east of UTC."""
    url, _ = serve(8)
    browser.call("Emulation.setTimezoneOverride", timezoneId="America/New_York")
    browser.open(url, width=1600)
    browser.until(f"{ROWS} === 8")
    found = browser.value(
        "(async () => { const r = await (await fetch('/status')).json(); return r.happenings[0].at_ms; })()"
    )
    local = datetime.fromtimestamp(found / 1000, UTC) + timedelta(hours=2)
    first = browser.value("document.querySelector('#events td').textContent")
    assert first == f"{local:%Y-%m-%d %H:%M:%S}"
    clock = browser.value("document.getElementById('clock').textContent")
    assert re.fullmatch(r"as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\+02:00", clock)
    browser.call("Emulation.setTimezoneOverride", timezoneId="")


def test_filter_and_order_stand_in_the_address(browser: Browser, serve: Serve) -> None:
    url, _ = serve(24)
    browser.open(f"{url}#filter=orders-0&sort=-name&held=1", width=1600)
    names = "[...document.querySelectorAll('#partitions tr strong')].map(e => e.textContent)"
    browser.until(f"{ROWS} === 5")
    assert browser.value(names) == [f"orders-0/{n}" for n in (4, 3, 2, 1, 0)]
    browser.value("document.getElementById('blocked').click()")
    header = "[...document.querySelectorAll('#columns th')].find(e => e.textContent === 'lag')"
    browser.value(f"{header}.querySelector('button').click()")
    assert browser.value("location.hash") == "#filter=orders-0&sort=-lag"
    browser.value("location.hash = ''")
    browser.until(f"{ROWS} === 24")
    assert browser.value("document.querySelector('#columns th[aria-sort]').textContent") == "state"
    assert browser.messages == []
    assert browser.messages == []


def test_filter_sort_and_keys(browser: Browser, serve: Serve) -> None:
    url, _ = serve(24)
    browser.open(url, width=1600)
    browser.until(f"{ROWS} === 24")
    filter_box = "document.getElementById('filter')"
    typed = f"{filter_box}.value = '{{}}'; {filter_box}.dispatchEvent(new Event('input'))"
    browser.value(typed.format("orders-1 dc2"))
    assert browser.value(ROWS) == 3
    assert browser.value("document.getElementById('shown').textContent") == "3 of 24"
    browser.value(typed.format("CONNECTION REFUSED"))
    assert browser.value(ROWS) == 1
    browser.value(typed.format(""))
    browser.value("document.getElementById('blocked').click()")
    assert browser.value(ROWS) == 5
    browser.value("document.getElementById('blocked').click()")
    names = "[...document.querySelectorAll('#partitions tr strong')].map(e => e.textContent)"
    header = "[...document.querySelectorAll('#columns th')].find(e => e.textContent === 'partition')"
    browser.value(f"{header}.querySelector('button').click()")
    assert browser.value(names)[:3] == ["orders-0/0", "orders-0/1", "orders-0/2"]
    assert browser.value(f"{header}.getAttribute('aria-sort')") == "ascending"
    browser.value(f"{header}.querySelector('button').click()")
    assert browser.value(names)[:2] == ["orders-2/7", "orders-2/6"]
    assert browser.value("document.querySelectorAll('#columns th[aria-sort]').length") == 1
    assert browser.value("document.querySelector('label[for=filter]').control.id") == "filter"
    assert browser.messages == []


@pytest.mark.thorough
def test_a_mirror_that_stops_answering_and_comes_back(browser: Browser, serve: Serve) -> None:
    url, process = serve(8)
    browser.open(url, width=1600)
    browser.until(f"{ROWS} === 8")
    process.send_signal(signal.SIGSTOP)
    try:
        text = "document.getElementById('verdict').textContent"
        browser.until(f"{text}.startsWith('The mirror has not answered since ')")
        assert "no answer within 5 s" in browser.value(text)
        assert browser.value("document.body.classList.contains('silent')")
        assert browser.value("document.title").startswith("✖ no answer")
        assert browser.value(ROWS) == 8, "what was known last stays"
        picture(browser, "silent")
    finally:
        process.send_signal(signal.SIGCONT)
    browser.until(f"{text} === '{WRONG}'")
    assert not browser.value("document.body.classList.contains('silent')")
    process.kill()
    process.wait()
    browser.until(f"{text}.includes('nothing listens there any more')")


def test_two_thousand_partitions(browser: Browser, serve: Serve) -> None:
    url, _ = serve(2000)
    browser.open(url, width=1600)
    browser.until(f"{ROWS} === 300")
    assert browser.value("document.getElementById('more').textContent") == "show all 2,000"
    browser.value("document.getElementById('more').click()")
    assert browser.value(ROWS) == 2000
    assert browser.value("document.getElementById('more').hidden")
    assert browser.messages == []
