"""Brokers' error codes, as what they mean to a reader: with topic, partition, position and broker.

Refused                     any other code; .tp .position .broker beside BrokerError's .code .retriable .passes
    OffsetOutOfRange        1   the log does not hold this position (any more, or yet)
    UnknownPartition        3   no such partition on this broker
    NotLeader               5, 6, 9, 56, 74, 75: another leads it, or will (kafkawire.errors, MOVED)
    MetadataTooLarge        12  of a commit
    CoordinatorAway         14, 15, 16, of a commit also 7, after they were asked again
    GroupActive             22, 25, 27: the group has members, who commit for it
    CommitTooLarge          28  of one partition alone
    NotAllowed              29, 30, 31: the brokers' access control lists
    NotConverted            35 of a fetch: the broker does not convert its log down for us
    CodecNotConverted       76: it does not convert what is compressed with zstd
    NotAnswered             NOT_ANSWERED (kafkawire.errors): the response leaves the partition out
MetadataTooLong             the same as 12, found out before anything was sent
MessageTooLarge             the fetch was smaller than the first message wanted (.needed bytes at least, 0: not known)
Damaged                     the first entry wanted is damaged
"""

from __future__ import annotations

from kafkawire.errors import NOT_ANSWERED, BrokerError, CorruptMessage, Follows, LinkLost, LocalError, error_info
from kafkawire.model import Broker, TopicPartition

# Of a commit: the coordinator has it in its log, or may have.  It shows the old offset until its replicas confirm it,
# or until another broker has taken the group over.
MAY_BE_WRITTEN = frozenset({-1, 7, 15, 16, 20})
COMMIT_AGAIN = "it may be written: commit it once more"
OWN_RELEASE = "leave the release out, so that the brokers are asked, or name their own"


class Refused(BrokerError):
    """A broker's error code with what it was about; position is an offset, group a group's id, where they matter."""

    helps = ""

    def __init__(
        self,
        code: int,
        broker: Broker | None,
        tp: TopicPartition | None = None,
        position: int | None = None,
        group: str | None = None,
        tried: str = "",
        may_be_written: bool = False,
    ) -> None:
        """tried: how often it was asked, in words.  may_be_written: of a commit, by an answer before this one."""
        about = [f"group {group}"] if group is not None else []
        about += [f"{tp} at {position}" if position is not None else str(tp)] if tp is not None else []
        super().__init__(code, f"{', '.join(about)} on {broker}")
        helps = HELPS_A_GROUP.get(code, self.helps) if group is not None else self.helps
        self.may_be_written = may_be_written or (group is not None and position is not None and code in MAY_BE_WRITTEN)
        said = [*([helps] if helps else []), *([COMMIT_AGAIN] if self.may_be_written else [])]
        self.args = (f"{self.args[0]}{tried}" + (f": {'; '.join(said)}" if said else ""),)
        self.broker = broker
        self.tp = tp
        self.position = position
        self.group = group


class OffsetOutOfRange(Refused):
    """The log of the partition does not hold the offset."""

    helps = "the log does not hold it; earliest() and latest() tell what it holds"


class UnknownPartition(Refused):
    """The broker that was asked has no such partition."""

    helps = "this broker has no such partition; topic_metadata(None), for 0.7 ZooKeeper, tells who leads what"


class NotLeader(Refused):
    """The broker that was asked does not lead the partition."""

    helps = "topic_metadata(None) tells who leads it now"


class MetadataTooLarge(Refused):
    """0.8.2.2 refuses such a commit and serves its position all the same, as seen; do not count on it, commit again."""

    helps = "the metadata text is longer than the broker's offset.metadata.max.bytes; shorten it"


class CoordinatorAway(Refused):
    helps = "the group's coordinator is moving or loading, also after asking again; try later"


class GroupActive(Refused):
    helps = (
        "the group is active: members that coordinate through the brokers (the new consumer) commit for it, and "
        "ZooKeeper does not show them; stop them before committing from outside, or take another group"
    )


class CommitTooLarge(Refused):
    helps = "the commit does not fit into a message of __consumer_offsets; shorten the metadata"


class NotAllowed(Refused):
    helps = "the brokers' access control lists forbid it; a commit needs Read on the group and on the topic"


