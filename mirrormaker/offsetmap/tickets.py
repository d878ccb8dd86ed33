"""A part's ticket that also tells the offset map where the part was stored."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.model import Part, Ticket, TopicPartition
from mirrormaker.offsetmap.checkpoints import OwnershipPeriod
from producer.errors import UnknownOutcome


class PartTicket:
    """One part of `ticket`, which may have others (kafkawire.model.Ticket, producer.outcomes.OffsetListener).

    position: of the source, where the part ends; None: others for its partition lie before the same position.
    counted: the part's count is exact.  doubtful(): it failed, since nobody knows whether it is stored; None: then it
    is sent again.
    """

    __slots__ = ("_base", "_counted", "_doubtful", "_end", "_following", "_lacking", "_position", "_target", "_ticket")

    def __init__(
        self,
        ticket: Ticket,
        following: OwnershipPeriod,
        target: TopicPartition,
        position: int | None,
        counted: bool,
        doubtful: Callable[[], object] | None = None,
    ) -> None:
        self._ticket = ticket
        self._following = following
        self._target = target
        self._position = position
        self._counted = counted
        self._doubtful = doubtful
        self._base: tuple[int, bool] | None = None
        self._end = (0, False)
        self._lacking = False  # of a piece of it the broker did not say where it is

    @property
    def once(self) -> bool:
        """It must not be stored twice (producer.outcomes.AtMostOnce)."""
        return self._doubtful is not None

    def may_send(self) -> bool:
        return self._ticket.may_send()

    def placed(self, count: int, offset: int | None, exact: bool) -> None:
        """The next piece of it is stored; usually it is one."""
        if offset is None:
            self._lacking = True
            return
        if self._base is None:
            self._base = (offset, exact)
        self._end = (offset + count, exact and self._counted)

    def reached(self, resume_at: int) -> None:
        self._ticket.reached(resume_at)

    def done(self) -> None:
        base = None if self._lacking else self._base
        self._following.acknowledged(
            self._target, base, self._end, self._position
        )  # first: done() may let it be committed
        self._ticket.done()

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self._following.failed()
        self._ticket.failed(reason, resume_at)
        if self._doubtful is not None and isinstance(reason, UnknownOutcome):
            self._doubtful()


def part_tickets(
    parts: tuple[Part, ...],
    ticket: Ticket,
    following: OwnershipPeriod,
    resume_at: int,
    doubtful: Callable[[], object] | None = None,
) -> list[PartTicket]:
    """A ticket for each part of a step that ends at resume_at; doubtful: see PartTicket."""
    last = {part.tp: n for n, part in enumerate(parts)}
    return [
        PartTicket(
            ticket,
            following,
            part.tp,
            resume_at if last[part.tp] == n else None,
            part.counted,
            doubtful,
        )
        for n, part in enumerate(parts)
    ]
