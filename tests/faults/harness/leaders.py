"""Leaders of a side's partitions: who leads what, waiting for another one, and moving them as the admin tools do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from kazoo.exceptions import NodeExistsError

from kafkawire.cluster.metadata import read_reply
from kafkawire.dialects import dialect
from kafkawire.errors import WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from localkafka import ports
from localkafka.node import Node
from localkafka.waiting import wait_until
from tests.faults.harness.clusters import Side
from tests.faults.harness.row import Run

ELECTION = "/admin/preferred_replica_election"
REASSIGNMENT = "/admin/reassign_partitions"


def leaders(side: Side, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The registered leader of each partition that has one."""
    registry, found = side.cluster.registry(), {}
    for topic in {tp.topic for tp in tps}:
        view = registry.view(topic)
        for partition, seen in view.topics.get(topic, {}).items():
            if seen.leader in view.brokers:
                found[TopicPartition(topic, int(str(partition)))] = seen.leader
    return {tp: found[tp] for tp in tps if tp in found}


def led_by(side: Side, broker: int, tps: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    """The partitions that this broker leads."""
    return tuple(tp for tp, leader in leaders(side, tps).items() if leader == broker)


def leading(side: Side, run: Run) -> Node:
    """A broker that leads some of the run's partitions, drawn by its seed."""
    return side.cluster.node(run.rng.choice(sorted({*leaders(side, run.tps).values()})))


def wait_moved(side: Side, away_from: int | None, tps: Sequence[TopicPartition], timeout_s: float = 90) -> float:
    """Wait until each of these partitions is led by another broker, and every living broker tells clients so; the
    time.monotonic() at which that was seen.  A controller that waits for a frozen broker tells the others late."""

    def moved() -> bool:
        now = leaders(side, tps)
        if len(now) != len(tps) or away_from in now.values():
            return False
        return all(told(side, node, tps) == now for node in side.cluster.nodes if node.active and node.id != away_from)

    wait_until(moved, timeout_s, lambda: f"other leaders than {away_from}; now {leaders(side, tps)}", every_s=0.05)
    return time.monotonic()


def told(side: Side, node: Node, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The leaders that a broker tells its clients; empty where it does not answer."""
    links = Links("leaders", timeout_ms=2000)
    speaks = dialect(side.cluster.version)
    try:
        topics = sorted({tp.topic for tp in tps})
        answer = links.link(Broker(node.id, ports.HOST, node.port), "metadata").call(
            speaks.requests.metadata(speaks, topics)
        )
        seen = read_reply(answer).topics
    except WireError:
        return {}
    finally:
        links.close()
    found = {tp: seen.get(tp.topic, {}).get(tp.partition) for tp in tps}
    return {tp: one.leader for tp, one in found.items() if one is not None and one.leader is not None}


def wait_in_sync(run: Run, side: Side, timeout_s: float = 90) -> None:
    """Wait until all replicas are in sync: before, another death might lose what was acknowledged."""
    for topic in run.topics:
        side.cluster.wait_in_sync(topic, timeout_s)


def elect_preferred(side: Side, tps: Sequence[TopicPartition]) -> None:
    """Have the first replica of each partition elected, as kafka-preferred-replica-election does; wait for its end."""
    rows = [{"topic": tp.topic, "partition": int(str(tp.partition))} for tp in tps]
    _asked(side, ELECTION, {"version": 1, "partitions": rows})


def reassign(side: Side, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Give partitions to other replicas, as kafka-reassign-partitions does; wait for its end."""
    rows = [
        {"topic": tp.topic, "partition": int(str(tp.partition)), "replicas": list(ids)} for tp, ids in replicas.items()
    ]
    _asked(side, REASSIGNMENT, {"version": 1, "partitions": rows})


def move_leaders(side: Side, tps: Sequence[TopicPartition], *, stays: bool) -> None:
    """Give each partition of two replicas to another leader.  stays: the old one stays a replica, and the new one leads
    by a preferred election; else the old one loses its replica."""
    ids = sorted(node.id for node in side.cluster.nodes)

    def behind(broker: int) -> int:
        return ids[(ids.index(broker) + 1) % len(ids)]

    before = leaders(side, tps)
    reassign(side, {tp: [behind(lead), lead if stays else behind(behind(lead))] for tp, lead in before.items()})
    if stays:
        elect_preferred(side, tps)
    wait_until(
        lambda: all(leaders(side, [tp]).get(tp, lead) != lead for tp, lead in before.items()), 30, "other leaders"
    )


def lines_of(run: Run, marks: Mapping[str, int]) -> int:
    """The most lines that the daemons' logs have of one partition, behind these lengths."""
    lines = [line for daemon in run.daemons for line in daemon.said_since(marks[daemon.name]).splitlines()]
    return max(sum(f"{tp.topic}/{tp.partition}" in line for line in lines) for tp in run.tps)


def stop_in_turn(side: Side, tps: Sequence[TopicPartition]) -> None:
    """SIGTERM to every broker of a side, to the next once the others have on disk what their leaders had.

    A follower of 0.8.2 cuts its log back to its high watermark, and leads with that where it is elected before it has
    fetched the rest again (KIP-101).  Brokers that all stop at once lose what they acknowledged that way.
    """
    for node in side.cluster.nodes:
        node.stop()
        if any(other.running for other in side.cluster.nodes):
            wait_moved(side, node.id, tps)  # who says so has cut its log
            _wait_level(side, tps)


def kill_all(side: Side) -> None:
    """SIGKILL to every broker of a side at once: nobody is left to move a lead."""
    with ThreadPoolExecutor(len(side.cluster.nodes)) as pool:
        list(pool.map(lambda node: node.kill(), side.cluster.nodes))


def _wait_level(side: Side, tps: Sequence[TopicPartition]) -> None:
    """Wait until every living broker has as many bytes of each partition as its leader has now."""

    def size(node: Node, tp: TopicPartition) -> int:
        return sum(file.stat().st_size for file in node.segments(tp.topic, int(str(tp.partition))))

    running = [node for node in side.cluster.nodes if node.running]
    wanted = {tp: size(side.cluster.node(leader), tp) for tp, leader in leaders(side, tps).items()}

    def behind() -> list[TopicPartition]:
        return [tp for tp, nbytes in wanted.items() if any(size(node, tp) < nbytes for node in running)]

    wait_until(lambda: not behind(), 30, lambda: f"replicas of {', '.join(map(str, behind()))}", every_s=0.05)


def _asked(side: Side, path: str, wanted: Mapping[str, object]) -> None:
    zk = side.cluster.registry().zk
    text = json.dumps(wanted).encode()

    def taken() -> bool:
        try:
            zk.create(path, text)
        except NodeExistsError:  # an earlier one is not done
            return False
        return True

    wait_until(taken, 60, f"{path} to be free")
    wait_until(lambda: not zk.exists(path), 60, f"the controller to do what {path} says")
