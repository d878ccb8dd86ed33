"""Where logs begin and end: ListOffsets, asked of the leaders that ZooKeeper names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from groundwork.plural import counted
from kafkawire.cluster.zookeeper import read_brokers, read_leaders
from kafkawire.dialects import Dialect
from kafkawire.errors import BrokerError, LinkLost
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.net.links import Links
from zkconsumer.fetching.listoffsets import EARLIEST, LATEST, offset_rows
from zkconsumer.session.zksession import ZkSession

__all__ = ["EARLIEST", "LATEST", "log_ends", "log_ends_by", "no_leader", "offset_rows"]


def log_ends(
    session: ZkSession,
    links: Links,
    dialect: Dialect,
    tps: Iterable[TopicPartition],
    time: int = LATEST,
    tell: Callable[[str], object] = lambda text: None,
) -> dict[TopicPartition, int]:
    """One end of each log; left out where no leader answers, and told.  Raises ZooKeeperAway."""
    wanted = list(tps)
    brokers = session.ask("read brokers", read_brokers, dialect.znodes)
    leaders = session.ask("read leaders", read_leaders, dialect.znodes, wanted)
    return log_ends_by(links, dialect, brokers, leaders, time, tell)


def log_ends_by(
    links: Links,
    dialect: Dialect,
    brokers: Mapping[int, Broker],
    leaders: Mapping[TopicPartition, int | None],
    time: int = LATEST,
    tell: Callable[[str], object] = lambda text: None,
) -> dict[TopicPartition, int]:
    """The same where the leaders are known; tell(sentence) says why one is left out."""
    by_broker: dict[Broker, list[TopicPartition]] = {}
    for tp, leader in leaders.items():
        if leader is not None and leader in brokers:
            by_broker.setdefault(brokers[leader], []).append(tp)
        else:
            tell(f"{tp}: {no_leader(tp) if leader is None else f'its leader, broker {leader}, is not registered'}")
    found: dict[TopicPartition, int] = {}
    for broker, led in by_broker.items():
        try:
            reply = links.link(broker, "offsets").call(dialect.requests.list_offsets(dialect, dict.fromkeys(led, time)))
        except LinkLost as lost:
            tell(f"{counted(len(led), 'partition')} led by {broker}: {lost}")
            continue
        for tp, (error, at) in offset_rows(reply).items():
            if error == 0 and at is not None:
                found[tp] = at
            else:
                tell(f"where its log ends is refused: {BrokerError(error, f'{tp} on {broker}')}")
    return found


def no_leader(tp: TopicPartition) -> str:
    """Why nobody can be asked about it."""
    if isinstance(tp.partition, BrokerPartition):
        return f"broker {tp.partition.broker} is not registered with it in ZooKeeper"
    return "it has no leader"
