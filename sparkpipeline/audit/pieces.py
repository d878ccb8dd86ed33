"""What the tasks of an audit get: ranges cut into pieces and dealt to tasks by their length.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkawire.model import TopicPartition
from sparkpipeline.audit.counting import Piece
from sparkpipeline.audit.windows import Windows
from sparkpipeline.ranges import OffsetRange, in_steps, packed

LEAST, MOST = 20_000, 5_000_000  # offsets of a piece
TASKS_A_CORE = 3


def pieces(side: str, bounds: Mapping[TopicPartition, tuple[int, int]], windows: Windows, size: int) -> list[Piece]:
    """Each partition's range, start <= offset < until, in pieces of at most `size` offsets; empty ones have none."""
    return [
        Piece(side, step, windows)
        for tp, (start, until) in sorted(bounds.items())
        for step in in_steps(OffsetRange(tp.topic, tp.partition, start, until), size)
    ]


def size_for(offsets: int, cores: int) -> int:
    """How long a piece is at most, for so many offsets in all."""
    return max(LEAST, min(MOST, -(-offsets // (cores * TASKS_A_CORE))))


def dealt(every: Sequence[Piece], cores: int) -> list[list[Piece]]:
    """The pieces of each task, the longest first to whoever has least."""
    tasks = max(1, min(len(every), cores * TASKS_A_CORE))
    return packed(every, tasks, size=lambda piece: piece.count)
