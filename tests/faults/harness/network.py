"""Links to a target: slow and long ones that lose time, and the proxies of a side.

What passes such a link must not be compressible, or the link is never full.
"""

from __future__ import annotations

import base64
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from localkafka.proxy import Proxy
from tests.faults.harness.clusters import Side

STALL_S = 0.2
REQUESTS_BETWEEN = 100  # a stall in so many writes


def proxies(side: Side) -> list[Proxy]:
    """The proxies before the brokers of a side."""
    return [node.proxy for node in side.cluster.nodes]


def incompressible(count: int, size: int, seed: int) -> list[bytes]:
    """So many different values; text, as the JVM prints them."""
    rng = random.Random(seed)
    return [base64.b64encode(rng.randbytes(size * 3 // 4)) for _ in range(count)]


@contextmanager
def stalls(proxy: Proxy, round_trip_ms: float, every_bytes: int) -> Iterator[list[float]]:
    """One of a hundred writes of so many bytes waits STALL_S longer.  Yields the times of the stalls."""
    ending, seen = threading.Event(), [0.0][:0]

    def run() -> None:
        due = REQUESTS_BETWEEN * every_bytes
        while not ending.wait(0.01):
            if proxy.counters.bytes_to_target >= due:
                due += REQUESTS_BETWEEN * every_bytes
                seen.append(time.monotonic())
                proxy.delay(round_trip_ms / 2 + STALL_S * 1000, "to_target")
                ending.wait(0.02)  # what is read meanwhile is late, and what comes behind it waits for it
                proxy.delay(round_trip_ms / 2, "to_target")

    thread = threading.Thread(target=run, name="stalls", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ending.set()
        thread.join(10)


def mended(side: Side) -> None:
    """No fault is in the way of a side any more, and what was held back is dropped with its connections."""
    for proxy in proxies(side):
        proxy.reset()
        proxy.clear()


def connected(which: Sequence[Proxy]) -> int:
    """Connections that were opened so far."""
    return sum(proxy.counters.connections for proxy in which)
