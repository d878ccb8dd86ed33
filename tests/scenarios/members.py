"""World and stories of a group on paper, of either kind: members that run the real machine (zkconsumer.member.machine).

The world is moved by single steps (one member takes one event, or does one action), in any order the caller likes.
A subclass takes the part of ZooKeeper or the coordinator: rebalance/world.py, coordinated/world.py.  The promises of a
group are checked after each step, so a Violation is raised at the step that broke one.

    # a comment
    topic t ...             the partitions of t (now)
    join a ...              a comes
    hold a before "claim"   a stops there; `go a` lets it continue
    break a at "claim"      the next one goes wrong
    kill a                  its process is gone
    close a                 a clean stop
    time                    all waits are over
    ----
    the trace: what the members do after each event, and who has what in the end

After each event the members run, one after the other, until all of them wait for time to pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kafkawire.model import TopicPartition
from tests.scenarios.stories import events_of, happen, turns
from zkconsumer.member.machine import MemberState, begin, step
from zkconsumer.member.steps import Action, Close, Do, Finished, Happening, Phase, Report

Done = tuple[Report | None, str]  # what an action reports, and what is said about it
S = TypeVar("S", bound=MemberState)


class Violation(AssertionError):
    """A promise is broken."""


@dataclass
class PaperMember(Generic[S]):
    name: str
    state: S
    actions: deque[Action] = field(default_factory=deque)
    events: deque[Report | Happening] = field(default_factory=deque)
    reading: set[TopicPartition] = field(default_factory=set)
    waiting: Action | None = None  # an action that is reported later

    def begin(self) -> None:
        self.state, actions = begin(self.state)
        self.actions.extend(actions)


M = TypeVar("M", bound=PaperMember[Any])


class GroupWorld(Generic[M]):
    def __init__(self) -> None:
        self.members: dict[str, M] = {}
        self.trace: list[tuple[str, str]] = []
        self.holds: dict[str, Do] = {}  # a member stops before this action
        self.breaks: dict[str, Do] = {}  # its next such action goes wrong

    def add(self, member: M) -> None:
        self.members[member.name] = member
        member.begin()

    def close(self, name: str) -> None:
        self.members[name].events.append(Close())

    # steps --------------------------------------------------------------------------------------------------------

    def movable(self) -> list[str]:
        """Members that have something to do that does not take time."""
        return [m.name for m in self.members.values() if self.runs(m) and (m.events or self._free_to_act(m))]

    def _free_to_act(self, member: M) -> bool:
        return bool(member.actions) and member.actions[0].do is not self.holds.get(member.name)

    def step(self, name: str) -> None:
        """One step of a member.  An action asked for is done before the next event is looked at, unless it is held."""
        member = self.members[name]
        if self._free_to_act(member):
            self._do(member, member.actions.popleft())
        else:
            member.state, actions = step(member.state, member.events.popleft())
            if any(action.turn for action in actions):  # what was held or waited for is out of date
                member.actions = deque(action for action in member.actions if not action.turn)
                member.waiting = None
            member.actions.extend(actions)
            if member.state.phase is Phase.CLOSED:
                if member.reading:
                    raise Violation(f"{name} has left and reads {member.reading}")
                del self.members[name]
                self.left(member)
        self.check()

    def run(self, pick: Callable[[list[str]], str] = lambda names: names[0], limit: int = 20_000) -> None:
        """Move members until all of them wait for time to pass."""
        for _ in range(limit):
            names = self.movable()
            if not names:
                return
            self.step(pick(names))
        raise Violation(f"no end in sight: {self.trace[-20:]}")

    def pass_time(self) -> bool:
        """End all waits.  Return False if no member waits."""
        waiting = [m for m in self.members.values() if self.runs(m) and m.waiting and m.waiting.do is Do.WAIT]
        for member in waiting:
            self.report(member, Finished)
        return bool(waiting)

    def report(self, member: M, report: Callable[[int], Report]) -> None:
        """Report the action that a member waits for.  report: makes a report with the turn of that action."""
        assert member.waiting is not None
        member.events.append(report(member.waiting.turn))
        member.waiting = None

    def _do(self, member: M, action: Action) -> None:
        broken = self.breaks.get(member.name) is action.do
        if broken:
            del self.breaks[member.name]
        report, said = getattr(self, f"_{action.do.name.lower()}")(member, action, broken or self.fails(member, action))
        what = {Do.WAIT: f"wait {action.wait_ms} ms", Do.ALARM: f"alarm ({action.text})"}.get(action.do, str(action))
        self.trace.append((member.name, f"{what} ({said})" if said else what))
        if report is not None:
            member.events.append(report)

    # the part of ZooKeeper or the coordinator -----------------------------------------------------------------

    def runs(self, member: M) -> bool:
        """True if the process of a member runs."""
        return True

    def fails(self, member: M, action: Action) -> bool:
        """True if an action fails now."""
        return False

    def left(self, member: M) -> None:
        """End the process of a member that has left its group."""

    def check(self) -> None:
        """Raise Violation if a partition is read by two."""
        readers: dict[TopicPartition, str] = {}
        for member in self.members.values():
            for tp in member.reading if self.runs(member) else ():
                if tp in readers:
                    raise Violation(f"{tp} is read by {readers[tp]} and {member.name}")
                readers[tp] = member.name

    # actions ------------------------------------------------------------------------------------------------------

    def _stop(self, member: M, action: Action, broken: bool) -> Done:
        member.reading -= action.assignment.keys()
        return Finished(action.turn), ""

    def _drain(self, member: M, action: Action, broken: bool) -> Done:
        return Finished(action.turn), ""

    def _wait(self, member: M, action: Action, broken: bool) -> Done:
        member.waiting = action
        return None, ""

    def _drop(self, member: M, action: Action, broken: bool) -> Done:
        member.reading -= action.assignment.keys()
        return None, ""

    def _alarm(self, member: M, action: Action, broken: bool) -> Done:
        return None, ""


def _hold(world: GroupWorld[Any], name: str, what: str) -> None:
    world.holds[name] = Do(what)


def _break(world: GroupWorld[Any], name: str, what: str) -> None:
    world.breaks[name] = Do(what)


IN_BOTH: dict[str, Callable[..., object]] = {
    r'hold (\w+) before "([\w ]+)"': _hold,
    r'break (\w+) at "([\w ]+)"': _break,
    r"go (\w+)": lambda world, name: world.holds.pop(name),
    r"kill (\w+)": lambda world, name: world.kill(name),
    r"close (\w+)": lambda world, name: world.close(name),
    r"time": lambda world: world.pass_time(),
}


def tell(events: str, world: GroupWorld[Any], effects: Mapping[str, Callable[..., object]]) -> list[str]:
    """Return the trace of a story's events."""
    told: list[str] = []
    for line in events_of(events):
        before = len(world.trace)
        happen(effects, world, line)
        world.run()
        told.append(f"> {line}")
        told += turns(world.trace[before:])
    return [*told, ""]
