"""What can go wrong with a cluster, and whose fault it is.

    LocalError    this cluster version cannot do what we asked, or we asked for nonsense
        LibraryMissing   a codec's library is not installed here
        SetTooLarge      a whole set was asked for, and opens to more than may be open at once
    RemoteError   the other side sent bytes that make no sense
        Truncated        they end too early
        LeftOver         they go on after the end
        OpensTooLarge    compressed data opens to more than was allowed
        CorruptMessage   an entry of a message set is damaged; has the position
            UnknownMagic     it says it has a format we do not know
        NodeError        a ZooKeeper node holds what no release of Kafka writes
            OtherGeneration    the cluster is of 0.7 where a later one was named, or the other way round
            NoListener         a broker has no listener of the security protocol that was asked for
            RegistrationError  a member's id node cannot be read as a subscription
    BrokerError   the broker refused; see .code, .retriable, .refresh, .passes
    LinkLost      unknown outcome: it may have happened, so a retry may duplicate
        SecurityRefused   TLS or SASL failed for a reason that stays until settings are changed

Error codes are one row each in ERRORS: the protocol's number and name, whether the same request may succeed later
(retriable, as the Java client of 3.9 has it), and what follows for who reads a partition or asks for its offsets:

    MOVED      another broker leads it, or this one does not know yet that it does: look leaders up, and ask again
    WAIT       the leader cannot tell now: ask again.  -1 is one: 0.8 and 0.9 answer it where an offset lies between the
               high watermark and the end of the log, as it may right after an election; later releases, for accidents
    GONE       the log does not hold the offset: ask where it begins and ends
    DAMAGED    the broker found the entry damaged, or what it sent was damaged on its way: ask again
    LASTING    it is refused until the cluster or the request is changed
    REFUSED    any other: it says nothing about leaders, and another try may not help

NOT_ANSWERED is a code of ours, which no broker sends: the response leaves out a partition that was asked for.  Brokers
of 2.0 and later send a Fetch response without topics to a client that is over its quota (KIP-219): nothing is lost, and
the same request is answered later.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class WireError(Exception):
    """The root of everything kafkawire raises on purpose."""


class LocalError(WireError):
    """Our fault: the version of this cluster cannot do what was asked, or the request makes no sense."""


class LibraryMissing(LocalError):
    """A codec needs a library that is not installed where this runs."""


class SetTooLarge(LocalError):
    """All columns of a set were asked for at once, and its entries open to more than may be open at once."""


class RemoteError(WireError):
    """The other side sent nonsense."""


class OpensTooLarge(RemoteError):
    """Compressed data opens to more bytes than were allowed."""


class Truncated(RemoteError):
    """Bytes end before the thing they describe."""


class LeftOver(RemoteError):
    """Bytes go on after the thing they describe; .count of them."""

    def __init__(self, what: str, count: int) -> None:
        super().__init__(f"{what}: {count} bytes left over")
        self.count = count


class CorruptMessage(RemoteError):
    """An entry is damaged.  position: byte in the set's buffer; offset: the entry's own, as far as it can be read."""

    def __init__(self, why: str, position: int, offset: int | None = None) -> None:
        at = f" (offset {offset})" if offset is not None else ""
        super().__init__(f"entry at byte {position}{at}: {why}")
        self.why = why
        self.position = position
        self.offset = offset


class UnknownMagic(CorruptMessage):
    """An entry says it has a message format we do not know (or that cannot stand where it stands)."""


class NodeError(RemoteError):
    """A node holds what no release of Kafka writes."""


class OtherGeneration(NodeError):
    """A node is as clusters of the other generation write it: 0.7, or 0.8 and later.

    why: what the node holds, without the question for the operator, which makes no sense beside brokers of ours.
    """

    def __init__(self, why: str, question: str) -> None:
        super().__init__(f"{why}: {question}")
        self.why = why


class NoListener(NodeError):
    """A broker has no listener of the security protocol that was asked for; .endpoints as its node lists them."""

    def __init__(self, why: str, endpoints: tuple[str, ...]) -> None:
        super().__init__(why)
        self.endpoints = endpoints


class RegistrationError(NodeError):
    """A member's id node cannot be read as a subscription; the message says why."""


class LinkLost(WireError):
    """The connection broke: what was sent and not answered may or may not have happened."""


class SecurityRefused(LinkLost):
    """TLS or SASL of a connection failed, and will fail again until our settings or the broker's are changed."""


class Follows(Enum):
    """What follows an error code for who reads a partition or asks for its offsets."""

    MOVED = "moved"
    WAIT = "wait"
    GONE = "gone"
    DAMAGED = "damaged"
    LASTING = "lasting"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class BrokerErrorInfo:
    code: int
    name: str
    follows: Follows = Follows.REFUSED
    retriable: bool = False

    @property
    def refresh(self) -> bool:
        """True if leaders have to be looked up again."""
        return self.follows is Follows.MOVED

    @property
    def lasting(self) -> bool:
        """True if the request is refused until the cluster or the request is changed."""
        return self.follows is Follows.LASTING

    @property
    def passes(self) -> bool:
        """True if a reader of the partition asks again: an election, or what a broker learns after one, ends it."""
        return self.follows in (Follows.MOVED, Follows.WAIT, Follows.DAMAGED)


