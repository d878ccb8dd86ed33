"""Requests of a lane whose outcome is open, and what tells it: here the answers of brokers that answer (0.8 and later).

What brokers that never answer (0.7) are told by is in silence.py, with the same methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groundwork.crew import now
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.net.links import Links
from kafkawire.requests import Request
from producer.batches import Batch, Batches
from producer.leaders import Leaders
from producer.outages import Outages
from producer.outcomes import Outcomes
from producer.verdicts import UNANSWERED

if TYPE_CHECKING:
    from kafkawire.dialects import Dialect
    from producer.config import ProducerConfig


@dataclass(frozen=True, slots=True)
class Shared:
    """What all lanes of a sender work on."""

    dialect: Dialect
    config: ProducerConfig
    batches: Batches
    outcomes: Outcomes
    leaders: Leaders
    links: Links
    outages: Outages
    settled: Callable[[], object]  # something is over, or free to be sent elsewhere


@dataclass(eq=False, slots=True)
class Flight:
    """told_by: the request whose answer tells what became of the batches; None: nobody will.  covers: messages written
    unanswered before it, where it is there for them."""

    link: Link
    told_by: Request | None
    batches: Sequence[Batch] = ()
    covers: int = 0


class Answering:
    """Each produce request has its answer; with acks 0 none has, and counts as sent once it is written."""

    def __init__(self, shared: Shared) -> None:
        self._s = shared

    @property
    def unproved(self) -> int:
        """Messages that count as sent though their broker has shown no sign of life since."""
        return 0

    @property
    def sign_wanted(self) -> bool:
        """Whether next_sign() would be one."""
        return False

    def holds(self, flights: Iterable[Flight]) -> bool:
        """Whether nothing else may go while these are on their way."""
        return False

    def alone(self, flights: Iterable[Flight]) -> bool | None:
        """See Batches.due."""
        return None

    def fitting(self, due: list[Batch], broker: Broker) -> list[Batch]:
        """Those that may go."""
        return due

    def told_by(self, request: Request, tp: TopicPartition) -> Request | None:
        """Whose answer tells what became of a produce request with something of tp in it; None: nobody's."""
        return request if request.expects_reply else None

    def first_sign(self, link: Link, tp: TopicPartition) -> Flight | None:
        """What is to be asked before the first produce request of a link."""
        return None

    def next_sign(self, link: Link) -> Flight | None:
        """What is to be asked for the sake of what was written before."""
        return None

    def written(self, flight: Flight) -> None:
        """It counts as sent, and nobody tells more of it."""

    def settle(self, flight: Flight, answers: Any) -> bool:
        """The answer of a flight.  True: leaders should be looked up again."""
        refresh = False
        broker: Broker = flight.link.broker
        for batch in flight.batches:
            answer = answers.get(batch.tp, UNANSWERED)
            refresh |= self._s.outcomes.answered(batch, answer.error, answer.base_offset, broker, now())
        return refresh

    def lost(self, lost: LinkLost) -> bool:
        """The link is over with something on its way.  True: its broker closed it for what was the oldest."""
        return False
