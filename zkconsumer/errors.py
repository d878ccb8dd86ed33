"""What can go wrong in a consumer beside the wire (kafkawire.errors).

ConsumerError         the root; each message is one sentence for an operator
    Unreachable       ZooKeeper did not answer within zookeeper.connection.timeout.ms
    ChrootMissing     it answers, but the path at the end of zookeeper.connect is not there
    ZooKeeperAway     the session is suspended or over, now or while we waited: what was asked may have happened
    ForeignWrite      somebody else wrote an offset node since we last saw it
    Closed            the connector was shut down
    ListenerFailed    a method of the program's ConsumerListener raised; told at its next call
    DecodeFailed      a decoder raised; the iterator goes on with the next message
ConsumerTimeout       no message within consumer.timeout.ms; the iterator stays usable
"""

from __future__ import annotations

from kafkawire.model import Message, TopicPartition


class ConsumerError(Exception):
    """The root of what zkconsumer raises on purpose."""


class Unreachable(ConsumerError):
    """ZooKeeper cannot be reached at start."""


class ChrootMissing(ConsumerError):
    """The chroot of zookeeper.connect does not exist; a consumer never creates it."""


class ZooKeeperAway(ConsumerError):
    """No session to ask, or it went while we waited.  Nothing of ours is queued: a queued call would run on the next
    one.
    """


class ForeignWrite(ConsumerError):
    """An offset node holds what somebody else wrote after we last read or wrote it; .theirs is the position, if
    readable.
    """

    def __init__(self, group: str, tp: TopicPartition, theirs: object, ours: int) -> None:
        super().__init__(
            f"group {group}: the offset of {tp} was set to {theirs} by somebody else; this member was to commit {ours}"
        )
        self.tp = tp
        self.theirs = theirs
        self.ours = ours


class Closed(ConsumerError):
    """The connector was shut down."""


class DecodeFailed(ConsumerError):
    """A decoder refused a message; its error is __cause__.

    .message has key and value as they were stored.  It counts as handed out: done when the next one is asked for, or
    at .message.ack().
    """

    def __init__(self, tp: TopicPartition, offset: int, message: Message, error: BaseException) -> None:
        super().__init__(f"{tp} at {offset}: the decoder refused the message: {type(error).__name__}: {error}")
        self.tp = tp
        self.offset = offset
        self.message = message


class ListenerFailed(ConsumerError):
    """A method of the program's listener raised, or returned what makes no sense; the reason is __cause__."""

    def __init__(self, name: str, reason: BaseException) -> None:
        super().__init__(f"listener {name} failed: {type(reason).__name__}: {reason}")
        self.name = name
        self.__cause__ = reason


class ConsumerTimeout(Exception):
    """No message within consumer.timeout.ms.  The iterator stays usable: ask again."""
