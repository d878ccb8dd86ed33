"""Drain: lets delivered messages finish before partitions are revoked."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from groundwork.tasks import now, sleep
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.listeners import ListenerCalls

log = logging.getLogger(__name__)

POLL_S = 0.01
DRAIN_AT_END_S = 4.0  # a stop takes 10 s at most, with commit and release


def drain(leaving: Iterable[Cursor], listener: ListenerCalls, seconds: float) -> None:
    """Call the listener, then wait until everything that was delivered of these cursors is done.

    Sets in the queue of a stream are dropped, because the next owner reads them again.  If the cursor is not closed, no
    log holds them any more: then they are delivered and waited for, too.
    """
    until = now() + seconds
    cursors = list(leaving)
    if not cursors:
        return
    Cursor.discard_fetched([cursor for cursor in cursors if cursor.closing])
    listener.before_release(sorted(cursor.tp for cursor in cursors))
    while waiting := [cursor for cursor in cursors if not (cursor.dropped or _finished(cursor))]:
        if now() >= until:
            log.info(
                "not all messages of %d partitions were done within %g s; the rest is read again", len(waiting), seconds
            )
            return
        sleep(POLL_S)


def _finished(cursor: Cursor) -> bool:
    return cursor.drained and not (cursor.partition.queued_sets and cursor.partition.delivers)
