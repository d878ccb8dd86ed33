"""Stories of one partition: what happens to it, as an operator would tell it, and what that leads to.

    # a comment
    start at 100            claimed; its committed offset is 100.  `start at nothing`: none is committed
    located 0               its leader was asked where the log begins
    no leader               its broker is gone; `leader`: another one was found
    fetched 100..110        the response to a fetch: a set of ten messages, 10 bytes each
    take                    a mirror takes the next set of its stream
    take, commit first      the same with at-most-once; then `committed` or `not committed`
    send 105                a sender gets what lies before 105 of that set; `send 110 in 2 parts`
    may send 105            it asks whether it still may
    ack 105                 (one part of) it is stored
    stored 103 of 105       of what is sent as one part this much is stored
    fail 105                it can never be stored; `drop 105`: it will not be
    next                    a loop asks for the next message; `next, on-ack`: each is acknowledged by itself
    ack message             the one in hand; `leave`: the user asks for something else
    pause, resume, throttle, unthrottle, seek 50
    out of range            the broker refuses the position
    damaged                 the entry at the position is damaged once more
    skip to 120             nothing before that can be read; `nothing behind`: a fetch there brought nothing
    park why                nothing is delivered from the fetch position on; `park at once why`
    unpark                  read once more from what is done; `unpark at 110`: from there
    raise why               corrupt.message.policy=fail: the stream raises it when it gets there
    lease over, lease renewed, timer (the engine looks after what was withheld)
    commit                  the commit timer
    revoke                  another member gets it: what is delivered may be finished; `close`: it is not ours any more
    ----
    the trace: actions, answers, and what is different after each event

Offsets count messages; what may be committed, and how many bytes are held in memory, is told when it changes.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.scenarios.partition.world import World
from tests.scenarios.stories import events_of, happen


def tell(events: str) -> str:
    """The trace that the events lead to."""
    world = World()
    told: list[str] = []
    before = facts(world)
    for line in events_of(events):
        world.said = []
        happen(EFFECTS, world, line)
        after = facts(world)
        told.append(f"> {line}")
        if world.said:
            told.append(f"  {', '.join(world.said)}")
        changes = [now for was, now in zip(before, after, strict=True) if was != now]
        if changes:
            told.append(f"  {'; '.join(changes)}")
        before = after
    told += ["", "; ".join(facts(world))]
    return "\n".join(told) + "\n"


def facts(world: World) -> list[str]:
    partition = world.partition
    why = partition.undeliverable
    done = partition.committable()
    state = f"{partition.state.value}{f' ({why})' if why else ''}"
    busy = "drained" if partition.drained else "messages are in hand"
    committable = "nothing may be committed" if done is None else f"{done} may be committed"
    return [state, f"epoch {partition.epoch}", committable, f"{world.held_bytes} bytes held", busy]


def _start(world: World, at: str) -> None:
    world.start(None if at == "nothing" else int(at))


def _next(world: World, on_ack: str | None) -> None:
    at = world.next(on_ack is not None)
    world.said.append("no message" if at is None else f"message {at}")


def _may_send(world: World, name: str) -> None:
    world.said.append("yes" if world.ask(int(name)) else "no")


def _take(world: World, first: str | None) -> None:
    if world.take(first is not None) is None:
        world.said.append("no set")


def _commit(world: World) -> None:
    at = world.commit()
    world.said.append("nothing new" if at is None else f"commit {at}")


def _unpark(world: World, at: str | None) -> None:
    if not world.unpark(None if at is None else int(at)):
        world.said.append("not yet")


def _raise(world: World, why: str) -> None:
    error = ValueError(why)
    at = world.partition.position.offset
    assert at is not None
    world.partition.park(error)
    world.fetched(at, at, error)


EFFECTS: dict[str, Callable[..., object]] = {
    r"start at (\d+|nothing)": _start,
    r"located (\d+)": lambda world, at: world.seek(int(at)),
    r"no leader": lambda world: world.lead(False),
    r"leader": lambda world: world.lead(True),
    r"fetched (\d+)\.\.(\d+)": lambda world, start, end: world.fetched(int(start), int(end)),
    r"take(, commit first)?": _take,
    r"committed": lambda world: world.commit_ended(True),
    r"not committed": lambda world: world.commit_ended(False),
    r"send (\d+)": lambda world, at: world.send(int(at)),
    r"send (\d+) in (\d+) parts": lambda world, at, parts: world.send(int(at), int(parts)),
    r"may send (\d+)": _may_send,
    r"ack (\d+)": lambda world, at: world.ack(int(at)),
    r"stored (\d+) of (\d+)": lambda world, at, name: world.reached(int(name), int(at)),
    r"fail (\d+)": lambda world, at: world.fail(int(at)),
    r"drop (\d+)": lambda world, at: world.drop(int(at)),
    r"next(, on-ack)?": _next,
    r"ack message": lambda world: world.ack_message(),
    r"leave": lambda world: world.leave(),
    r"pause": lambda world: world.pause(),
    r"resume": lambda world: world.resume(),
    r"throttle": lambda world: world.throttle(0),
    r"unthrottle": lambda world: world.throttle(None),
    r"seek (\d+)": lambda world, at: world.seek(int(at)),
    r"out of range": lambda world: world.out_of_range(),
    r"log (?:begins at|holds|goes back to) (\d+)": lambda world, at: world.relocate(int(at)),
    r"done\?": lambda world: world.go_back(),
    r"damaged": lambda world: world.said.append(f"found damaged {world.damaged()} times"),
    r"skip to (\d+)": lambda world, to: world.skip_to(int(to)),
    r"nothing behind": lambda world: world.pass_skips(),
    r"park at once (.+)": lambda world, why: world.park(why, at_once=True),
    r"park (.+)": lambda world, why: world.park(why),
    r"unpark(?: at (\d+))?": _unpark,
    r"raise (.+)": _raise,
    r"lease over": lambda world: world.lease_ends(),
    r"lease renewed": lambda world: world.lease_renewed(),
    r"timer": lambda world: world.tend(),
    r"commit": _commit,
    r"revoke": lambda world: world.revoke(),
    r"close": lambda world: world.close(),
}
