"""Stories of a group: the events as an operator would tell them, and the full trace they lead to.

    # a comment
    topic t: 0 1 2          t has these partitions (now)
    join a t=2              a comes, with two streams of t; without topics: one stream of each
    hold a before "claim"   a stands still there; `go a` lets it go on
    break a at "claim"      the next one goes wrong half way
    lose a                  its session runs out, the process lives on
    kill a                  its process and its session are gone
    close a                 a clean stop
    take t/0                somebody deletes the owner node of t/0
    foreign t/0 x-0         an owner node of a session nobody here has; `free t/0` ends it
    spoil b                 b's id node cannot be read; `mend b`
    filter x (a             somebody we do not run is registered with the white list (a
    unregister a            somebody deletes a's id node
    time                    whoever waits has waited
    ----
    the trace: what everybody does after each event, and in the end who owns what

After each event everybody goes on, one after the other, until nobody can without time passing.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.model import TopicPartition
from tests.scenarios.rebalance.world import World
from tests.scenarios.stories import events_of, happen, turns
from zkconsumer.group.steps import Do


def tell(events: str) -> str:
    """The trace that the events lead to."""
    world = World()
    told: list[str] = []
    for line in events_of(events):
        before = len(world.trace)
        happen(EFFECTS, world, line)
        world.run()
        told.append(f"> {line}")
        told += turns(world.trace[before:])
    told.append("")
    told += [f"{tp} is {owner.thread}'s" for tp, owner in sorted(world.owners.items())] or ["nobody owns anything"]
    return "\n".join(told) + "\n"


def _join(world: World, name: str, streams: str) -> None:
    counts = dict(pair.split("=") for pair in streams.split())
    world.join(name, {topic: int(count) for topic, count in counts.items()} or None)


def _hold(world: World, name: str, what: str) -> None:
    world.holds[name] = Do(what)


def _break(world: World, name: str, what: str) -> None:
    world.breaks[name] = Do(what)


def _tp(text: str) -> TopicPartition:
    topic, partition = text.rsplit("/", 1)
    return TopicPartition(topic, int(partition))


EFFECTS: dict[str, Callable[..., object]] = {
    r"topic (\w+):([ \d]*)": lambda world, name, numbers: world.topic(name, [int(n) for n in numbers.split()]),
    r"join (\w+)((?: \w+=\d+)*)": _join,
    r'hold (\w+) before "([\w ]+)"': _hold,
    r"go (\w+)": lambda world, name: world.holds.pop(name),
    r'break (\w+) at "([\w ]+)"': _break,
    r"lose (\w+)": lambda world, name: world.lose(name),
    r"kill (\w+)": lambda world, name: world.kill(name),
    r"close (\w+)": lambda world, name: world.close(name),
    r"take (\S+)": lambda world, tp: world.take(_tp(tp)),
    r"foreign (\S+) (\S+)": lambda world, tp, thread: world.foreign(_tp(tp), thread),
    r"free (\S+)": lambda world, tp: world.free(_tp(tp)),
    r"spoil (\w+)": lambda world, name: world.spoil(name),
    r"filter (\w+) (\S+)": lambda world, name, regex: world.filter(name, regex),
    r"mend (\w+)": lambda world, name: world.mend(name),
    r"unregister (\w+)": lambda world, name: world.unregister(name),
    r"time": lambda world: world.pass_time(),
}
