"""Errors of a consumer, beside those of the protocol (kafkawire.errors).

ConsumerError         the root; each message is one sentence for an operator
    Unreachable       ZooKeeper did not answer within zookeeper.connection.timeout.ms, or no broker did
    ChrootMissing     it answers, but the path at the end of zookeeper.connect is not there
    NoBrokers         the path is there, and no broker registers below it: mostly the chroot is left out
    OtherCluster      the brokers named are not those of the ZooKeeper named
    ZooKeeperAway     the session is suspended or over, now or while we waited: the outcome of a write is unknown
    NodeClosed        a node's ACL refuses our request
    ForeignWrite      another writer changed an offset node since we last read or wrote it
    BeyondEnd         the position to be committed is behind the end of the log
    NotCommitted      a commit that the program requested failed: the reason by partition
    TopicGone         the topic whose log a position belongs to was deleted
    Undeliverable     the reason why a partition is parked
        EntryTooLarge     larger than fetch.growth.max.bytes
        OutOfRange        the position lies outside the log, and the policy is fail
        FormerLog         the position belongs to an earlier topic of that name, and the policy is fail
        DamagedMessage    also a CorruptMessage; raised by a stream if corrupt.message.policy=fail
        FetchRefused      the broker refuses the fetch, and will until its configuration changes
    Closed            the connector was shut down
    ListenerFailed    a method of the program's ConsumerListener, or its on_event, raised; raised at its next call
    DecodeFailed      a decoder raised; the iterator continues with the next message
    SecondReader      another thread or greenlet reads this stream
    FilterUnknown     which topics another member's filter selects cannot be computed here; we left the group
ConsumerTimeout       no message within consumer.timeout.ms; the iterator stays usable
"""

from __future__ import annotations

from collections.abc import Mapping

from groundwork.sentences import counted
from kafkawire.errors import BrokerError, CorruptMessage
from kafkawire.model import Message, TopicPartition


class ConsumerError(Exception):
    """Root of the errors that zkconsumer raises on purpose."""


class Unreachable(ConsumerError):
    """Neither ZooKeeper nor, with fixed partitions, any broker can be reached at start."""


class ChrootMissing(ConsumerError):
    """The chroot of zookeeper.connect does not exist; a consumer never creates it."""


class NoBrokers(ConsumerError):
    """No broker is registered below zookeeper.connect: usually its chroot is missing or wrong."""


class OtherCluster(ConsumerError):
    """The brokers named are not those of the ZooKeeper named."""


class ZooKeeperAway(ConsumerError):
    """The session is missing, or was lost during the call.  Calls are never queued: a queued call would run in the next
    session."""


class NodeClosed(ConsumerError):
    """A node's ACL refuses our request; the message names the node and the option with credentials."""


class ForeignWrite(ConsumerError):
    """Another writer changed an offset node after we last read or wrote it; .theirs is the position, if readable."""

    def __init__(self, group: str, tp: TopicPartition, theirs: object, ours: int) -> None:
        super().__init__(
            f"group {group}: another writer set the offset of {tp} to {theirs}; this member was about to commit {ours}"
        )
        self.tp = tp
        self.theirs = theirs
        self.ours = ours


class BeyondEnd(ConsumerError):
    """The position to be committed is behind the end of the log: .tp, .position, .end."""

    def __init__(self, tp: TopicPartition, position: int, end: int) -> None:
        super().__init__(f"{tp}: {position} is behind the end of the log, which is {end}, so it is not committed")
        self.tp = tp
        self.position = position
        self.end = end


class TopicGone(ConsumerError):
    """The position to be committed belongs to the log of a deleted topic."""

    def __init__(self, tp: TopicPartition, position: int) -> None:
        super().__init__(f"{tp}: topic {tp.topic} was deleted, so {position} of its log is not committed any more")
        self.tp = tp


class NotCommitted(ConsumerError):
    """Some offsets are not known to be committed.  failed: the reason by partition; committed: the other partitions of
    the call, sorted, whose offsets are written."""

    def __init__(self, failed: Mapping[TopicPartition, Exception], committed: list[TopicPartition]) -> None:
        first, *more = failed.items()
        rest = f" (and {counted(len(more), 'more partition')})" if more else ""
        super().__init__(f"offset of {first[0]} not committed: {first[1]}{rest}")
        self.failed = dict(failed)
        self.committed = committed


def all_committed(results: Mapping[TopicPartition, Exception | None]) -> list[TopicPartition]:
    """Return the partitions of a commit, sorted.  Raises NotCommitted if one failed."""
    failed = {tp: why for tp, why in results.items() if why is not None}
    written = sorted(results.keys() - failed.keys())
    if failed:
        raise NotCommitted(failed, written) from next(iter(failed.values()))
    return written


class Undeliverable(ConsumerError):
    """Reason why a partition is parked."""


