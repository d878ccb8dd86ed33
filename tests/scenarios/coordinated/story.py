"""Stories of a group on Kafka's coordinator: what all groups have (members.py), and

    topic t 4               t has 4 partitions (now)
    join a; join a t u      a comes, and reads t; or t and u
    freeze a; thaw a        its process stands still; it runs again, its lease long over
    expire a                the coordinator ends its session
    cut a; mend a           the coordinator is out of its reach
    lease a                 its lease is over
    timeouts 60 20          session.timeout.ms and rebalance.timeout.ms of all, in s (10 and 60 without it)
    refuse a; accept a      the group takes no such member
    move; forget            the coordinator moves to another broker; it has lost the group
    time                    the coordinator has waited, too

In the end the trace says who reads what.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.scenarios import members
from tests.scenarios.coordinated.world import World


def tell(events: str) -> str:
    """The trace that the events lead to."""
    world = World()
    told = members.tell(events, world, EFFECTS)
    for name, member in sorted(world.members.items()):
        told.append(f"{name} reads {' '.join(map(str, sorted(member.reading))) or 'nothing'}")
    return "\n".join(told) + "\n"


EFFECTS: dict[str, Callable[..., object]] = {
    **members.IN_BOTH,
    r"timeouts (\d+) (\d+)": lambda world, session, rebalance: world.timeouts(int(session), int(rebalance)),
    r"topic (\w+) (\d+)": lambda world, name, count: world.topic(name, int(count)),
    r"join (\w+)": lambda world, name: world.join(name),
    r"join (\w+) ([\w ]+)": lambda world, name, topics: world.join(name, topics),
    r"freeze (\w+)": lambda world, name: world.freeze(name),
    r"thaw (\w+)": lambda world, name: world.thaw(name),
    r"expire (\w+)": lambda world, name: world.expire(name),
    r"cut (\w+)": lambda world, name: world.cut(name),
    r"mend (\w+)": lambda world, name: world.mend(name),
    r"lease (\w+)": lambda world, name: world.lease_over(name),
    r"refuse (\w+)": lambda world, name: world.refuse(name),
    r"accept (\w+)": lambda world, name: world.accept(name),
    r"move": lambda world: world.move(),
    r"forget": lambda world: world.forget(),
}
