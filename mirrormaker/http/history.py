"""History: rates and lags of the last minutes, so that the charts of a page that was just opened are not empty.  Pure.

A mirror of more than MAX_PARTITIONS keeps that of its totals only.
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
    """The newest POINTS of the mirror and of each partition that it owns now."""

    def __init__(self) -> None:
        self._times: deque[int] = deque(maxlen=POINTS)
        self._mirror: deque[tuple[float | None, float, float]] = deque(maxlen=POINTS)
        self._partitions: dict[Key, deque[Point | None]] = {}

    def add(self, report: MirrorReport) -> None:
        """The mirror as it is now."""
        self._times.append(report.at_ms)
        self._mirror.append((total_lag(report), report.messages_per_s, report.bytes_per_s))
        kept: dict[Key, deque[Point | None]] = {}
        rows = report.partitions if len(report.partitions) <= MAX_PARTITIONS else ()
        for row in rows:
            key = (row.source, row.topic, str(row.partition))
            points = self._partitions.get(key)
            if points is None:
                points = deque([None] * (len(self._times) - 1), maxlen=POINTS)  # the times before it was owned
            points.append((row.lag, row.messages_per_s))
            kept[key] = points
        self._partitions = kept

    def as_json(self) -> dict[str, Any]:
        """at_ms: the times; mirror: [lag, messages/s, bytes/s] at each; partitions: [source, topic, partition, points],
        a point being [lag, messages/s], or null where it was not owned."""
        return {
            "at_ms": list(self._times),
            "mirror": list(self._mirror),
            "partitions": [[*key, list(points)] for key, points in self._partitions.items()],
        }


def total_lag(report: MirrorReport) -> int | None:
    """Lag in messages of all sources that count messages; of a mirror of 0.7 alone in bytes.  None: some is unknown."""
    units = {source.lag_unit for source in report.sources}
    unit = "bytes" if units == {"bytes"} else "messages"
    lags = [source.lag for source in report.sources if source.lag_unit == unit]
    return None if None in lags else sum(lag for lag in lags if lag is not None)
