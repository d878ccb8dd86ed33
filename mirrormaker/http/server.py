"""HTTP server of a mirror (http.listen), with these paths:

    /           the status page
    /metrics    for Prometheus
    /livez      200 while the event loop (of each worker) turns, or 503
    /readyz     200, or 503 with the reasons, one per line
    /status     the report as JSON
    /history    rates and lags of the last minutes as JSON, for the page

All responses come from one report, which is built at most once in FRESH_S, whatever the number of requests.

The status page is one file, page.html, which requests nothing but /status and /history.  Its Content-Security-Policy
allows exactly the style and the script in the file, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from groundwork.httpserver import EVENT, NOT_FOUND, HttpServer, Request, Response, sentence
from groundwork.loopdelay import HubLag
from groundwork.tasks import TaskGroup, now, sleep
from mirrormaker.attention import view
from mirrormaker.http.metrics import MirrorMetrics
from mirrormaker.listen import Address
from mirrormaker.report import MirrorReport

log = logging.getLogger(__name__)

FRESH_S = 0.9
STEP_S = 5.0  # between points of the history
POINTS = 60  # five minutes
MAX_PARTITIONS = 2000  # a mirror of more keeps only the history of its totals


class StatusServer:
    """HTTP server of a mirror.  report: builds the current report, in the event loop; lag: delay of the event loop."""

    def __init__(
        self,
        report: Callable[[], MirrorReport],
        lag: HubLag | Callable[[], float],
        tasks: TaskGroup,
        *,
        hosts: Sequence[str] = (),
        silent: Callable[[], Sequence[str]] = tuple,
        more: Callable[[], Sequence[tuple[int, str]]] = tuple,
    ) -> None:
        """hosts: host names that clients may use (http.hosts).  silent(): a sentence for each worker that does not
        respond. more(): further metrics of each worker, as text.

        lag may also be a function that returns the recent delay of the event loops in seconds.
        """
        lately_s = lag if callable(lag) else (lambda: lag.lately_ms / 1000)
        self._silent = silent
        self._make = report
        self._tasks = tasks
        self._made: tuple[float, MirrorReport] | None = None
        self._history = History()
        self._metrics = MirrorMetrics(self.report, lately_s, more)
        self._server = HttpServer(tasks, self.answer, hosts=hosts)
        self._paths: dict[str, Callable[[Request], Response]] = {
            "/": lambda request: page(),
            "/metrics": self._scrape,
            "/livez": lambda request: self._liveness(),
            "/readyz": lambda request: self._readiness(),
            "/status": lambda request: _json(view(self.report())),
            "/history": lambda request: _json(self._history.as_json()),
        }

    def start(self, address: Address) -> str:
        """Listen, serve requests from now on, and return the URL.  Raises OSError."""
        host, port = self._server.start(*address)
        self._tasks.spawn("http-history", self._keep_history)
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def close(self) -> None:
        """Stop accepting connections."""
        self._server.close()

    def report(self) -> MirrorReport:
        """Return a report that is at most FRESH_S old."""
        at = now()
        if self._made is None or at - self._made[0] > FRESH_S:
            self._made = at, self._make()
        return self._made[1]

    def answer(self, request: Request) -> Response:
        """Return the response to a request."""
        found = self._paths.get(request.path)
        return NOT_FOUND if found is None else found(request)

    def _scrape(self, request: Request) -> Response:
        body, content_type = self._metrics.exposition(request.headers.get("accept", ""))
        return Response(200, body, content_type)

    def _readiness(self) -> Response:
        reasons = [" ".join(reason.split()) for reason in self.report().not_ready]
        return sentence(503, "\n".join(reasons)) if reasons else sentence(200, "ready")

    def _liveness(self) -> Response:
        silent = self._silent()
        return sentence(503, "\n".join(silent)) if silent else sentence(200, "alive")

    def _keep_history(self) -> None:
        while True:
            try:
                self._history.add(self.report())
            except Exception as failed:  # a failure of the server must not end the mirror
                log.exception("http: no report could be made: %s", failed, extra=EVENT)
            sleep(STEP_S)


def _json(value: object) -> Response:
    return Response(200, json.dumps(value, separators=(",", ":")).encode(), "application/json")


# ---- the status page ----------------------------------------------------------------------------------------------


@cache
def page() -> Response:
    """Return the page, with headers that forbid any other content."""
    body = files(__package__).joinpath("page.html").read_bytes()
    return Response(
        200,
        body,
        "text/html; charset=utf-8",
        {
            "Content-Security-Policy": policy(body.decode()),
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        },
    )


def policy(html: str) -> str:
    """Return the Content-Security-Policy for a page: its own style and script, and requests to its own origin."""
    allowed = {
        tag: " ".join(f"'sha256-{_sha256(text)}'" for text in re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL))
        for tag in ("style", "script")
    }
    return (
        f"default-src 'none'; script-src {allowed['script']}; style-src {allowed['style']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# ---- history ------------------------------------------------------------------------------------------------------

Point = tuple[float | None, float]  # lag (None: not known), messages/s
Key = tuple[str, str, str]  # source, topic, partition


class History:
    """Newest POINTS rates and lags of the mirror and of each partition that it owns now, so that the charts of a newly
    opened page are not empty."""

    def __init__(self) -> None:
        self._times: deque[int] = deque(maxlen=POINTS)
        self._mirror: deque[tuple[float | None, float, float]] = deque(maxlen=POINTS)
        self._partitions: dict[Key, deque[Point | None]] = {}

    def add(self, report: MirrorReport) -> None:
        """Add a point for the current report."""
        self._times.append(report.at_ms)
        self._mirror.append((total_lag(report), report.messages_per_s, report.bytes_per_s))
        kept: dict[Key, deque[Point | None]] = {}
        rows = report.partitions if len(report.partitions) <= MAX_PARTITIONS else ()
        for row in rows:
            key = (row.source, row.topic, str(row.partition))
            points = self._partitions.get(key)
            if points is None:
                points = deque([None] * (len(self._times) - 1), maxlen=POINTS)  # no points before it was owned
            points.append((row.lag, row.messages_per_s))
            kept[key] = points
        self._partitions = kept

    def as_json(self) -> dict[str, Any]:
        """Return at_ms: the times; mirror: [lag, messages/s, bytes/s] at each; partitions: [source, topic, partition,
        points], where a point is [lag, messages/s], or null if it was not owned."""
        return {
            "at_ms": list(self._times),
            "mirror": list(self._mirror),
            "partitions": [[*key, list(points)] for key, points in self._partitions.items()],
        }


def total_lag(report: MirrorReport) -> int | None:
    """Return the lag in messages of all sources that count messages, or in bytes if all sources are 0.7; None if some
    lag is unknown."""
    units = {source.lag_unit for source in report.sources}
    unit = "bytes" if units == {"bytes"} else "messages"
    lags = [source.lag for source in report.sources if source.lag_unit == unit]
    return None if None in lags else sum(lag for lag in lags if lag is not None)
