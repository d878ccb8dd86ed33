"""Tickets that tell the offset map where their parts were stored: decorators of a flow's own tickets.

MapTickets      each part's ticket passes the offsets in the broker's response to the recorder
ResumeTickets   tickets for resume: target-end, where a part must not be stored twice: messages are counted exactly, and
                an unknown outcome is reported instead of retried
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kafkawire.dialects import Dialect
from kafkawire.model import MessageSet, Part, Ticket, TopicPartition
from mirrormaker.offsetmap.checkpoints import OwnershipPeriod
from mirrormaker.offsetmap.recorder import MapRecorder
from mirrormaker.routes import TopicRoute
from mirrormaker.source import Share
from producer.conversion import Step
from producer.errors import UnknownOutcome


class PartTicket:
    """Ticket of one part of a step, which shares `ticket` with other parts (kafkawire.model.Ticket,
    producer.outcomes.OffsetListener).

    position: the source offset where the part ends, or None if more for its target partition ends at the same position.
    counted: the part's count is exact.  unknown(): called after the part failed with an unknown outcome; None to retry
    it instead.
    """

    __slots__ = (
        "_base",
        "_counted",
        "_end",
        "_missing",
        "_period",
        "_position",
        "_reached",
        "_sent",
        "_target",
        "_ticket",
        "_unknown",
    )

    def __init__(
        self,
        ticket: Ticket,
        period: OwnershipPeriod,
        part: Part,
        *,
        position: int | None,
        unknown: Callable[[], object] | None = None,
    ) -> None:
        self._ticket = ticket
        self._period = period
        self._target = part.tp
        self._sent = period.sends(part.tp)
        self._reached: int | None = None
        self._position = position
        self._counted = part.counted
        self._unknown = unknown
        self._base: tuple[int, bool] | None = None
        self._end = (0, False)
        self._missing = False  # the broker did not say where a piece of it is stored

    @property
    def once(self) -> bool:
        """True if it must not be stored twice (producer.outcomes.AtMostOnce)."""
        return self._unknown is not None

    def may_send(self) -> bool:
        return self._ticket.may_send()

    def placed(self, count: int, offset: int | None, exact: bool) -> None:
        """Record that the next piece of it is stored; usually there is only one."""
        if offset is None:
            self._missing = True
            return
        if self._base is None:
            self._base = (offset, exact)
        self._end = (offset + count, exact and self._counted)

    def reached(self, resume_at: int) -> None:
        if self._reached is None or resume_at > self._reached:
            self._reached = resume_at
            self._acknowledged(resume_at)  # before reached(), which may let it be committed
            self._sent, self._base, self._missing = self._period.sends(self._target), None, False  # the rest of it
        self._ticket.reached(resume_at)

    def done(self) -> None:
        self._acknowledged(self._position)  # before done(), which may let it be committed
        self._ticket.done()

    def _acknowledged(self, position: int | None) -> None:
        self._period.acknowledged(self._sent, None if self._missing else self._base, self._end, position)

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self._period.failed()
        self._ticket.failed(reason, resume_at)
        if self._unknown is not None and isinstance(reason, UnknownOutcome):
            self._unknown()


def part_tickets(
    parts: Sequence[Part],
    ticket: Ticket,
    period: OwnershipPeriod,
    resume_at: int,
    *,
    unknown: Callable[[], object] | None = None,
) -> list[tuple[Part, PartTicket]]:
    """Return the parts of a step that ends at resume_at, each with its ticket.  For `unknown`, see PartTicket."""
    end = resume_at if period.hands_out(resume_at) else None
    if len(parts) == 1:
        return [(parts[0], PartTicket(ticket, period, parts[0], position=end, unknown=unknown))]
    last = {part.tp: n for n, part in enumerate(parts)}
    return [
        (
            part,
            PartTicket(ticket, period, part, position=end if last[part.tp] == n else None, unknown=unknown),
        )
        for n, part in enumerate(parts)
    ]


class MapTickets:
    """Factory of map tickets for a flow (mirrormaker.flow.Tickets)."""

    def __init__(self, recorder: MapRecorder) -> None:
        self._recorder = recorder

    def of_set(
        self, fetched: MessageSet, share: Share, topic: TopicRoute
    ) -> Callable[[Step], Sequence[tuple[Part, Ticket]]]:
        return partial(self._of_step, share, self._period(fetched, share, topic))

    def _period(self, fetched: MessageSet, share: Share, topic: TopicRoute) -> OwnershipPeriod:
        single = topic.route.single_target
        others = () if single else [TopicPartition(topic.target, partition) for partition in topic.partitions]
        return self._recorder.period(fetched, share, single, others, topic.target)

    def _of_step(self, share: Share, period: OwnershipPeriod, step: Step) -> Sequence[tuple[Part, Ticket]]:
        ticket = share.ticket(step.resume_at, len(step.parts))
        return part_tickets(step.parts, ticket, period, step.resume_at)


class ResumeTickets(MapTickets):
    """Factory of resume tickets.  unknown(source): called when a part of that source partition has an unknown
    outcome."""

    def __init__(self, recorder: MapRecorder, dialect: Dialect, unknown: Callable[[TopicPartition], object]) -> None:
        super().__init__(recorder)
        self._dialect = dialect
        self._unknown = unknown

    def _of_step(self, share: Share, period: OwnershipPeriod, step: Step) -> Sequence[tuple[Part, Ticket]]:
        parts = [counted(part, self._dialect) for part in step.parts]  # each message's position must be exact
        ticket = share.ticket(step.resume_at, len(parts))
        return part_tickets(parts, ticket, period, step.resume_at, unknown=partial(self._unknown, period.source))


def counted(part: Part, dialect: Dialect) -> Part:
    """Return the part with its exact number of messages; opens a wrapper to count them.  Raises CorruptMessage."""
    if part.counted:
        return part
    found, _ = dialect.messages.message_set(part.tp.topic, part.tp.partition, 0, memoryview(part.entries), 0)
    return replace(part, count=sum(1 for _ in found.messages(check_crcs=False)), counted=True)
