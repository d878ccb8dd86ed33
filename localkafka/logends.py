"""Where logs end, asked on the wire: no JVM is started, so that a wait may ask again and again."""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import BrokerError, LinkLost
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from localkafka.client import ClusterClient
from localkafka.waiting import wait_until


def log_end_offsets(cluster: ClusterClient, topics: Iterable[str], timeout_s: float = 15) -> dict[TopicPartition, int]:
    """The next offset of every partition of these topics, asked of its leader.
    A topic that is not there has no partitions.  Raises LocalKafkaError when a leader does not answer in timeout_s."""
    speaks = dialect(cluster.version)
    links = Links("localkafka", timeout_ms=int(timeout_s * 1000))
    try:
        return {
            tp: _end(cluster, tp, speaks, links, timeout_s)
            for topic in topics
            for tp in (TopicPartition(topic, p) for p in cluster.registry().view(topic).partitions(topic))
        }
    finally:
        links.close()


def _end(cluster: ClusterClient, tp: TopicPartition, speaks: Dialect, links: Links, timeout_s: float) -> int:
    said = "it has no leader"

    def answered() -> tuple[int] | None:
        nonlocal said
        leader = cluster.registry().view(tp.topic).leader(tp)
        if leader is None:
            return None
        try:
            body = links.link(leader, "log end").call(speaks.requests.list_offsets(speaks, {tp: -1}))
        except LinkLost as lost:
            said = str(lost)
            return None
        row = body["topics"][0]["partitions"][0]
        if row["error"]:  # a leader just elected may not know it yet
            said = str(BrokerError(row["error"], f"{tp} on {leader}"))
            return None
        return (row["offset"] if "offset" in row else row["offsets"][0],)

    return wait_until(answered, timeout_s, lambda: f"the log end of {tp}; {said}")[0]