NOT_ANSWERED = 1 << 16  # codes of brokers have 16 bits


def _rows(*rows: BrokerErrorInfo) -> dict[int, BrokerErrorInfo]:
    return {row.code: row for row in rows}


E, F = BrokerErrorInfo, Follows
ERRORS = _rows(
    E(-1, "UnknownServerError", F.WAIT),
    E(0, "None"),
    E(1, "OffsetOutOfRange", F.GONE),
    E(2, "CorruptMessage", F.DAMAGED, retriable=True),
    E(3, "UnknownTopicOrPartition", F.MOVED, retriable=True),
    E(4, "InvalidFetchSize"),
    E(5, "LeaderNotAvailable", F.MOVED, retriable=True),
    E(6, "NotLeaderForPartition", F.MOVED, retriable=True),
    E(7, "RequestTimedOut", F.WAIT, retriable=True),
    E(8, "BrokerNotAvailable", F.MOVED),
    E(9, "ReplicaNotAvailable", F.MOVED, retriable=True),
    E(10, "MessageTooLarge"),
    E(11, "StaleControllerEpoch"),
    E(12, "OffsetMetadataTooLarge"),
    E(13, "NetworkException", F.MOVED, retriable=True),
    E(14, "CoordinatorLoadInProgress", F.WAIT, retriable=True),
    E(15, "CoordinatorNotAvailable", F.WAIT, retriable=True),
    E(16, "NotCoordinator", F.WAIT, retriable=True),
    E(17, "InvalidTopic", F.LASTING),
    E(18, "RecordListTooLarge"),
    E(19, "NotEnoughReplicas", F.WAIT, retriable=True),
    E(20, "NotEnoughReplicasAfterAppend", F.WAIT, retriable=True),
    E(21, "InvalidRequiredAcks"),
    E(22, "IllegalGeneration"),
    E(23, "InconsistentGroupProtocol"),
    E(24, "InvalidGroupId"),
    E(25, "UnknownMemberId"),
    E(26, "InvalidSessionTimeout"),
    E(27, "RebalanceInProgress"),
    E(28, "InvalidCommitOffsetSize"),
    E(29, "TopicAuthorizationFailed", F.LASTING),
    E(30, "GroupAuthorizationFailed", F.LASTING),
    E(31, "ClusterAuthorizationFailed", F.LASTING),
    E(32, "InvalidTimestamp"),
    E(33, "UnsupportedSaslMechanism", F.LASTING),
    E(34, "IllegalSaslState", F.LASTING),
    E(35, "UnsupportedVersion", F.LASTING),
    E(36, "TopicAlreadyExists"),
    E(37, "InvalidPartitions"),
    E(38, "InvalidReplicationFactor"),
    E(39, "InvalidReplicaAssignment"),
    E(40, "InvalidConfig"),
    E(41, "NotController", F.WAIT, retriable=True),
    E(42, "InvalidRequest", F.LASTING),
    E(43, "UnsupportedForMessageFormat", F.LASTING),
    E(44, "PolicyViolation", F.LASTING),
    E(45, "OutOfOrderSequenceNumber"),
    E(46, "DuplicateSequenceNumber"),
    E(47, "InvalidProducerEpoch"),
    E(48, "InvalidTxnState"),
    E(49, "InvalidProducerIdMapping"),
    E(50, "InvalidTransactionTimeout"),
    E(51, "ConcurrentTransactions", F.WAIT, retriable=True),
    E(52, "TransactionCoordinatorFenced"),
    E(53, "TransactionalIdAuthorizationFailed", F.LASTING),
    E(54, "SecurityDisabled"),
    E(55, "OperationNotAttempted"),
    E(56, "KafkaStorageError", F.MOVED, retriable=True),
    E(59, "UnknownProducerId"),
    E(74, "FencedLeaderEpoch", F.MOVED, retriable=True),
    E(75, "UnknownLeaderEpoch", F.MOVED, retriable=True),
    E(76, "UnsupportedCompressionType", F.LASTING),
    E(78, "OffsetNotAvailable", F.WAIT, retriable=True),
    E(87, "InvalidRecord"),
    E(88, "UnstableOffsetCommit", F.WAIT, retriable=True),
    E(90, "ProducerFenced"),
    E(120, "TransactionAbortable"),
    E(NOT_ANSWERED, "NotAnswered", F.WAIT, retriable=True),
)
del E, F


def error_info(code: int) -> BrokerErrorInfo:
    """The row of a code; an unknown one is treated like -1 and keeps its number in the name."""
    return ERRORS.get(code) or BrokerErrorInfo(code, f"UnknownError{code}")


class BrokerError(WireError):
    """The broker refused.  where names topic, partition, broker: `orders/3 on broker 1 (10.0.0.1:9092)`.

    said: what the broker adds in words; "": nothing.
    """

    def __init__(self, code: int, where: str, said: str = "") -> None:
        self.info = error_info(code)
        super().__init__(f"{where}: {self.info.name} ({code}){': ' * bool(said)}{said}")
        self.code = code
        self.where = where
        self.said = said

    @property
    def retriable(self) -> bool:
        return self.info.retriable

    @property
    def refresh(self) -> bool:
        return self.info.refresh

    @property
    def passes(self) -> bool:
        """True if a reader of the partition asks again (see Follows)."""
        return self.info.passes
