"""What is told of parked partitions: once when one stands still, once when it flows again, no try in between."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent


class Parkable(Protocol):
    """What has to be known of a cursor."""

    @property
    def tp(self) -> TopicPartition: ...

    @property
    def parked(self) -> str | None: ...

    def committable(self) -> int | None: ...


class Parkings:
    """Compares cursors with what was told of them."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._told: dict[TopicPartition, tuple[str, int | None]] = {}  # the reason, and what was done then

    def look(self, cursors: Iterable[Parkable]) -> None:
        """Tell what changed.  A cursor that is left out is owned no more, and forgotten."""
        before, self._told = self._told, {}
        for cursor in cursors:
            tp, reason = cursor.tp, cursor.parked
            was = before.get(tp)
            if reason is None and was is None:
                continue
            done = cursor.committable()
            if reason is not None:
                if was is None or was[0] != reason:
                    self._on_event(ConsumerEvent("parked", _sentence(tp, reason), tp))
                self._told[tp] = (reason, done)
            elif was is not None and done is not None and (was[1] is None or done > was[1]):
                text = f"{tp} flows again; it stood still at {was[1]}" if was[1] is not None else f"{tp} flows again"
                self._on_event(ConsumerEvent("flows", text, tp))
            elif was is not None:
                self._told[tp] = was  # on trial


def _sentence(tp: TopicPartition, reason: str) -> str:
    return reason if reason.startswith(str(tp)) else f"{tp}: {reason}"
