"""Limits that an operator sets on a running mirror: pauses and throttles.  Pure.

A pause covers a topic of one source, or one of its partitions; the last command counts, and a partition may be an
exception to its topic.  A throttle covers one topic or the whole flow (topic ""); messages limited by both flow at the
lower rate.  Kept limits survive a restart (keptfile).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkawire.model import TopicPartition, partition_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Pause of a topic, or of one partition ("": all).  With paused False, the partition is read while its topic is
    paused."""

    source: str
    topic: str
    partition: str = ""
    paused: bool = True
    since_ms: int = 0
    kept: bool = False

    @property
    def what(self) -> str | TopicPartition:
        partition = partition_named(self.partition) if self.partition else None
        return self.topic if partition is None else TopicPartition(self.topic, partition)

    @property
    def name(self) -> str:
        return f"{self.topic}:{self.partition}" if self.partition else self.topic

    @property
    def reason(self) -> str:
        how = "paused" if self.paused else "read, while its topic is paused,"
        return f"{how} by operator since {clock(self.since_ms)}{kept_text(self.kept)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Rate limit of a topic ("": of the whole flow) per second; None: no limit of that kind."""

    source: str
    topic: str = ""
    bytes_per_s: float | None = None
    messages_per_s: float | None = None
    since_ms: int = 0
    kept: bool = False

    @property
    def rate(self) -> str:
        rates = [bytes_text(self.bytes_per_s) + "/s"] if self.bytes_per_s is not None else []
        rates += [f"{self.messages_per_s:,g} messages/s"] if self.messages_per_s is not None else []
        return " and ".join(rates)

    @property
    def name(self) -> str:
        return self.topic or "all topics"

    @property
    def reason(self) -> str:
        whole = "" if self.topic else ", the whole source,"
        return f"throttled to {self.rate}{whole} by operator since {clock(self.since_ms)}{kept_text(self.kept)}"


class Limits:
    """All limits of a mirror."""

    def __init__(self) -> None:
        self._pauses: dict[tuple[str, str, str], Pause] = {}
        self._throttles: dict[tuple[str, str], Throttle] = {}

    def set_pause(self, pause: Pause) -> None:
        """Pause a topic or partition.  Pausing a topic removes its exceptions."""
        if not pause.partition:
            self._drop_topic(pause.source, pause.topic)
        self._pauses[pause.source, pause.topic, pause.partition] = pause

    def end_pause(self, source: str, topic: str, partition: str = "") -> bool:
        """Resume a topic, or one partition of a topic that may stay paused.  Return False if it was not paused."""
        if not partition:
            return self._drop_topic(source, topic)
        own = self._pauses.pop((source, topic, partition), None)
        whole = self._pauses.get((source, topic, ""))
        if whole is not None:
            self._pauses[source, topic, partition] = Pause(
                source=source, topic=topic, partition=partition, paused=False, since_ms=whole.since_ms, kept=whole.kept
            )
        return own.paused if own is not None else whole is not None

    def _drop_topic(self, source: str, topic: str) -> bool:
        gone = [key for key in self._pauses if key[:2] == (source, topic)]
        ended = [self._pauses.pop(key) for key in gone]
        return any(pause.paused for pause in ended)

    def set_throttle(self, throttle: Throttle) -> None:
        self._throttles[throttle.source, throttle.topic] = throttle

    def end_throttle(self, source: str, topic: str = "") -> bool:
        """End a throttle.  Return False if there was none."""
        return self._throttles.pop((source, topic), None) is not None

    def pause_of(self, source: str, tp: TopicPartition) -> Pause | None:
        """Return the pause that applies to a partition."""
        found = self._pauses.get((source, tp.topic, str(tp.partition))) or self._pauses.get((source, tp.topic, ""))
        return found if found is not None and found.paused else None

    def throttles_of(self, source: str) -> list[Throttle]:
        return [throttle for throttle in self._throttles.values() if throttle.source == source]

    def pauses_of(self, source: str) -> list[Pause]:
        """Return the pauses of a source, topics first: a partition is an exception to its topic."""
        return sorted((p for p in self._pauses.values() if p.source == source), key=lambda p: (p.topic, p.partition))

    def __iter__(self) -> Iterator[Pause | Throttle]:
        yield from sorted(self._pauses.values(), key=lambda p: (p.source, p.topic, p.partition))
        yield from sorted(self._throttles.values(), key=lambda t: (t.source, t.topic))

    def add(self, limit: Pause | Throttle) -> None:
        if isinstance(limit, Pause):
            self._pauses[limit.source, limit.topic, limit.partition] = limit
        else:
            self.set_throttle(limit)

    def reason(self, source: str, tp: TopicPartition) -> str:
        """Return why a partition is paused, or "" if it is not."""
        found = self.pause_of(source, tp)
        return found.reason if found is not None else ""

    def copy(self) -> Limits:
        made = Limits()
        made._pauses, made._throttles = dict(self._pauses), dict(self._throttles)
        return made


def rows_of(limits: Iterable[Pause | Throttle]) -> list[dict[str, Any]]:
    """Return limits as JSON values."""
    return [{"limit": type(each).__name__.lower(), **dataclasses.asdict(each)} for each in limits]


def limits_of(rows: Iterable[Mapping[str, Any]]) -> Limits:
    """Return the limits that such rows describe."""
    found = Limits()
    for row in rows:
        values = {name: value for name, value in row.items() if name != "limit"}
        found.add(Pause(**values) if row["limit"] == "pause" else Throttle(**values))
    return found


def clock(at_ms: int) -> str:
    """Return the local time of day, with the date if it is not today's."""
    at, today = time.localtime(at_ms / 1000), time.localtime()
    same = (at.tm_year, at.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M" if same else "%Y-%m-%d %H:%M", at)


def kept_text(kept: bool) -> str:
    return ", kept over restarts" if kept else ""


def bytes_text(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}"
    return f"{count:,.0f} B"
