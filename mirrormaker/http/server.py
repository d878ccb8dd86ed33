"""HTTP server of a mirror (http.listen), with these paths:

    /           the status page
    /metrics    for Prometheus
    /livez      200 while the event loop (of each worker) turns, or 503
    /readyz     200, or 503 with the reasons, one per line
    /status     the report as JSON
    /history    rates and lags of the last minutes as JSON, for the page

All responses come from one report, which is built at most once in FRESH_S, whatever the number of requests.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence

from groundwork.httpserver import EVENT, NOT_FOUND, HttpServer, Request, Response, sentence
from groundwork.loopdelay import HubLag
from groundwork.tasks import TaskGroup, now, sleep
from mirrormaker.attention import view
from mirrormaker.http.history import STEP_S, History
from mirrormaker.http.metrics import MirrorMetrics
from mirrormaker.http.page import page
from mirrormaker.listen import Address
from mirrormaker.report import MirrorReport

log = logging.getLogger(__name__)

FRESH_S = 0.9


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
