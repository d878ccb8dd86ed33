"""Stories of a group in ZooKeeper: what all groups have (members.py), and

    topic t: 0 1 2          t has these partitions (now)
    join a t=2              a comes, with two streams of t; without topics: one stream of each
    lose a                  its session runs out, the process lives on
    kill a                  its process and its session are gone
    take t/0                somebody deletes the owner node of t/0
    foreign t/0 x-0         an owner node of a session nobody here has; `free t/0` ends it
    spoil b                 b's id node cannot be read; `mend b`
    filter x (a             somebody we do not run is registered with the white list (a
    unregister a            somebody deletes a's id node

In the end the trace says who owns what.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.model import TopicPartition
from tests.scenarios import members
from tests.scenarios.rebalance.world import World


def tell(events: str) -> str:
    """The trace that the events lead to."""
    world = World()
    told = members.tell(events, world, EFFECTS)
    told += [f"{tp} is {owner.thread}'s" for tp, owner in sorted(world.owners.items())] or ["nobody owns anything"]
    return "\n".join(told) + "\n"


def _join(world: World, name: str, streams: str) -> None:
    counts = dict(pair.split("=") for pair in streams.split())
    world.join(name, {topic: int(count) for topic, count in counts.items()} or None)


def _tp(text: str) -> TopicPartition:
    topic, partition = text.rsplit("/", 1)
    return TopicPartition(topic, int(partition))


EFFECTS: dict[str, Callable[..., object]] = {
    **members.IN_BOTH,
    r"topic (\w+):([ \d]*)": lambda world, name, numbers: world.topic(name, [int(n) for n in numbers.split()]),
    r"join (\w+)((?: \w+=\d+)*)": _join,
    r"lose (\w+)": lambda world, name: world.lose(name),
    r"take (\S+)": lambda world, tp: world.take(_tp(tp)),
    r"foreign (\S+) (\S+)": lambda world, tp, thread: world.foreign(_tp(tp), thread),
    r"free (\S+)": lambda world, tp: world.free(_tp(tp)),
    r"spoil (\w+)": lambda world, name: world.spoil(name),
    r"filter (\w+) (\S+)": lambda world, name, regex: world.filter(name, regex),
    r"mend (\w+)": lambda world, name: world.mend(name),
    r"unregister (\w+)": lambda world, name: world.unregister(name),
}
