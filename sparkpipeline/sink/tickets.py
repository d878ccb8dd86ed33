"""The ticket of a part that a task sends: what is counted, and which rows an error is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kafkawire.model import Part, TopicPartition
from producer.errors import TooLarge
from sparkpipeline.errors import NotDelivered, PipelineError


class Sender(Protocol):
    """What is asked of sink.sender.TaskSender here.  failure: the first; nothing is sent any more from then on."""

    failure: NotDelivered | None
    called: str

    def acknowledged(self, tp: TopicPartition, count: int) -> None: ...

    def failed(self, failure: NotDelivered) -> None: ...


class Sent:
    """The ticket of a part.  numbers: of its rows; None: its entries carry source offsets."""

    __slots__ = ("_numbers", "_part", "_sender", "begun")

    def __init__(self, sender: Sender, part: Part, numbers: Sequence[int] | None) -> None:
        self._sender, self._part, self._numbers = sender, part, numbers
        self.begun = False  # it was there when a turn began

    def may_send(self) -> bool:
        return self._sender.failure is None

    def reached(self, resume_at: int) -> None:
        """Only the end of a part counts."""

    def done(self) -> None:
        self._sender.acknowledged(self._part.tp, self._part.count)

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        tp = self._part.tp
        self._sender.failed(
            NotDelivered(_sentence(reason), topic=tp.topic, partition=tp.partition, **self._which(reason, resume_at))
        )

    def _which(self, reason: Exception, resume_at: int | None) -> dict[str, Any]:
        """The rows, or the source offset, of what was not delivered."""
        if self._numbers is None:
            return {"source_offset": resume_at}
        left = self._numbers[resume_at or 0 :]
        if isinstance(reason, TooLarge) or len(left) < 2:
            return {self._sender.called: left[0] if left else None}
        return {self._sender.called: left[0], f"last_{self._sender.called}": left[-1]}


def _sentence(reason: Exception) -> str:
    if isinstance(reason, TooLarge):
        return (
            f"a message of {reason.size} bytes is larger than {reason.broker} takes: raise message.max.bytes there, or "
            "max.message.bytes of the topic"
        )
    return reason.sentence if isinstance(reason, PipelineError) else str(reason)
