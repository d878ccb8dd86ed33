"""Wrong decisions, patched in one at a time: the simulation of whole mirrors has to find each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.simulation.mutations import Patch
from zkconsumer.fetching.progress import Progress

Mutation = list[Patch]


def _everything(done: Any) -> Callable[..., Any]:
    """What is done last counts for all before it."""

    def mutated(self: Progress, ticket: Any) -> object:
        counts = ticket.live
        found: object = done(self, ticket)
        if counts:
            self.committable = max(self.committable, ticket.resume_at)
        return found

    return mutated


MUTATIONS: dict[str, Mutation] = {
    "commit of the highest": [(Progress, "ticket_done", _everything)],
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    patches = MUTATIONS[name]
    real = [getattr(of, method) for of, method, _ in patches]
    for (of, method, change), kept in zip(patches, real, strict=True):
        setattr(of, method, change(kept))
    try:
        yield
    finally:
        for (of, method, _), kept in zip(patches, real, strict=True):
            setattr(of, method, kept)