class EntryTooLarge(Undeliverable):
    """A message is larger than a fetch may grow.  needed: size of fetch that would be enough; 0 if unknown."""

    def __init__(
        self,
        tp: TopicPartition,
        offset: int,
        needed: int,
        most: int,
        asked: int,
        helps: str = "",
        *,
        resume_at: int | None = None,
        raw: bytes = b"",
    ) -> None:
        """helps: what else may help.  resume_at: the offset behind it, or None if unknown.  raw: its first bytes."""
        entry = f"an entry of {needed} bytes" if needed else f"an entry of more than {asked} bytes"
        what = f"{tp} at {offset}: {entry} is larger than the largest fetch, {most} bytes"
        super().__init__(f"{what}; raise fetch.growth.max.bytes" + (f"; {helps}" if helps else ""))
        self.tp = tp
        self.offset = offset
        self.needed = needed
        self.resume_at = resume_at
        self.raw = raw


class OutOfRange(Undeliverable):
    """A position is outside the log, and auto.offset.reset is fail."""

    def __init__(self, tp: TopicPartition, requested: int, earliest: int, latest: int, where: object) -> None:
        super().__init__(
            f"{tp} at {requested}: out of range, the log of {where} holds {earliest} to {latest} "
            "(auto.offset.reset=fail); set the committed offset by hand"
        )
        self.tp = tp
        self.requested = requested
        self.earliest = earliest
        self.latest = latest


class FormerLog(Undeliverable):
    """A committed position belongs to an earlier topic of the same name, and auto.offset.reset is fail."""

    def __init__(self, tp: TopicPartition, committed: int, former: str) -> None:
        super().__init__(
            f"{tp} at {committed}: {former} (auto.offset.reset=fail); set the committed offset by hand, or let the "
            "policy be smallest once"
        )
        self.tp = tp
        self.committed = committed


class DamagedMessage(Undeliverable, CorruptMessage):
    """An entry is damaged each time it is fetched: a kafkawire.errors.CorruptMessage with its partition and offset.

    .tp and .offset identify it; .position is a byte of the fetched set, .why the damage.  If it was measured:
    .resume_at is the offset at which the log is readable again, and .raw its bytes (or the bytes that follow, if its
    size is damaged).
    """

    def __init__(self, tp: TopicPartition, offset: int, found: str, error: CorruptMessage, helps: str = "") -> None:
        """helps: what may help."""
        CorruptMessage.__init__(self, error.why, error.position, offset)
        self.args = (f"{tp} at {offset}: {found}: {error}" + (f"; {helps}" if helps else ""),)
        self.tp = tp
        self.resume_at: int | None = None
        self.raw = b""
        self.__cause__ = error


class FetchRefused(Undeliverable):
    """A broker refuses a fetch with a lasting error: .code of kafkawire.errors.ERRORS."""

    def __init__(self, tp: TopicPartition, offset: int | None, refusal: BrokerError) -> None:
        super().__init__(str(refusal))
        self.tp = tp
        self.offset = offset
        self.code = refusal.code


class Closed(ConsumerError):
    """The connector was shut down."""


class DecodeFailed(ConsumerError):
    """A decoder raised for a message; its error is __cause__.

    .message has key and value as they were stored.  It counts as delivered: done when the next one is requested, or at
    .message.ack().
    """

    def __init__(self, tp: TopicPartition, offset: int, message: Message, error: BaseException) -> None:
        super().__init__(f"{tp} at {offset}: the decoder refused the message: {type(error).__name__}: {error}")
        self.tp = tp
        self.offset = offset
        self.message = message


class ListenerFailed(ConsumerError):
    """A method of the program's listener, or its on_event, raised, or returned an invalid value; the reason is
    __cause__."""

    def __init__(self, name: str, reason: BaseException) -> None:
        super().__init__(f"listener {name} failed: {type(reason).__name__}: {reason}")
        self.name = name
        self.__cause__ = reason


class SecondReader(ConsumerError):
    """A second thread or greenlet reads a stream, or a thread that the stream's event loop does not reach.  The first
    reader is not affected."""


class ConsumerTimeout(Exception):
    """No message within consumer.timeout.ms.  The iterator stays usable."""


class FilterUnknown(ConsumerError):
    """A member of the group subscribes by an expression that Java and Python may match differently (or not at all).

    A guess could give another assignment than the other members compute, so we leave the group: .member, .pattern.
    """

    def __init__(self, member: str, pattern: str, why: str) -> None:
        super().__init__(
            f"member {member} subscribes by {pattern[:200]!r}, and which topics that selects is not certain here: "
            f"{why}; we left the group rather than guess: give that member a plainer expression"
        )
        self.member = member
        self.pattern = pattern


class NoSuchGroup(ConsumerError):
    """ZooKeeper has no node of the group."""
