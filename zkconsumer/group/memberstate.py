"""State of a member between two events, and the resulting work for its partitions.  Pure.

    wanted     assigned to us by the group as last read             staying    owned, and wanted by the same thread
    owned      the owner nodes that are ours                     leaving    owned, and not staying
    running    owned, and read                                   missing    wanted, and not staying
    located    owned, and its offset was read in this round      to_start   staying, and not running
    maybe_owned  an attempt broke off: perhaps ours             to_release leaving, and maybe_owned
    recreated  read, and its topic was created again             to_stop    running, and leaving or recreated

The machine (rebalance) changes the state.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from kafkawire.model import TopicPartition
from zkconsumer.group.steps import Assignment, Phase

NOTHING: Assignment = {}
SHOWN = 8


@dataclass(frozen=True, slots=True)
class MemberState:
    """State between two events.  wanted and owned map partitions to the thread id that reads them."""

    max_retries: int
    backoff_ms: int
    phase: Phase = Phase.REGISTERING
    turn: int = 0
    asked: Assignment = field(default_factory=dict)  # partitions of the current action
    registered: bool = False
    closing: bool = False
    stale: bool = False  # the group changed after this round began to read it
    wanted: Assignment = field(default_factory=dict)  # assignment by the group as last read
    owned: Assignment = field(default_factory=dict)  # owner nodes of ours
    running: frozenset[TopicPartition] = frozenset()  # owned; its fetching has begun and has not been stopped for good
    recreated: frozenset[TopicPartition] = (
        frozenset()
    )  # their topic was created again: they are stopped and started, not released
    located: frozenset[TopicPartition] = frozenset()  # owned, its offset read in this round
    maybe_owned: Assignment = field(
        default_factory=dict
    )  # an attempt broke off: perhaps ours; released before any claim
    lost: frozenset[TopicPartition] = frozenset()  # owner nodes lost while this round was claiming
    blocked: str = ""  # why this round does not give us our whole assignment
    contested: Assignment = field(default_factory=dict)  # partitions we want, and their holders
    tries: int = 0  # failed rounds in a row

    @property
    def settled(self) -> bool:
        """True if we read our whole assignment, and no change is known."""
        return self.phase is Phase.SETTLED

    @property
    def staying(self) -> Assignment:
        """Return partitions that are owned, and that the same thread reads as before."""
        return {tp: thread for tp, thread in self.owned.items() if self.wanted.get(tp) == thread}

    @property
    def leaving(self) -> Assignment:
        return without(self.owned, self.staying.keys())

    @property
    def to_stop(self) -> Assignment:
        return only({**self.leaving, **only(self.owned, self.recreated)}, self.running)

    @property
    def to_release(self) -> Assignment:
        return {**self.leaving, **without(self.maybe_owned, self.staying.keys())}

    @property
    def missing(self) -> Assignment:
        return without(self.wanted, self.staying.keys())

    @property
    def to_start(self) -> Assignment:
        return without(self.staying, self.running)

    def work(self, phase: Phase) -> Assignment:
        """Return the partitions that a phase works on."""
        match phase:
            case Phase.STOPPING | Phase.DRAINING | Phase.COMMITTING:
                return self.to_stop
            case Phase.RELEASING:
                return self.to_release
            case Phase.CLAIMING:
                return self.missing
            case Phase.LOCATING:
                return self.to_start
            case Phase.STARTING:
                return only(self.to_start, self.located)
            case Phase.WAITING:
                return self.contested
            case _:
                return NOTHING


def only(assignment: Assignment, tps: Set[TopicPartition]) -> Assignment:
    return {tp: thread for tp, thread in assignment.items() if tp in tps}


def without(assignment: Assignment, tps: Set[TopicPartition]) -> Assignment:
    return {tp: thread for tp, thread in assignment.items() if tp not in tps}


def holders(contested: Assignment) -> str:
    """Return the first few contested partitions with their holders, as text."""
    shown = [f"{tp} by {who}" for tp, who in list(contested.items())[:SHOWN]]
    return ", ".join(shown) + (f" and {len(contested) - SHOWN} more" if len(contested) > SHOWN else "")
