"""What the step machine (rebalance) and its executor say to each other: actions one way, events the other.

An action carries a turn, and its report the same one.  Events are reports, or happenings that nobody asked for.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkawire.model import TopicPartition
from zkconsumer.group.membership import Event

Assignment = Mapping[TopicPartition, str]  # the thread id that reads each partition


class Do(enum.Enum):
    """What is asked of the connector -> what it reports; (F): or Failed, as ZooKeeper or a store is asked."""

    REGISTER = "register"  # wait for a session, create our id node with its data -> Finished (F)
    READ = "read group"  # members, topics, partitions, all watched; assign -> GroupRead, NotRegistered, NoWay (F)
    STOP = "stop fetchers"  # of share; hand out nothing more of it -> Finished
    DRAIN = "drain"  # wait until what was handed out of share is done, or rebalance.drain.ms is over -> Finished
    COMMIT = "commit offsets"  # of share, under the lease -> Finished (F)
    RELEASE = "release claims"  # delete the owner nodes of share that our session holds; absent is fine -> Finished (F)
    CLAIM = "claim"  # all of share or none: what was won before a refusal is given up again; unless we settle for
    # less -> Finished, Refused (F)
    LOCATE = "read offsets"  # of share, from the store -> Located (F)
    START = "start fetchers"  # of share, from the offsets just read -> Finished
    WAIT = "wait"  # wait_ms, or until an owner node in share is gone -> Finished
    LEAVE = "leave group"  # delete our id node -> Finished (F)
    DROP = "drop"  # stop share at once, and drop what was handed out of it; no commit, no release, no report
    ALARM = "alarm"  # tell the operator text; no report


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
    share: Assignment = field(default_factory=dict)
    wait_ms: int = 0
    text: str = ""
    settle_for_less: bool = False  # READ leaves members out that nobody can read; CLAIM keeps what it wins

    def __str__(self) -> str:
        return " ".join([self.do.value, *(str(tp) for tp in self.share)])


# Reports -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finished:
    turn: int


@dataclass(frozen=True, slots=True)
class GroupRead:
    """share: what this member is to own, by the group as it was read (membership.share_of).

    left_out: who is not counted though registered, one sentence; empty: everybody is counted.
    recreated: partitions that are read, and whose topic was deleted and created again meanwhile: another log.
    """

    turn: int
    share: Assignment
    left_out: str = ""
    recreated: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class NotRegistered:
    """Our id node is not there, or belongs to another session."""

    turn: int


@dataclass(frozen=True, slots=True)
class NoWay:
    """This group can never be divided as its other members divide it: leave it."""

    turn: int
    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Not all of the share was won; contested says who holds what, won what is kept (nothing, mostly)."""

    turn: int
    contested: Assignment
    won: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Located:
    """Offsets are known (a number, or none) for tps; of the others the store could not tell."""

    turn: int
    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Failed:
    """It did not work, or nobody knows; why is one sentence."""

    turn: int
    why: str


# Happenings ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changed:
    """Ids or topics changed, or the session came back: what was read of the group may be old."""

    what: Event


@dataclass(frozen=True, slots=True)
class SessionLost:
    pass


@dataclass(frozen=True, slots=True)
class OwnerLost:
    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Close:
    pass


Report = Finished | GroupRead | NotRegistered | NoWay | Refused | Located | Failed
Happening = Changed | SessionLost | OwnerLost | Close
