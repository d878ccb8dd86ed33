"""What a member knows between two events, and what follows from it for its share.  Pure.

    wanted     what the group as last read gives us              staying    owned, and wanted by the same thread
    owned      the owner nodes that are ours                     leaving    owned, and not staying
    running    owned, and read                                   missing    wanted, and not staying
    located    owned, and its offset was read in this round      to_start   staying, and not running
    suspect    perhaps ours, perhaps not: an attempt broke off   to_release leaving, and what is suspect
    recreated  read, and its topic was created again             to_stop    running, and leaving or recreated

How it changes is the machine's business (rebalance).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from kafkawire.model import TopicPartition
from zkconsumer.group.steps import Assignment, Phase

NOTHING: Assignment = {}
TOLD = 8


@dataclass(frozen=True, slots=True)
class State:
    """All that is known between two events.  wanted and owned are by partition: the thread id that reads it."""

    max_retries: int
    backoff_ms: int
    phase: Phase = Phase.REGISTERING
    turn: int = 0
    asked: Assignment = field(default_factory=dict)  # what the action under way is about
    registered: bool = False
    closing: bool = False
    stale: bool = False  # the group changed after this round began to read it
    wanted: Assignment = field(default_factory=dict)  # by the group as last read
    owned: Assignment = field(default_factory=dict)  # owner nodes of ours
    running: frozenset[TopicPartition] = frozenset()  # owned, and its fetching began and was not yet stopped for good
    recreated: frozenset[TopicPartition] = (
        frozenset()
    )  # their topic was created again: stopped and started, not released
    located: frozenset[TopicPartition] = frozenset()  # owned, its offset read in this round
    suspect: Assignment = field(default_factory=dict)  # an attempt broke off: may be ours; released before any claim
    lost: frozenset[TopicPartition] = frozenset()  # owner nodes lost while this round was claiming
    blocked: str = ""  # why this round does not give us all of our share
    contested: Assignment = field(default_factory=dict)  # who holds what we want
    tries: int = 0  # rounds in a row that did not

    @property
    def settled(self) -> bool:
        """We read all of our share, and nothing is known to have changed."""
        return self.phase is Phase.SETTLED

    @property
    def staying(self) -> Assignment:
        """Owned, and to be read by the same thread as before."""
        return {tp: thread for tp, thread in self.owned.items() if self.wanted.get(tp) == thread}

    @property
    def leaving(self) -> Assignment:
        return without(self.owned, self.staying.keys())

    @property
    def to_stop(self) -> Assignment:
        return only({**self.leaving, **only(self.owned, self.recreated)}, self.running)

    @property
    def to_release(self) -> Assignment:
        return {**self.leaving, **without(self.suspect, self.staying.keys())}

    @property
    def missing(self) -> Assignment:
        return without(self.wanted, self.staying.keys())

    @property
    def to_start(self) -> Assignment:
        return without(self.staying, self.running)

    def work(self, phase: Phase) -> Assignment:
        """The partitions a phase is about."""
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


def only(share: Assignment, tps: Set[TopicPartition]) -> Assignment:
    return {tp: thread for tp, thread in share.items() if tp in tps}


def without(share: Assignment, tps: Set[TopicPartition]) -> Assignment:
    return {tp: thread for tp, thread in share.items() if tp not in tps}


def held(contested: Assignment) -> str:
    """The first few, and who holds them: of a thousand nobody reads the rest."""
    told = [f"{tp} by {who}" for tp, who in list(contested.items())[:TOLD]]
    return ", ".join(told) + (f" and {len(contested) - TOLD} more" if len(contested) > TOLD else "")
