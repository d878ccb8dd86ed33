"""Producers learn that their process was forked: a child has neither the hub's thread nor connections of its own."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    def after_fork(self) -> None: ...


_watched: WeakSet[Forkable] = WeakSet()


def watch(producer: Forkable) -> None:
    """Have after_fork() called in each child of this process, as long as the producer is there."""
    _watched.add(producer)


def _in_child() -> None:
    for producer in list(_watched):
        producer.after_fork()


os.register_at_fork(after_in_child=_in_child)
