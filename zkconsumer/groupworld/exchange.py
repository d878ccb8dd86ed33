"""Many questions to many brokers over one link each, the next sent before the last is answered.

No more than WINDOW_BYTES of questions are on their way to a broker: they fit what the socket takes at once, so neither
side waits for the other to read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from kafkawire.net.links import Links
from kafkawire.requests import Request

PURPOSE = "groups"
WINDOW_BYTES = 32 * 1024
K = TypeVar("K")


def exchange(links: Links, asked: Mapping[Broker, Sequence[tuple[K, Request]]]) -> dict[K, Any]:
    """The reply of each question by its key; LinkLost where a broker went before it answered."""
    found: dict[K, Any] = {}
    for broker, questions in asked.items():
        try:
            for key, reply in _answers(links, broker, questions):
                found[key] = reply
        except LinkLost as lost:
            for key, _ in questions:
                found.setdefault(key, lost)
    return found


def _answers(links: Links, broker: Broker, questions: Sequence[tuple[K, Request]]) -> Iterable[tuple[K, Any]]:
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
