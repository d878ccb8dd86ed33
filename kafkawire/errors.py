"""Errors of a cluster, grouped by which side is at fault.

    LocalError    this release cannot do what was requested, or the request is invalid
        LibraryMissing   a codec's library is not installed here
        SetTooLarge      a whole set was requested, and decompresses to more than the limit
    RemoteError   the other side sent bytes that cannot be parsed
        Truncated        they end too early
        LeftOver         there are bytes after the end
        OpensTooLarge    compressed data exceeds the allowed size
        CorruptMessage   an entry of a message set is damaged; has the position
            UnknownMagic     its message format is unknown
        NodeError        no release of Kafka writes such content of a ZooKeeper node
            OtherGeneration    the cluster is 0.7 but a later release was configured, or the reverse
            NoListener         a broker has no listener of the security protocol that was requested
            RegistrationError  a member's id node cannot be read as a subscription
    BrokerError   the broker refused; see .code, .retriable, .refresh, .passes
    LinkLost      unknown outcome: it may have happened, so a retry may duplicate
        SecurityRefused   TLS or SASL failed for a reason that stays until settings are changed

Error codes are one row each in ERRORS: the protocol's number and name, whether the same request may succeed later
(retriable, as the Java client of 3.9 has it), and what a reader of the partition or of its offsets does next:

    MOVED      another broker is the leader, or this one does not know yet that it is: look leaders up and retry
    WAIT       the leader cannot answer now: retry. -1 is such a code: 0.8 and 0.9 return it for an offset between the
               high watermark and the end of the log, as it may right after an election; later
               releases return it for unexpected errors
    GONE       the log does not contain the offset: request its begin and end
    DAMAGED    the broker found the entry damaged, or its response was damaged in transit: retry
    LASTING    the request is refused until the cluster or the request is changed
    REFUSED    any other code: it says nothing about leaders, and a retry may not help

NOT_ANSWERED is a code of ours, which no broker sends: the response leaves out a requested partition.  Brokers of 2.0
and later send a Fetch response without topics to a client that is over its quota (KIP-219): nothing is lost, and a
later request is answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class WireError(Exception):
    """Base class of all errors that kafkawire raises on purpose."""


class LocalError(WireError):
    """Error on our side: the release of this cluster cannot do what was requested, or the request is invalid."""


class LibraryMissing(LocalError):
    """A codec needs a library that is not installed here."""


class SetTooLarge(LocalError):
    """All columns of a set were requested at once, and its entries decompress to more than the limit."""


class RemoteError(WireError):
    """The other side sent bytes that cannot be parsed."""


class OpensTooLarge(RemoteError):
    """Compressed data decompresses to more bytes than allowed."""


class Truncated(RemoteError):
    """Bytes end before the end of the described data."""


class LeftOver(RemoteError):
    """There are bytes after the end of the described data; count: their number."""

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
    """An entry has an unknown message format, or one that is not allowed at its place."""


class NodeError(RemoteError):
    """Content of a node that no release of Kafka writes."""


class OtherGeneration(NodeError):
    """A node has the form of the other generation: 0.7, or 0.8 and later.

    why: content of the node, without the question to the operator, which does not apply if there are also brokers of
    our generation.
    """

    def __init__(self, why: str, question: str) -> None:
        super().__init__(f"{why}: {question}")
        self.why = why


class NoListener(NodeError):
    """A broker has no listener of the security protocol that was requested; .endpoints as its node lists them."""

    def __init__(self, why: str, endpoints: tuple[str, ...]) -> None:
        super().__init__(why)
        self.endpoints = endpoints


class RegistrationError(NodeError):
    """A member's id node cannot be read as a subscription; the message says why."""


class LinkLost(WireError):
    """The connection broke: requests without a response may or may not have been executed."""


class SecurityRefused(LinkLost):
    """TLS or SASL of a connection failed, and will fail again until our settings or the broker's are changed."""


class Follows(Enum):
    """Step of a reader of a partition, or of its offsets, after an error code."""

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
        """True if a reader of the partition retries: an election, or the leader's catching up after it, ends the
        error."""
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
    """Return the row of a code; an unknown code is treated like -1 and keeps its number in the name."""
    return ERRORS.get(code) or BrokerErrorInfo(code, f"UnknownError{code}")


class BrokerError(WireError):
    """The broker refused.  where names topic, partition, broker: `orders/3 on broker 1 (10.0.0.1:9092)`.

    said: the broker's error message; "": none.
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
        """True if a reader of the partition retries (see Follows)."""
        return self.info.passes
