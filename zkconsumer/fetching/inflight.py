"""Fetch requests in flight, and the bytes of the budget that they reserve until their responses come.

FetchPart    what a request asks of one partition
Flight       a request that waits for its response
Offers       what one request may take of the budgets of its streams, for the fetch plan
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkawire.model import TopicPartition
from kafkawire.net.link import Link
from zkconsumer.fetching.budget import StreamBudget
from zkconsumer.fetching.fetchplan import Asked
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.fetching.resting import Group
from zkconsumer.fetching.shares import Holding, Offer


class FetchPart(NamedTuple):
    """Part of a fetch request for one partition.  epoch: of the partition when the request was sent."""

    tp: TopicPartition
    cursor: Cursor
    epoch: int
    offset: int
    asked_bytes: int

    @property
    def awaited(self) -> bool:
        """True if the response can still be used: the partition was not reset, revoked or refused meanwhile."""
        partition = self.cursor.partition
        return partition.epoch == self.epoch and partition.position.offset is not None and not self.cursor.closing


@dataclass(eq=False, slots=True)
class Flight:
    """Fetch request that waits for its response.

    reserved, held: bytes of their streams' budgets, by partition and by group; behind: the broker has messages for it.
    """

    sent_at: float
    parts: dict[TopicPartition, FetchPart]
    groups: Sequence[Group]
    held: list[tuple[Group, int]]
    behind: bool
    link: Link = field(init=False)
    reserved: dict[StreamBudget, list[tuple[Holding, int]]] = field(init=False)

    def __post_init__(self) -> None:
        """Reserve the bytes that the response may bring."""
        self.reserved = {}
        for part in self.parts.values():
            cursor = part.cursor
            self.reserved.setdefault(cursor.budget, []).append((cursor.holding, part.asked_bytes))
        for budget, of_it in self.reserved.items():
            budget.ask(of_it)

    def release(self) -> None:
        """Release the reserved bytes: the response came, or never will."""
        for budget, of_it in self.reserved.items():
            budget.answered(of_it)
        for group, nbytes in self.held:
            group.release(nbytes)
        self.reserved, self.held = {}, []


def parts_of(asked: Sequence[Asked], cursors: Mapping[TopicPartition, Cursor]) -> dict[TopicPartition, FetchPart]:
    """Return the parts of a request, by partition."""
    found = {}
    for tp, offset, size in asked:
        cursor = cursors[tp]
        found[tp] = FetchPart(tp, cursor, cursor.partition.epoch, offset, size)
    return found


class Offers:
    """Budgets for the cursors of one request, each from the budget of its stream."""

    def __init__(self) -> None:
        self._offers: dict[StreamBudget, Offer] = {}
        self._last: tuple[StreamBudget | None, Offer | None] = None, None

    def _of(self, cursor: Cursor) -> Offer:
        budget, offer = self._last
        if budget is not cursor.budget or offer is None:
            offer = self._offers.get(cursor.budget)
            if offer is None:
                offer = self._offers[cursor.budget] = cursor.budget.offer()
            self._last = cursor.budget, offer
        return offer

    def room(self, cursor: Cursor) -> int:
        return self._of(cursor).room(cursor.holding)

    def grant(self, cursor: Cursor, size: int) -> None:
        self._of(cursor).grant(cursor.holding, size)

    def grant_slot(self, cursor: Cursor, wanted: int, known: int) -> int:
        return self._of(cursor).grant_slot(cursor.holding, wanted, known)

    def grant_whole(self, cursor: Cursor, size: int) -> bool:
        return self._of(cursor).grant_whole(cursor.holding, size)

    def save(self, cursor: Cursor, size: int) -> None:
        self._of(cursor).save(cursor.holding, size)

    def spent(self, least: int) -> bool:
        return all(offer.spent(least) for offer in self._offers.values())
