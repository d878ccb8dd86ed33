"""Many questions to many brokers over one link each, the next sent before the last is answered.

No more than WINDOW_BYTES of questions are on their way to a broker: they fit what the socket takes at once, so neither
side waits for the other to read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from kafkawire.net.links import Links
from kafkawire.protocol.request import Request

PURPOSE = "groups"
WINDOW_BYTES = 32 * 1024
K = TypeVar("K")
R = TypeVar("R")  # the type of the responses


def exchange(links: Links, asked: Mapping[Broker, Sequence[tuple[K, Request[R]]]]) -> dict[K, R | LinkLost]:
    """The reply of each question by its key; LinkLost where a broker went before it answered."""
    found: dict[K, R | LinkLost] = {}
    for broker, questions in asked.items():
        try:
            for key, reply in _answers(links, broker, questions):
                found[key] = reply
        except LinkLost as lost:
            for key, _ in questions:
                found.setdefault(key, lost)
    return found


def _answers(links: Links, broker: Broker, questions: Sequence[tuple[K, Request[R]]]) -> Iterable[tuple[K, R]]:
    link = links.link(broker, PURPOSE)
    waiting: deque[tuple[K, int]] = deque()
    on_the_way = 0  # bytes
    for key, request in questions:
        while waiting and on_the_way + request.size > WINDOW_BYTES:
            answered, size = waiting.popleft()
            on_the_way -= size
            yield answered, link.receive().body
        link.send(request)
        waiting.append((key, request.size))
        on_the_way += request.size
    for answered, _ in waiting:
        yield answered, link.receive().body
