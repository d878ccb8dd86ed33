"""History: rates and lags of the last minutes, so that the charts of a newly opened page are not empty.  Pure.

A mirror of more than MAX_PARTITIONS keeps only the history of its totals.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from mirrormaker.report import MirrorReport

STEP_S = 5.0
POINTS = 60  # five minutes
MAX_PARTITIONS = 2000

Point = tuple[float | None, float]  # lag (None: not known), messages/s
Key = tuple[str, str, str]  # source, topic, partition


class History:
    """Newest POINTS points of the mirror and of each partition that it owns now."""

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
