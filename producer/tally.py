"""How many messages of a producer ended how, and what flush() and close() tell of those that did not end well."""

from __future__ import annotations

from dataclasses import replace

from kafkawire.errors import LinkLost
from producer.buckets import Buckets, Counts
from producer.errors import SendFailed
from producer.feeder import Feeder
from producer.handling import HandlerQueue


class Tally:
    """queue: of the handlers, where there are some.  Each failure is told once."""

    def __init__(self, buckets: Buckets, feeder: Feeder, queue: HandlerQueue | None) -> None:
        self._buckets, self._feeder, self._queue = buckets, feeder, queue
        self._told_lost = 0  # of counts.maybe_lost

    @property
    def counts(self) -> Counts:
        """Messages so far: sent = acked + failed + pending."""
        counts, queue = self._buckets.counts, self._queue
        if self._feeder.counters is not None and self._feeder.counters.maybe_lost:
            counts = replace(counts, maybe_lost=self._feeder.counters.maybe_lost)
        if queue is None:
            return counts
        return replace(
            counts,
            sent=counts.sent + queue.waiting + queue.handled + queue.dropped,
            acked=counts.acked + queue.handled,
            failed=counts.failed + queue.dropped,
        )

    def report(self, left: int, timeout_s: float, closed: bool) -> None:
        """After waiting for so long: raise SendFailed for what failed since the last report, and for `left` messages
        that did not end.  closed: those have failed by now, too."""
        failed, first = self._buckets.failures()
        failed -= left if closed else 0
        lost = self.counts.maybe_lost - self._told_lost
        self._told_lost += lost
        if failed <= 0 and not left and not lost:
            return
        told = f"{failed} messages were not stored; the first reason: {first}" if failed > 0 else ""
        late = f"{left} messages are not acknowledged after {timeout_s:g} s" if left else ""
        gone = ""
        if lost:
            gone = f"{lost} messages may be lost: they were sent, nobody acknowledges them, and their connection broke"
        raise SendFailed(
            "; ".join(filter(None, (told, late, gone))), first or (TimeoutError(late) if late else LinkLost(gone))
        )
