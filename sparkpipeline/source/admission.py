"""How far a micro-batch goes: Spark's own rules for maxOffsetsPerTrigger and minOffsetsPerTrigger, and ours for bytes.

Pure: offsets in, offsets out; times are monotonic seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kafkawire.model import TopicPartition

At = Mapping[TopicPartition, int]


def shared(begin: At, end: At, most: int) -> dict[TopicPartition, int]:
    """Ends that are together at most `most` offsets behind their begins, shared out by lag.

    As Spark's kafka source: rounded down, but at least one of each partition that has any, so that the small are not
    starved (with more such partitions than `most` it is more).
    """
    return _shared(begin, end, dict.fromkeys(end, 1.0), most)


def shared_bytes(begin: At, end: At, sizes: Mapping[TopicPartition, float], most: int) -> dict[TopicPartition, int]:
    """The same for at most about `most` bytes; sizes: average bytes of an offset, above 0."""
    return _shared(begin, end, sizes, most)


def _shared(begin: At, end: At, sizes: Mapping[TopicPartition, float], most: float) -> dict[TopicPartition, int]:
    lags = {tp: at - begin[tp] for tp, at in end.items() if at > begin[tp]}
    total = float(sum(lag * sizes[tp] for tp, lag in lags.items()))
    if total <= most:
        return dict(end)
    return {tp: begin[tp] + _part(lags[tp], sizes[tp], most, total) if tp in lags else at for tp, at in end.items()}


def _part(lag: int, size: float, most: float, total: float) -> int:
    """Offsets of one partition's share."""
    share = most * (lag * size / total) / size
    return min(lag, math.ceil(share) if share < 1 else math.floor(share))


class Patience:
    """minOffsetsPerTrigger: a batch waits for so many offsets, but not longer than delay_s since the last one began.

    The first batch of a run does not wait, as in Spark.
    """

    def __init__(self, least: int | None, delay_s: float) -> None:
        self._least = least
        self._delay_s = delay_s
        self._last_s = -math.inf

    def waits(self, begin: At, end: At, now_s: float) -> bool:
        """Whether to wait on; when not, a batch begins now."""
        if self._least is None:
            return False
        new = sum(at - begin.get(tp, 0) for tp, at in end.items())
        if new < self._least and now_s - self._last_s < self._delay_s:
            return True
        self._last_s = now_s
        return False
