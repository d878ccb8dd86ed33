"""Limiter: applies an operator's pauses and throttles to the flows of a mirror, and persists those that are kept.

A kept limit is on the disk before it takes effect, so that a crash never ends a pause that was reported as kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from groundwork.executor import ThreadExecutor
from groundwork.hub import CallersHub
from groundwork.tasks import Event, Lock, now, sleep
from groundwork.threads import NoThread
from mirrormaker.control.keptfile import KeptFile, KeptFileUnreadable
from mirrormaker.flow import Flow
from mirrormaker.limits import Limits
from mirrormaker.source import Source
from mirrormaker.throttle import TICK_S

log = logging.getLogger(__name__)
T = TypeVar("T")
OWNED_S = 1.0  # interval between checks of which partitions the flows own


class Limiter:
    """Limits of a mirror, applied to its flows.  `limits`: the active limits, read only.  `kept`: the file, or None
    without a state folder.

    share: the part of each throttle that this process may use; less than 1 if it is one of several workers.
    """

    def __init__(
        self, sources: Sequence[Source], flows: Sequence[Flow], kept: KeptFile | None, share: float = 1.0
    ) -> None:
        self.limits = Limits()
        self.kept = kept
        self._share = share
        self._shares: Mapping[tuple[str, str], float] = {}  # by source and topic, if it differs from `share`
        self._sources = sources
        self._flows = flows
        self._throttles = Event()
        self._changing = Lock()
        self._hub = CallersHub()
        self._disk = ThreadExecutor(self._hub)

    def restore(self, given: Limits | None = None) -> None:
        """Apply the kept limits, or `given`, before a source is joined; runs in the hub.  Raises KeptFileUnreadable and
        KeptFileWrong."""
        self._hub.start()
        if given is not None:
            self.replace(given)
            return
        if self.kept is None:
            return
        names = {source.name for source in self._sources}
        for limit in self.kept.read():
            self.limits.add(limit)
            if limit.source not in names:
                log.warning("kept: %s of source %s has no effect: there is no such source", limit, limit.source)
            else:
                log.warning("source %s: %s %s", limit.source, limit.topic or "all topics", limit.reason)
        self._apply()

    def change(self, edit: Callable[[Limits], T]) -> T:
        """Change the limits by edit(), which gets a copy, and return its result.  Raises KeptFileUnreadable, and then
        nothing has changed."""
        with self._changing:
            changed = self.limits.copy()
            result = edit(changed)
            if self.kept is not None and _kept(changed) != _kept(self.limits):
                try:
                    self._disk.call(self.kept.write, list(changed))
                except NoThread as refused:
                    raise KeptFileUnreadable(f"{self.kept.path} cannot be written: {refused}") from refused
            self.limits = changed
            self._apply()
            return result

    def replace(self, limits: Limits) -> None:
        """Replace all limits by these; the file already holds the kept ones."""
        self.limits = limits
        self._apply()

    def divide(self, shares: Mapping[tuple[str, str], float]) -> None:
        """Set the part of each throttle that this process may use, by source and topic ("": the whole source)."""
        self._shares = dict(shares)
        for flow in self._flows:
            self.adopt(flow)

    def _apply(self) -> None:
        for source in self._sources:
            source.set_paused({pause.what: pause.paused for pause in self.limits.pauses_of(source.name)})
        for flow in self._flows:
            self.adopt(flow)

    def adopt(self, flow: Flow) -> None:
        """Give a flow its throttles."""
        wanted = {throttle.topic: throttle for throttle in self.limits.throttles_of(flow.name)}
        rates = {
            topic: self._part((one.bytes_per_s, one.messages_per_s), self._shares.get((flow.name, topic), self._share))
            for topic, one in wanted.items()
        }
        flow.throttle.keep(rates, now())
        if flow.throttle:
            self._throttles.set()

    @staticmethod
    def _part(rates: tuple[float | None, float | None], share: float) -> tuple[float | None, float | None]:
        bytes_per_s, messages_per_s = (None if rate is None else rate * share for rate in rates)
        return bytes_per_s, messages_per_s

    def run(self) -> None:
        """Adjust the throttles until stopped from outside."""
        owned_at = float("-inf")
        while True:
            throttled = [flow for flow in self._flows if flow.throttle]
            if not throttled:
                self._throttles.clear()
                owned_at = float("-inf")
                self._throttles.wait()
                continue
            at = now()
            for flow in throttled:
                if at - owned_at >= OWNED_S:
                    flow.throttle.own([row.tp for row in flow.source.partitions()])
                flow.throttle.tick(at)
            owned_at = at if at - owned_at >= OWNED_S else owned_at
            sleep(TICK_S)

    def close(self) -> None:
        self._disk.close()
        self._hub.stop()


def _kept(limits: Limits) -> list[object]:
    return [limit for limit in limits if limit.kept]
