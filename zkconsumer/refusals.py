"""Brokers' error codes as exceptions for a reader: with topic, partition, position and broker.

Refused                     any other code; has .tp .position .broker, and BrokerError's .code .retriable .passes
    OffsetOutOfRange        1   the log does not hold this position (any more, or yet)
    UnknownPartition        3   this broker does not have the partition
    NotLeader               5, 6, 9, 56, 74, 75: another leads it, or will (kafkawire.errors, MOVED)
    MetadataTooLarge        12  of a commit
    CoordinatorAway         14, 15, 16, of a commit also 7, after retries
    GroupActive             22, 25, 27: the group has members, which commit for it
    CommitTooLarge          28  for a single partition
    NotAllowed              29, 30, 31: the brokers' access control lists
    NotConverted            35 of a fetch: the broker does not convert its log down for us
    CodecNotConverted       76: it does not convert messages compressed with zstd
    NotAnswered             NOT_ANSWERED (kafkawire.errors): the response leaves the partition out
MetadataTooLong             like 12, but found before anything was sent
MessageTooLarge             the fetch was smaller than the first wanted message (.needed: minimum of bytes, 0: unknown)
Damaged                     the first wanted entry is damaged
"""

from __future__ import annotations

from kafkawire.errors import NOT_ANSWERED, BrokerError, Follows, LinkLost, LocalError, error_info
from kafkawire.fetched import Damaged as Damaged
from kafkawire.fetched import MessageTooLarge as MessageTooLarge
from kafkawire.model import Broker, TopicPartition

# Codes after which a commit is, or may be, in the coordinator's log.  It shows the old offset until its replicas
# confirm the commit, or until another broker has taken the group over.
MAY_BE_WRITTEN = frozenset({-1, 7, 15, 16, 20})
COMMIT_AGAIN = "it may be written: commit it once more"
OWN_RELEASE = "leave the release out, so that the brokers are asked, or name their own"


class Refused(BrokerError):
    """A broker's error code with its subject; position is an offset, group a group's id, if they matter."""

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
        """tried: number of tries, in words.  may_be_written: an earlier response to a commit left its outcome open."""
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

    helps = "the log does not hold it; earliest() and latest() return its bounds"


class UnknownPartition(Refused):
    """The broker does not have the partition."""

    helps = "this broker does not have the partition; topic_metadata(None), or ZooKeeper for 0.7, shows the leaders"


class NotLeader(Refused):
    """The broker does not lead the partition."""

    helps = "topic_metadata(None) shows the current leader"


class MetadataTooLarge(Refused):
    """The metadata is too long.  Do not rely on its offset: 0.8.2.2 refuses such a commit and was seen to serve its
    offset."""

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
    """A broker of 0.11 or later, asked as an older release, does not convert its log to that release's format."""

    helps = (
        "the topic or its broker has message.downconversion.enable=false, and it is read as a release "
        f"before record batches (0.11): {OWN_RELEASE}"
    )


class CodecNotConverted(Refused):
    helps = (
        "its log holds messages compressed with zstd, and it is read as a release before 2.1, which had no zstd: "
        f"{OWN_RELEASE}"
    )


class NotAnswered(Refused):
    helps = (
        "the response leaves this partition out, as brokers of 2.0 and later do while a client is over its quota; "
        "nothing is lost, ask again"
    )


class MetadataTooLong(LocalError):
    """The metadata of a commit is longer than brokers accept; the offset was not sent either."""

    def __init__(self, group: str, tp: TopicPartition, position: int, characters: int, most: int) -> None:
        super().__init__(
            f"group {group}, {tp} at {position}: the metadata text has {characters} characters and the brokers' "
            f"offset.metadata.max.bytes is taken to be {most}; shorten it; nothing was committed for this partition"
        )
        self.tp = tp
        self.position = position


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

# Help texts for requests about a group's offsets.
HELPS_A_GROUP = {
    3: "the coordinator does not know the partition: it was deleted, or created a moment ago",
    7: (
        "the replicas of __consumer_offsets did not confirm it in time, so the coordinator still shows the previous "
        "offset; another one may show this one"
    ),
    14: "the coordinator is still reading __consumer_offsets after it took over; try later",
    15: (
        "there is no coordinator: the group's partition of __consumer_offsets has no leader, or the topic cannot be "
        "created (fewer brokers are alive than offsets.topic.replication.factor says)"
    ),
    16: "another broker coordinates the group, and the brokers disagree which one; try later",
    19: "fewer replicas of __consumer_offsets are in sync than its min.insync.replicas",
    20: "fewer replicas of __consumer_offsets are in sync than its min.insync.replicas, since it was appended",
    24: "this release does not accept the group name; it must not be empty",
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
    """Return the error for a code other than 0."""
    other = NotLeader if group is None and error_info(code).follows is Follows.MOVED else Refused
    kind = CoordinatorAway if code == TIMED_OUT and group is not None else _KINDS.get(code, other)
    return kind(code, broker, tp, position, group, tried, may_be_written)


def may_be_written(error: Exception | None) -> bool:
    """True if a commit that failed with this error may be in Kafka, now or after the coordinator has moved."""
    return isinstance(error, LinkLost) or (isinstance(error, Refused) and error.may_be_written)
