"""What tests of both formats do alike: bytes into a session in chunks, and columns by one form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from kafkawire.formats.compiled import Kernels
from kafkawire.kernels import _CHOICE
from kafkawire.net.session import Reply, Session


def feed(session: Session, data: bytes, chunk: int) -> list[Reply]:
    """The replies, when data comes in chunks of so many bytes."""
    replies: list[Reply] = []
    while data:
        room = session.wanted()
        count = min(chunk, len(room), len(data))
        room[:count] = data[:count]
        replies += session.received(count)
        data = data[count:]
    return replies


@contextmanager
def running(kernels: Kernels | None, scanning: ModuleType) -> Iterator[None]:
    """Everything by this form, also the loops of small sets.  scanning: the format's module of that name."""
    before = _CHOICE.kernels, scanning._WORTH
    _CHOICE.kernels, scanning._WORTH = kernels, 0
    try:
        yield
    finally:
        _CHOICE.kernels, scanning._WORTH = before
