"""History of a member's topics: partitions that appeared while it runs, and topics that are absent or were deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent


class TopicHistory:
    """Topics of one member, as it read them so far.  deleted: topics that were read and are deleted, with a sentence
    each."""

    def __init__(self, on_event: OnEvent) -> None:
        self.deleted: dict[str, str] = {}
        self._on_event = on_event
        self._known: frozenset[TopicPartition] | None = None
        self._topics_before: frozenset[str] | None = None  # topics of the subscription before it was changed
        self._absent: set[str] = set()

    def resubscribed(self, topics: Iterable[str]) -> None:
        """Record a new subscription, given the topics of the former one: topics that are new to it begin as after a
        start."""
        if self._topics_before is None:
            self._topics_before = frozenset(topics)

    def read(self, partitions: Collection[TopicPartition], resubscribed: bool) -> None:
        """Record the partitions of our topics.  resubscribed: they are those of the newest subscription."""
        if self._known is None:
            self._known = frozenset(partitions)
        if resubscribed and self._topics_before is not None:
            self._known |= {tp for tp in partitions if tp.topic not in self._topics_before}
            self._topics_before = None

    def appeared(self, tp: TopicPartition) -> bool:
        """True if a partition appeared while the member runs."""
        return self._known is not None and tp not in self._known

    def report_absent(self, topics: Iterable[str]) -> None:
        """Report once that a subscribed topic does not exist: perhaps its name is wrong."""
        absent = set(topics)
        for topic in sorted(absent - self._absent):
            self._on_event(ConsumerEvent("missing", f"topic {topic} does not exist (yet); waiting for it"))
        self._absent = absent

    def forget_deleted(self, existing: Collection[str], subscribes: Callable[[str], bool]) -> None:
        """Forget deleted topics that exist again, or are not subscribed to any more."""
        self.deleted = {t: why for t, why in self.deleted.items() if t not in existing and subscribes(t)}
