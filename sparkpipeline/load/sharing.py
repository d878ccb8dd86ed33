"""How much of what is due a batch takes, and which task reads what of it: planning.py, over a real cluster.

Where offsets are bytes (0.7) they are the sizes themselves, and ranges can only be cut where entries begin, which is
looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkpipeline.borders import Borders, cut_at_borders, ends_at_borders, needs_borders
from sparkpipeline.brokers import Brokers
from sparkpipeline.load.options import LoadConfig
from sparkpipeline.load.planner import AVERAGE_BYTES, cut, limited, tasks_of
from sparkpipeline.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class Sharing:
    """averages: bytes of a message by topic, as last loaded; cores: tasks that run at once."""

    config: LoadConfig
    brokers: Brokers
    averages: Mapping[str, float]
    cores: int

    @property
    def of_bytes(self) -> bool:
        """Whether offsets are bytes."""
        return needs_borders(self.brokers)

    @property
    def borders(self) -> Borders:
        """Where ranges of bytes may be cut."""
        return Borders.of(self.brokers, self.config.fetch_bytes)

    def size(self, ranges: Iterable[OffsetRange]) -> int:
        """Bytes, about."""
        listed = list(ranges)
        weights = self._weights(listed)
        return sum(int(rng.count * weights.get(rng.topic, AVERAGE_BYTES)) for rng in listed)

    def limited(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """No more than limit.rows and limit.bytes say.  Raises as Borders."""
        found = limited(ranges, self.config.limit_rows, self.config.limit_bytes, self._weights(ranges))
        if not self.of_bytes:
            return found
        begins, ends = {rng.tp: rng.start for rng in found}, {rng.tp: rng.until for rng in found}
        moved = ends_at_borders(begins, ends, {rng.tp: rng.until for rng in ranges}, self.borders)
        return [replace(rng, until=moved[rng.tp]) for rng in found]

    def cut_and_packed(self, ranges: Sequence[OffsetRange]) -> tuple[list[OffsetRange], list[int]]:
        """The ranges in the order of their tasks, and how many each task has.  Raises as Borders."""
        weights = self._weights(ranges)
        pieces = cut(ranges, self.config.split_bytes, weights)
        if self.of_bytes:
            pieces = cut_at_borders(pieces, self.borders)
        return tasks_of(pieces, self.config.pack_bytes, weights, self.cores)

    def _weights(self, ranges: Iterable[OffsetRange]) -> Mapping[str, float]:
        """Bytes of an offset by topic."""
        return {rng.topic: 1.0 for rng in ranges} if self.of_bytes else self.averages
