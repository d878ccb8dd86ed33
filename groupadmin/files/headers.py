"""Which column of a table says what: tools agree on neither order nor spelling, so headers are read, not counted.

kafka-consumer-groups   0.9   GROUP, TOPIC, PARTITION, CURRENT OFFSET, LOG END OFFSET, LAG, OWNER
                        0.10.1 TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID ...
                        2.0   GROUP in front; NEW-OFFSET in place of CURRENT-OFFSET after a reset
ConsumerOffsetChecker         Group Topic Pid Offset logSize Lag Owner
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MEANS = {
    "group": ("GROUP", "GROUP-ID", "CONSUMER-GROUP"),
    "topic": ("TOPIC",),
    "partition": ("PARTITION", "PID"),
    "position": ("CURRENT-OFFSET", "NEW-OFFSET", "OFFSET"),
    "log_end": ("LOG-END-OFFSET", "LOGSIZE"),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """Where in a row its values stand; None where there is no such column.  count: of all columns."""

    topic: int
    partition: int
    position: int
    group: int | None
    log_end: int | None
    count: int
    checker: bool = False  # ConsumerOffsetChecker's


def columns_of(names: Sequence[str]) -> Columns | None:
    """The columns that a header names; None when these names are no header of positions."""
    plain = [name.strip().upper().replace(" ", "-").replace("_", "-") for name in names]
    at = {field: next((plain.index(name) for name in known if name in plain), None) for field, known in _MEANS.items()}
    topic, partition, position = at["topic"], at["partition"], at["position"]
    if topic is None or partition is None or position is None:
        return None
    return Columns(topic, partition, position, at["group"], at["log_end"], len(plain), checker="PID" in plain)
