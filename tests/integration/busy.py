"""A program whose one handler is busy for a while, beside a stream that reads as fast as it can; both in one connector.

    python -m tests.integration.busy ZOOKEEPER GROUP TOPIC END SESSION_MS HOW READ SECONDS

The topic has two partitions, one for each stream, which end at END; the other stream reads its own again and again, by
messages, batches or sets (READ).  HOW the handler is busy: it `computes` (pure Python that never waits) or `blocks` (a
call that waits and leaves the interpreter to others).

The last line is JSON: messages/s of the other stream, the median of samples, around the time in which the handler is
busy (quiet) and in it (beside); the states of the session; what was told; the offsets that the busy stream was handed.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable

from kafkawire.model import TopicPartition
from tests.integration.readers import config
from zkconsumer.connector import ConsumerConnector
from zkconsumer.events import ConsumerEvent
from zkconsumer.listeners import ConsumerListener
from zkconsumer.streams.stream import Stream

WARM_S, QUIET_S = 0.5, 2.0  # quiet: before and after the busy time, each
SAMPLE_S = 0.25


class States(ConsumerListener):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def session_state(self, state: str) -> None:
        self.seen.append(state)


class Laps:
    """Reads a stream from 0 to end, again and again, in a thread; .count of messages so far."""

    def __init__(self, connector: ConsumerConnector, stream: Stream, end: int, read: str) -> None:
        self.count = 0
        self._connector, self._end = connector, end
        threading.Thread(target=getattr(self, f"_{read}"), args=(stream,), daemon=True).start()

    def _messages(self, stream: Stream) -> None:
        for message in stream:
            self.count += 1
            if message.resume_at >= self._end:
                self._connector.seek(TopicPartition(message.topic, message.partition), 0)

    def _batches(self, stream: Stream) -> None:
        for batch in stream.batches():
            self.count += len(batch.values)
            if batch.resume_at >= self._end:
                self._connector.seek(batch.tp, 0)

    def _sets(self, stream: Stream) -> None:
        for fetched, share in stream.sets():
            self.count += fetched.resume_at - fetched.start
            share.ticket(fetched.resume_at).done()
            if fetched.resume_at >= self._end:
                self._connector.seek(fetched.tp, 0)

    def rates(self, seconds: float, wait: Callable[[float], object]) -> list[float]:
        """Messages/s in each of the samples of so many seconds; wait(s) passes the time."""
        found: list[float] = []
        until = time.monotonic() + seconds
        while (began := time.monotonic()) < until:
            count = self.count
            wait(SAMPLE_S)
            found.append((self.count - count) / (time.monotonic() - began))
        return found


def computes(seconds: float) -> None:
    until, n = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        n += 1


def blocks(seconds: float) -> None:
    ours, _theirs = socket.socketpair()
    with ours, _theirs:
        ours.settimeout(seconds)
        try:
            ours.recv(1)  # nobody answers
        except TimeoutError:
            pass


def main(zookeeper: str, group: str, topic: str, end: str, session_ms: str, how: str, read: str, seconds: str) -> None:
    states, events = States(), list[ConsumerEvent]()
    options = config(zookeeper, group, zookeeper_session_timeout_ms=int(session_ms), rebalance_max_retries=10)
    with ConsumerConnector(options, "own", on_event=events.append, listener=states) as connector:
        busy, other = connector.create_message_streams({topic: 2})[topic]
        laps = Laps(connector, other, int(end), read)
        first = next(busy)
        time.sleep(WARM_S)
        quiet = laps.rates(QUIET_S, time.sleep)
        beside = laps.rates(float(seconds), {"computes": computes, "blocks": blocks}[how])
        quiet += laps.rates(QUIET_S, time.sleep)
        second = next(busy)
        told = {
            "quiet": statistics.median(quiet),
            "beside": statistics.median(beside),
            "states": states.seen,
            "told": [event.text for event in events if event.kind in ("fence", "late", "session", "rebalance")],
            "offsets": [first.offset, second.offset],
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
