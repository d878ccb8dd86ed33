"""Quotas of clients: how long an answer is held back, or a connection is not read (7; ClientQuotaManager)."""

from __future__ import annotations

from collections import deque

from tests.simulation.process import Timeline

WINDOW_S = 10.0  # ten samples of a second


class Quotas:
    """produce, fetch: bytes a second of each client id; None: no limit.  of_client: those that have their own."""

    def __init__(self, timeline: Timeline) -> None:
        self.produce: float | None = None
        self.fetch: float | None = None
        self.of_client: dict[str, tuple[float | None, float | None]] = {}
        self._timeline = timeline
        self._seen: dict[tuple[str, bool], deque[tuple[float, int]]] = {}

    def produced(self, client_id: str, size: int) -> int:
        return self._throttle_ms(client_id, False, size)

    def fetched(self, client_id: str, size: int) -> int:
        return self._throttle_ms(client_id, True, size)

    def _throttle_ms(self, client_id: str, fetch: bool, size: int) -> int:
        if self.produce is None and self.fetch is None and not self.of_client:
            return 0
        limit = self.of_client.get(client_id, (self.produce, self.fetch))[fetch]
        if limit is None:
            return 0
        now = self._timeline.now
        seen = self._seen.setdefault((client_id, fetch), deque())
        seen.append((now, size))
        while seen and seen[0][0] < now - WINDOW_S:
            seen.popleft()
        window_s = max(1.0, now - seen[0][0])
        rate = sum(n for _, n in seen) / window_s
        return 0 if rate <= limit else max(1, int((rate - limit) / limit * window_s * 1000))
