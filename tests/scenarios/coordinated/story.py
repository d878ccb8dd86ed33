"""Stories of a group on Kafka's coordinator: the events as an operator would tell them, and the trace they lead to.

# a comment
topic t 4               t has 4 partitions (now)
join a; join a t u      a comes, and reads t; or t and u
hold a before "join"    a stands still there; `go a` lets it go on
break a at "commit offsets"     the next one goes wrong
freeze a; thaw a        its process stands still; it runs again, its lease long over
expire a                the coordinator ends its session
cut a; mend a           the coordinator is out of its reach
lease a                 its lease is over
timeouts 60 20          session.timeout.ms and rebalance.timeout.ms of all, in s (10 and 60 without it)
kill a; close a         its process is gone; a clean stop
refuse a; accept a      the group takes no such member
move; forget            the coordinator moves to another broker; it has lost the group
time                    whoever waits has waited, the coordinator too
----
the trace: what everybody does after each event, and in the end who reads what
"""

from __future__ import annotations

from collections.abc import Callable

from tests.scenarios.coordinated.world import World
from tests.scenarios.stories import events_of, happen, turns
from zkconsumer.kafkagroup.lifecycle import Do


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
    for name, member in sorted(world.members.items()):
        told.append(f"{name} reads {' '.join(map(str, sorted(member.reading))) or 'nothing'}")
    return "\n".join(told) + "\n"


def _hold(world: World, name: str, what: str) -> None:
    world.holds[name] = Do(what)


def _break(world: World, name: str, what: str) -> None:
    world.breaks[name] = Do(what)


EFFECTS: dict[str, Callable[..., object]] = {
    r"timeouts (\d+) (\d+)": lambda world, session, rebalance: world.timeouts(int(session), int(rebalance)),
    r"topic (\w+) (\d+)": lambda world, name, count: world.topic(name, int(count)),
    r"join (\w+)": lambda world, name: world.join(name),
    r"join (\w+) ([\w ]+)": lambda world, name, topics: world.join(name, topics),
    r'hold (\w+) before "([\w ]+)"': _hold,
    r'break (\w+) at "([\w ]+)"': _break,
    r"go (\w+)": lambda world, name: world.holds.pop(name),
    r"freeze (\w+)": lambda world, name: world.freeze(name),
    r"thaw (\w+)": lambda world, name: world.thaw(name),
    r"expire (\w+)": lambda world, name: world.expire(name),
    r"cut (\w+)": lambda world, name: world.cut(name),
    r"mend (\w+)": lambda world, name: world.mend(name),
    r"lease (\w+)": lambda world, name: world.lease_over(name),
    r"kill (\w+)": lambda world, name: world.kill(name),
    r"close (\w+)": lambda world, name: world.close(name),
    r"refuse (\w+)": lambda world, name: world.refuse(name),
    r"accept (\w+)": lambda world, name: world.accept(name),
    r"move": lambda world: world.move(),
    r"forget": lambda world: world.forget(),
    r"time": lambda world: world.pass_time(),
}