class NotConverted(Refused):
    """A broker of 0.11 or later, spoken to as an older release, does not put its log into the format of that."""

    helps = (
        "the topic or its broker has message.downconversion.enable=false, and it is spoken to as a release "
        f"before record batches (0.11): {OWN_RELEASE}"
    )


class CodecNotConverted(Refused):
    helps = (
        "its log holds messages compressed with zstd, and it is spoken to as a release before 2.1, which had no zstd: "
        f"{OWN_RELEASE}"
    )


class NotAnswered(Refused):
    helps = (
        "the response leaves this partition out, as brokers of 2.0 and later do while a client is over its quota; "
        "nothing is lost, ask again"
    )


class MetadataTooLong(LocalError):
    """The metadata of a commit is longer than brokers take; the position was not sent either."""

    def __init__(self, group: str, tp: TopicPartition, position: int, characters: int, most: int) -> None:
        super().__init__(
            f"group {group}, {tp} at {position}: the metadata text has {characters} characters and the brokers' "
            f"offset.metadata.max.bytes is taken to be {most}; shorten it; nothing was committed for this partition"
        )
        self.tp = tp
        self.position = position


class MessageTooLarge(LocalError):
    """The first message wanted does not fit into what was asked for."""

    def __init__(
        self, tp: TopicPartition, position: int, broker: Broker, max_bytes: int, needed: int, helps: str = ""
    ) -> None:
        size = f"needs at least {needed} bytes" if needed else "needs more bytes"
        what = f"{tp} at {position} on {broker}: the message {size}, max_bytes is {max_bytes}; raise it"
        super().__init__(what + (f"; {helps}" if helps else ""))
        self.tp = tp
        self.position = position
        self.needed = needed


class Damaged(CorruptMessage):
    """The first entry wanted is no entry; everything before it was handed out."""

    def __init__(
        self, tp: TopicPartition, position: int, broker: Broker, damage: CorruptMessage, helps: str = ""
    ) -> None:
        super().__init__(damage.why, damage.position, damage.offset)
        self.args = (f"{tp} at {position} on {broker}: {damage}" + (f"; {helps}" if helps else ""),)
        self.tp = tp


TIMED_OUT = 7

_KINDS: dict[int, type[Refused]] = {
    1: OffsetOutOfRange,
    3: UnknownPartition,
    12: MetadataTooLarge,
    14: CoordinatorAway,
    15: CoordinatorAway,
    16: CoordinatorAway,
    22: GroupActive,
    25: GroupActive,
    27: GroupActive,
    28: CommitTooLarge,
    29: NotAllowed,
    30: NotAllowed,
    31: NotAllowed,
    35: NotConverted,
    76: CodecNotConverted,
    NOT_ANSWERED: NotAnswered,
}

# What helps where a group's offsets were asked for or committed.
HELPS_A_GROUP = {
    3: "the coordinator knows no such partition: it was deleted, or made a moment ago",
    7: (
        "the replicas of __consumer_offsets did not confirm it in time, so the coordinator goes on showing the offset "
        "of before; another one may show this one"
    ),
    14: "the coordinator is still reading __consumer_offsets after it took over; try later",
    15: (
        "there is no coordinator: the group's partition of __consumer_offsets has no leader, or the topic cannot be "
        "made (fewer brokers are alive than offsets.topic.replication.factor says)"
    ),
    16: "another broker coordinates the group, and the brokers do not agree which; try later",
    19: "fewer replicas of __consumer_offsets are in sync than its min.insync.replicas",
    20: "fewer replicas of __consumer_offsets are in sync than its min.insync.replicas, since it was appended",
    24: "this release takes no such group name; an empty one least of all",
}


def refusal(
    code: int,
    broker: Broker | None,
    tp: TopicPartition | None = None,
    position: int | None = None,
    group: str | None = None,
    tried: str = "",
    may_be_written: bool = False,
) -> Refused:
    """The error of a code other than 0, to be raised or handed on."""
    other = NotLeader if group is None and error_info(code).follows is Follows.MOVED else Refused
    kind = CoordinatorAway if code == TIMED_OUT and group is not None else _KINDS.get(code, other)
    return kind(code, broker, tp, position, group, tried, may_be_written)


def may_be_written(error: Exception | None) -> bool:
    """True if a commit that failed with this may be in Kafka, now or after the coordinator has moved."""
    return isinstance(error, LinkLost) or (isinstance(error, Refused) and error.may_be_written)
