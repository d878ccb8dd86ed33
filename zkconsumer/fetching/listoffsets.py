"""What a ListOffsets reply says, in either of its versions.  Knows no socket and no ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkawire.model import TopicPartition

EARLIEST, LATEST = -2, -1  # as a time to ask for


def offset_rows(reply: Mapping[str, Any]) -> dict[TopicPartition, tuple[int, int | None]]:
    """Error and offset by partition, of a ListOffsets reply: v0 has a list, v1 one."""
    rows: dict[TopicPartition, tuple[int, int | None]] = {}
    for topic in reply["topics"]:
        for row in topic["partitions"]:
            offset = next(iter(row["offsets"]), None) if "offsets" in row else row["offset"]
            rows[TopicPartition(topic["topic"], row["partition"])] = (row["error"], offset)
    return rows
