"""Actions and events between the machine of a member (machine) and its executor (executor), in both kinds of group.

An action carries a turn, and its report carries the same one.  An event is a report, or a happening without an action.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from kafkawire.model import TopicPartition

Assignment = Mapping[TopicPartition, str]  # the thread id that reads each partition
NOTHING: Assignment = {}


def only(assignment: Assignment, tps: Set[TopicPartition]) -> Assignment:
    return {tp: thread for tp, thread in assignment.items() if tp in tps}


def without(assignment: Assignment, tps: Set[TopicPartition]) -> Assignment:
    return {tp: thread for tp, thread in assignment.items() if tp not in tps}


@dataclass(frozen=True, slots=True)
class Claim:
    """Basis of ownership in a coordinated group: a generation of the group, and our member id."""

    generation: int
    member_id: str

    def __str__(self) -> str:
        return f"generation {self.generation}"


class Do(enum.Enum):
    """Action of the executor -> its reports; (F): or Failed, if ZooKeeper, a broker or a store is used."""

    STOP = "stop fetchers"  # for the assignment; deliver nothing more of it -> Finished
    DRAIN = "drain"  # wait until delivered messages are done, or rebalance.drain.ms is over -> Finished
    COMMIT = "commit offsets"  # for the assignment, under the lease -> Finished (F)
    LOCATE = "read offsets"  # for the assignment, from the store -> Located (F)
    START = "start fetchers"  # for the assignment, from the offsets just read -> Finished
    WAIT = "wait"  # for wait_ms, or until an owner node of the assignment is gone -> Finished
    LEAVE = "leave group"  # delete our id node, or LeaveGroup -> Finished (F)
    DROP = "drop"  # stop at once, and drop what is delivered; no commit, release or report
    ALARM = "alarm"  # report text to the operator; no report to the machine
    # in ZooKeeper
    REGISTER = "register"  # wait for a session, create our id node with its data -> Finished (F)
    READ = "read group"  # watch and read it, and assign -> GroupRead, NotRegistered, Unrecoverable (F)
    RELEASE = "release claims"  # delete its owner nodes that our session holds; some may be missing -> Finished (F)
    CLAIM = "claim"  # all or none, unless accept_partial -> Finished, ClaimsRefused (F)
    # on Kafka's coordinator
    JOIN = "join"  # find the coordinator, JoinGroup -> Joined, IdGiven, IdUnknown, Refused (F)
    SYNC = "sync"  # the leader assigns; SyncGroup, then a first heartbeat -> Synced, JoinAgain (F)


class Phase(enum.Enum):
    """Phase of a member: it waits for the report of an action, or, settled or closed, for a happening."""

    STOPPING = Do.STOP
    DRAINING = Do.DRAIN
    COMMITTING = Do.COMMIT
    LOCATING = Do.LOCATE
    STARTING = Do.START
    WAITING = Do.WAIT
    LEAVING = Do.LEAVE
    REGISTERING = Do.REGISTER
    READING = Do.READ
    RELEASING = Do.RELEASE
    CLAIMING = Do.CLAIM
    JOINING = Do.JOIN
    SYNCING = Do.SYNC
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
    member_id: str = ""  # JOIN, LEAVE: our member id; "": the coordinator gives a new one
    claim: Claim | None = None  # SYNC

    def __str__(self) -> str:
        return " ".join([self.do.value, *(str(tp) for tp in self.assignment)])


# Reports -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finished:
    turn: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The action failed, or its outcome is unknown; why is one sentence."""

    turn: int
    why: str


@dataclass(frozen=True, slots=True)
class Located:
    """Offsets are known (a number, or no committed offset) for tps; the others could not be read."""

    turn: int
    tps: frozenset[TopicPartition]


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
class Joined:
    turn: int
    claim: Claim


@dataclass(frozen=True, slots=True)
class IdGiven:
    """Join once more, with this member id (79)."""

    turn: int
    member_id: str


@dataclass(frozen=True, slots=True)
class IdUnknown:
    """The coordinator does not know our member id (25)."""

    turn: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The group refuses such a member; why is one sentence with what helps."""

    turn: int
    why: str


@dataclass(frozen=True, slots=True)
class Synced:
    turn: int
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class JoinAgain:
    """The generation ended before its assignment came (22, 25, 27).  forget: the coordinator does not know us either
    (25)."""

    turn: int
    forget: bool = False


# Happenings ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changed:
    """Members, topics, partitions or our subscription may have changed since the group was read, or, after a reconnect,
    anything."""


@dataclass(frozen=True, slots=True)
class Close:
    pass


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The session with ZooKeeper is over, or the lease on it."""


@dataclass(frozen=True, slots=True)
class OwnerLost:
    """Owner nodes of ours were deleted or overwritten."""

    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """The coordinator waits for us to join the next generation (27)."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Fenced:
    """The claim is invalid (22, 25; forget: 25), or the lease is over."""

    claim: Claim
    forget: bool = False


Report = (
    Finished
    | Failed
    | Located
    | GroupRead
    | NotRegistered
    | Unrecoverable
    | ClaimsRefused
    | Joined
    | IdGiven
    | IdUnknown
    | Refused
    | Synced
    | JoinAgain
)
Happening = Changed | Close | SessionLost | OwnerLost | Rebalancing | Fenced
