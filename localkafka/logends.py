"""Where logs end, asked on the wire: no JVM is started, so that a wait may ask again and again."""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.cluster.listoffsets import LATEST, ask_offsets
from kafkawire.dialects import Dialect, dialect
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
        found = ask_offsets(links, speaks, {leader: [tp]}, {tp: LATEST}, purpose="log end")[tp]
        said = str(found.error)  # a leader just elected may not know it yet
        return None if found.offset is None else (found.offset,)

    return wait_until(answered, timeout_s, lambda: f"the log end of {tp}; {said}")[0]
