"""Actions and events between the step machine (rebalance) and its executor.

An action carries a turn, and its report carries the same one.  An event is a report, or a happening without an action.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkawire.model import TopicPartition
from zkconsumer.group.membership import GroupChange

Assignment = Mapping[TopicPartition, str]  # the thread id that reads each partition


class Do(enum.Enum):
    """Action of the executor -> what it reports; (F): or Failed, if ZooKeeper or a store is used."""

    REGISTER = "register"  # wait for a session, create our id node with its data -> Finished (F)
    READ = (
        "read group"  # members, topics, partitions, all watched; assign -> GroupRead, NotRegistered, Unrecoverable (F)
    )
    STOP = "stop fetchers"  # for the assignment; deliver nothing more of it -> Finished
    DRAIN = "drain"  # wait until delivered messages are done, or rebalance.drain.ms is over -> Finished
    COMMIT = "commit offsets"  # for the assignment, under the lease -> Finished (F)
    RELEASE = "release claims"  # delete its owner nodes that our session holds; some may be missing -> Finished (F)
    CLAIM = "claim"  # claim all or none: claims won before a refusal are released again, unless accept_partial
    # -> Finished, ClaimsRefused (F)
    LOCATE = "read offsets"  # for the assignment, from the store -> Located (F)
    START = "start fetchers"  # for the assignment, from the offsets just read -> Finished
    WAIT = "wait"  # for wait_ms, or until one of its owner nodes is gone -> Finished
    LEAVE = "leave group"  # delete our id node -> Finished (F)
    DROP = "drop"  # stop at once, and drop what is delivered; no commit, release or report
    ALARM = "alarm"  # report text to the operator; no report to the machine


class Phase(enum.Enum):
    REGISTERING = Do.REGISTER
    READING = Do.READ
    STOPPING = Do.STOP
    DRAINING = Do.DRAIN
    COMMITTING = Do.COMMIT
    RELEASING = Do.RELEASE
    CLAIMING = Do.CLAIM
    LOCATING = Do.LOCATE
    STARTING = Do.START
    WAITING = Do.WAIT
    LEAVING = Do.LEAVE
    SETTLED = "settled"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Action:
    do: Do
    turn: int = 0
    assignment: Assignment = field(default_factory=dict)
    wait_ms: int = 0
    text: str = ""
    alarm: str = "outage"  # ALARM: the kind of its event
    accept_partial: bool = False  # READ leaves out members that cannot be read; CLAIM keeps what it wins

    def __str__(self) -> str:
        return " ".join([self.do.value, *(str(tp) for tp in self.assignment)])


# Reports -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finished:
    turn: int


@dataclass(frozen=True, slots=True)
class GroupRead:
    """The group was read.  assignment: of this member, by the group as it was read (membership.assignment_of).

    left_out: one sentence about members that are registered and not counted; empty: all are counted. recreated:
    partitions that are read, and whose topic was deleted and created again meanwhile: another log.
    """

    turn: int
    assignment: Assignment
    left_out: str = ""
    recreated: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class NotRegistered:
    """Our id node is missing, or belongs to another session."""

    turn: int


@dataclass(frozen=True, slots=True)
class Unrecoverable:
    """The assignment of the other members can never be computed here: leave the group."""

    turn: int
    why: str


@dataclass(frozen=True, slots=True)
class ClaimsRefused:
    """Not all claims were won.  contested: the holders; won: claims that are kept (usually none)."""

    turn: int
    contested: Assignment
    won: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Located:
    """Offsets are known (a number, or no committed offset) for tps; the others could not be read."""

    turn: int
    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Failed:
    """The action failed, or its outcome is unknown; why is one sentence."""

    turn: int
    why: str


# Happenings ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changed:
    """Ids or topics changed, or the session came back: what was read of the group may be outdated."""

    what: GroupChange


@dataclass(frozen=True, slots=True)
class SessionLost:
    pass


@dataclass(frozen=True, slots=True)
class OwnerLost:
    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Close:
    pass


Report = Finished | GroupRead | NotRegistered | Unrecoverable | ClaimsRefused | Located | Failed
Happening = Changed | SessionLost | OwnerLost | Close
