"""Where logs begin and end: ListOffsets, asked of the leaders that ZooKeeper names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkawire.cluster.zookeeper import read_brokers, read_leaders
from kafkawire.dialects import Dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from zkconsumer.zksession import ZkSession

EARLIEST, LATEST = -2, -1


def offset_rows(reply: Mapping[str, Any]) -> dict[TopicPartition, tuple[int, int | None]]:
    """Error and offset by partition, of a ListOffsets reply: v0 has a list, v1 one."""
    rows: dict[TopicPartition, tuple[int, int | None]] = {}
    for topic in reply["topics"]:
        for row in topic["partitions"]:
            offset = next(iter(row["offsets"]), None) if "offsets" in row else row["offset"]
            rows[TopicPartition(topic["topic"], row["partition"])] = (row["error"], offset)
    return rows


def log_ends(
    session: ZkSession, links: Links, dialect: Dialect, tps: Iterable[TopicPartition], time: int = LATEST
) -> dict[TopicPartition, int]:
    """One end of each log; left out where no leader answers.  Raises ZooKeeperAway."""
    wanted = list(tps)
    brokers = session.ask("read brokers", read_brokers, dialect.znodes)
    leaders = session.ask("read leaders", read_leaders, dialect.znodes, wanted)
    by_broker: dict[Broker, list[TopicPartition]] = {}
    for tp, leader in leaders.items():
        if leader in brokers:
            by_broker.setdefault(brokers[leader], []).append(tp)
    found: dict[TopicPartition, int] = {}
    for broker, led in by_broker.items():
        try:
            reply = links.link(broker, "offsets").call(dialect.requests.list_offsets(dialect, dict.fromkeys(led, time)))
        except LinkLost:
            continue
        found |= {tp: at for tp, (error, at) in offset_rows(reply).items() if error == 0 and at is not None}
    return found
