"""Where logs begin and end, and what they hold at a time: ListOffsets in bulk, asked of the leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from groundwork.plural import counted
from groupadmin.plan.wanted import TimeAnswer
from groupadmin.snapshot.cluster import Cluster, World, leaders_again
from groupadmin.snapshot.exchange import exchange
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import BrokerError, LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.v08 import apis
from zkconsumer.fetching.listoffsets import EARLIEST, LATEST, offset_rows

PER_REQUEST = 2000
ELSEWHERE = (3, 5, 6)  # not known here, no leader, another leads it: the view is old
Rows = dict[TopicPartition, tuple[int, int | None]]  # error and position


def log_bounds(world: World, cluster: Cluster, tps: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """First position and end of each log; left out where no leader answers, and told."""
    wanted = list(tps)
    starts, ends = ask_leaders(world, cluster, wanted, EARLIEST), ask_leaders(world, cluster, wanted, LATEST)
    found = {}
    for tp in wanted:
        start, end = _number(world, tp, starts), _number(world, tp, ends)
        if start is not None and end is not None:
            found[tp] = (start, end)
    return found


def at_time(
    world: World, cluster: Cluster, tps: Iterable[TopicPartition], time_ms: int
) -> dict[TopicPartition, TimeAnswer]:
    """What the leaders say to a look-up by time (ms since 1970); left out where none answers."""
    by_message = world.dialect.speaks(apis.LIST_OFFSETS.key) >= 1
    found = {}
    for tp, (error, at) in ask_leaders(world, cluster, tps, time_ms).items():
        position = at if at is not None and at >= 0 else None
        found[tp] = TimeAnswer(position, "message" if by_message else "segment", error)
    return found


def ask_leaders(world: World, cluster: Cluster, tps: Iterable[TopicPartition], time_ms: int) -> Rows:
    """Error and position of each; asked a second time where the first answer shows that leaders moved."""
    view, wanted = cluster.view, list(tps)
    rows = _ask(world, view, wanted, time_ms)
    left = [tp for tp in wanted if tp not in rows or rows[tp][0] in ELSEWHERE]
    if left and cluster.brokers:
        view = leaders_again(world, cluster) or ClusterView()  # nobody: told where it matters, these have no row
        rows |= _ask(world, view, left, time_ms)
    return rows


def _ask(world: World, view: ClusterView, tps: Iterable[TopicPartition], time_ms: int) -> Rows:
    led: dict[Broker, list[TopicPartition]] = {}
    for tp in tps:
        leader = view.leader(tp)
        if leader is not None:
            led.setdefault(leader, []).append(tp)
    make = world.dialect.requests.list_offsets
    asked = {
        broker: [
            ((broker, first), make(world.dialect, dict.fromkeys(some[first : first + PER_REQUEST], time_ms)))
            for first in range(0, len(some), PER_REQUEST)
        ]
        for broker, some in led.items()
    }
    rows: Rows = {}
    for (broker, _), reply in exchange(world.links, asked).items():
        if isinstance(reply, LinkLost):
            world.tell(f"{counted(len(led[broker]), 'partition')} led by {broker}: {reply}")
        else:
            rows |= offset_rows(reply)
    return rows


def _number(world: World, tp: TopicPartition, rows: Mapping[TopicPartition, tuple[int, int | None]]) -> int | None:
    row = rows.get(tp)
    if row is None:
        return None
    error, at = row
    if error:
        world.tell(f"where its log begins and ends is refused: {BrokerError(error, str(tp))}")
    return at if not error and at is not None and at >= 0 else None
