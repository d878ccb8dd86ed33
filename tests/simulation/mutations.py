"""Mutations: one wrong decision each, patched into the real deciders, which the simulation has to find.

    with mutated("no fence"): run(...)

Each is what a hurried change could do; what it breaks is said beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from groundwork import clocks
from groundwork.clocks import Moment
from kafkawire.model import TopicPartition
from tests.simulation.zookeeper import SimClient
from zkconsumer.fetching.committable import DeliveryTicket, Progress
from zkconsumer.group.claimactions import ClaimActions
from zkconsumer.group.claims import Claims
from zkconsumer.group.groupreader import GroupReader
from zkconsumer.member.executor import Executor
from zkconsumer.member.steps import Action, Report
from zkconsumer.session import lease
from zkconsumer.session.lease import Lease

Patch = tuple[Any, str, Callable[[Any], Callable[..., Any]]]  # of what, which method, the new one from the real one


def _release_before_commit(commit: Any) -> Callable[..., Any]:
    def mutated(self: Any, action: Action) -> Report:
        self.group._claims.release(action.assignment)
        found: Report = commit(self, action)
        return found

    return mutated


def _read_before_claim(claim: Any) -> Callable[..., Any]:
    """The offsets are read when a partition is first wanted, and kept until it is won."""

    def mutated(self: Any, action: Action) -> Report:
        self._read_early = early = getattr(self, "_read_early", {})
        early |= self._owned.offsets([tp for tp in action.assignment if tp not in early])
        found: Report = claim(self, action)
        return found

    return mutated


def _as_read_before(locate: Any) -> Callable[..., Any]:
    def mutated(self: Any, action: Action) -> Report:
        found: Report = locate(self, action)
        for tp in action.assignment:
            self._located[tp] = self.group._read_early.pop(tp)
        return found

    return mutated


def _lease_without_end(beat_answered: Any) -> Callable[..., Any]:
    def mutated(self: Lease, sent: Moment, negotiated_s: float) -> None:
        beat_answered(self, sent, negotiated_s)
        if self.valid_until > float("-inf"):
            self.ends_at = self.valid_until = float("inf")

    return mutated


def _highest(done: Any) -> Callable[..., Any]:
    def mutated(self: Progress, ticket: DeliveryTicket) -> object:
        counts = ticket.live
        found = done(self, ticket)
        if counts:
            self.committable = max(self.committable, ticket.resume_at)
        return found

    return mutated


def _steal(claim: Any) -> Callable[..., Any]:
    def mutated(self: Any, wanted: Mapping[TopicPartition, str], keep: bool) -> Any:
        session_id = self._session.session_id
        found = self._session.read([self._path(tp) for tp in wanted], session_id=session_id)
        theirs = {path: node.version for path, node in found.items() if node is not None and node.owner != session_id}
        self._session.delete(theirs, session_id)
        return claim(self, wanted, keep)

    return mutated


def _watch_once(read_ids: Any) -> Callable[..., Any]:
    def mutated(self: Any, session_id: int | None) -> Any:
        watch, asked = self._watch_ids, getattr(self, "_ids_asked_in", None)
        self._ids_asked_in = session_id
        self._watch_ids = watch if asked != session_id else None
        try:
            return read_ids(self, session_id)
        finally:
            self._watch_ids = watch

    return mutated


def _read_in_place(sync_async: Any) -> Callable[..., Any]:
    return lambda client, path: client.exists_async(path)


def _no_margin(margin_of: Any) -> Callable[..., float]:
    return lambda negotiated_s, part=1: 0.0


MUTATIONS: dict[str, list[Patch]] = {
    "release before commit": [(Executor, "_commit", _release_before_commit)],
    "read before claim": [
        (ClaimActions, "_claim", _read_before_claim),
        (Executor, "_locate", _as_read_before),
    ],
    "no fence": [(Lease, "beat_answered", _lease_without_end)],
    "a lease by a clock that stands still in a suspend": [
        (clocks, "boot", lambda boot: clocks.monotonic),
        (Lease, "jump_s", lambda jump_s: lambda lease, moment: 0.0),
    ],
    "a commit that outlives its session": [(Lease, "until_revoked", lambda until_revoked: lambda lease: lease)],
    "commit of the highest": [(Progress, "ticket_done", _highest)],
    "claim without waiting for the former owner": [(Claims, "_claim", _steal)],
    "a watch that is not set again": [(GroupReader, "_read_ids", _watch_once)],
}
# What one server alone cannot show.
ENSEMBLE_MUTATIONS: dict[str, list[Patch]] = {
    "a lease by an answered read": [(SimClient, "sync_async", _read_in_place)],
    "a lease without a margin": [(lease, "margin_of", _no_margin)],
}


def mutated(name: str) -> AbstractContextManager[None]:
    return patched(MUTATIONS.get(name) or ENSEMBLE_MUTATIONS[name])


@contextmanager
def patched(patches: Sequence[Patch]) -> Iterator[None]:
    """The product with other methods, until the block ends."""
    real = [getattr(of, method) for of, method, _ in patches]
    for (of, method, change), kept in zip(patches, real, strict=True):
        setattr(of, method, change(kept))
    try:
        yield
    finally:
        for (of, method, _), kept in zip(patches, real, strict=True):
            setattr(of, method, kept)
