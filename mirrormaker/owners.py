"""Finds partitions of mirrored topics that no member of the group owns.

A member that hangs in a rebalance, or one of another program with another assignment, leaves partitions without an
owner: no member lags, so no lag shows them.  During a rebalance, partitions have no owner for a moment, so only those
count that had none in two consecutive checks.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from groundwork.tasks import sleep
from kafkawire.model import TopicPartition
from mirrormaker.selection import Selection
from mirrormaker.source import Source
from zkconsumer.errors import ConsumerError

log = logging.getLogger(__name__)

EVERY_S = 60.0  # a check reads a node for each topic and each partition


class OwnerWatch:
    """Watch for partitions without an owner.  selections: the current topics of each source, by name."""

    def __init__(
        self, sources: Sequence[Source], selections: Mapping[str, Selection], every_s: float = EVERY_S
    ) -> None:
        self._sources = sources
        self._selections = selections
        self._every_s = every_s
        self._free: dict[str, Collection[TopicPartition]] = {}  # result of the last check, by source
        self._counts: dict[str, int] = {}

    def run(self) -> None:
        """Check repeatedly."""
        while True:
            sleep(self._every_s)
            for source in self._sources:
                self.look(source)

    def look(self, source: Source) -> None:
        """Count the unowned partitions of one source; the count is unknown if its cluster does not answer."""
        try:
            free = self._unowned(source) if source.joined and source.assigned else None
        except ConsumerError as unanswered:
            log.debug("source %s: owners of partitions cannot be read: %s", source.name, unanswered)
            free = None
        before = self._free.pop(source.name, None)
        self._counts.pop(source.name, None)
        if free is None:
            return
        self._free[source.name] = free
        if before is not None or not free:
            self._counts[source.name] = len(free.intersection(before or ()))

    def _unowned(self, source: Source) -> set[TopicPartition]:
        selects = self._selections[source.name].selects
        topics = [topic for topic in source.all_topics() if selects(topic)]
        partitions = source.partitions_of(topics)
        owned = {*source.owners(topics), *(row.tp for row in source.partitions())}
        return {TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers} - owned

    def count(self, source: str) -> int | None:
        """Return the number of partitions without an owner, or None if unknown."""
        return self._counts.get(source)
