"""Columns of a table by its header: tools agree neither on order nor on spelling.

kafka-consumer-groups   0.9   GROUP, TOPIC, PARTITION, CURRENT OFFSET, LOG END OFFSET, LAG, OWNER
                        0.10.1 TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID ...
                        2.0   GROUP in front; NEW-OFFSET in place of CURRENT-OFFSET after a reset
ConsumerOffsetChecker         Group Topic Pid Offset logSize Lag Owner
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

_MEANS = {
    "group": ("GROUP", "GROUP-ID", "CONSUMER-GROUP"),
    "topic": ("TOPIC",),
    "partition": ("PARTITION", "PID"),
    "position": ("CURRENT-OFFSET", "NEW-OFFSET", "OFFSET"),
    "log_end": ("LOG-END-OFFSET", "LOGSIZE"),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """Column indexes of a table; None for a missing column.  count: number of columns."""

    topic: int
    partition: int
    position: int
    _: KW_ONLY
    group: int | None
    log_end: int | None
    count: int
    checker: bool = False  # ConsumerOffsetChecker's


def columns_of(names: Sequence[str]) -> Columns | None:
    """The columns of a header; None when these names are not a header of an offset table."""
    plain = [name.strip().upper().replace(" ", "-").replace("_", "-") for name in names]
    at = {field: next((plain.index(name) for name in known if name in plain), None) for field, known in _MEANS.items()}
    topic, partition, position = at["topic"], at["partition"], at["position"]
    if topic is None or partition is None or position is None:
        return None
    return Columns(
        topic, partition, position, group=at["group"], log_end=at["log_end"], count=len(plain), checker="PID" in plain
    )
