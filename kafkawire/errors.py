"""What can go wrong with a cluster, and whose fault it is.

    LocalError    this cluster version cannot do what we asked, or we asked for nonsense
        LibraryMissing   a codec's library is not installed here
    RemoteError   the other side sent bytes that make no sense
        Truncated        they end too early
        LeftOver         they go on after the end
        CorruptMessage   an entry of a message set is damaged; has the position
            UnknownMagic     it says it has a format we do not know
        NodeError        a ZooKeeper node holds what no release of Kafka writes
            OtherGeneration    the cluster is of 0.7 where a later one was named, or the other way round
            NoListener         a broker has no listener of the security protocol that was asked for
            RegistrationError  a member's id node cannot be read as a subscription
    BrokerError   the broker refused; see .code, .retriable, .refresh
    LinkLost      unknown outcome: it may have happened, so a retry may duplicate
        SecurityRefused   TLS or SASL failed for a reason that stays until settings are changed

Error codes are one row each in ERRORS: the protocol's number and name, whether the same request may succeed later,
whether leaders have to be looked up again first (retriable and refresh as the Java client of 3.9 has them), and whether
a fetch that is refused by it will be refused until the cluster or the request is changed (lasting).
"""

from __future__ import annotations

from dataclasses import dataclass


class WireError(Exception):
    """The root of everything kafkawire raises on purpose."""


class LocalError(WireError):
    """Our fault: the version of this cluster cannot do what was asked, or the request makes no sense."""


class LibraryMissing(LocalError):
    """A codec needs a library that is not installed where this runs."""


class RemoteError(WireError):
    """The other side sent nonsense."""


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
    """A node is as clusters of the other generation write it: 0.7, or 0.8 and later."""


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


@dataclass(frozen=True, slots=True)
class BrokerErrorInfo:
    code: int
    name: str
    retriable: bool = False
    refresh: bool = False
    lasting: bool = False


def _rows(*rows: BrokerErrorInfo) -> dict[int, BrokerErrorInfo]:
    return {row.code: row for row in rows}


E = BrokerErrorInfo
ERRORS = _rows(
    E(-1, "UnknownServerError"),
    E(0, "None"),
    E(1, "OffsetOutOfRange"),
    E(2, "CorruptMessage", retriable=True),
    E(3, "UnknownTopicOrPartition", retriable=True, refresh=True),
    E(4, "InvalidFetchSize"),
    E(5, "LeaderNotAvailable", retriable=True, refresh=True),
    E(6, "NotLeaderForPartition", retriable=True, refresh=True),
    E(7, "RequestTimedOut", retriable=True),
    E(8, "BrokerNotAvailable"),
    E(9, "ReplicaNotAvailable", retriable=True, refresh=True),
    E(10, "MessageTooLarge"),
    E(11, "StaleControllerEpoch"),
    E(12, "OffsetMetadataTooLarge"),
    E(13, "NetworkException", retriable=True, refresh=True),
    E(14, "CoordinatorLoadInProgress", retriable=True),
    E(15, "CoordinatorNotAvailable", retriable=True),
    E(16, "NotCoordinator", retriable=True),
    E(17, "InvalidTopic", lasting=True),
    E(18, "RecordListTooLarge"),
    E(19, "NotEnoughReplicas", retriable=True),
    E(20, "NotEnoughReplicasAfterAppend", retriable=True),
    E(21, "InvalidRequiredAcks"),
    E(22, "IllegalGeneration"),
    E(23, "InconsistentGroupProtocol"),
    E(24, "InvalidGroupId"),
    E(25, "UnknownMemberId"),
    E(26, "InvalidSessionTimeout"),
    E(27, "RebalanceInProgress"),
    E(28, "InvalidCommitOffsetSize"),
    E(29, "TopicAuthorizationFailed", lasting=True),
    E(30, "GroupAuthorizationFailed", lasting=True),
    E(31, "ClusterAuthorizationFailed", lasting=True),
    E(32, "InvalidTimestamp"),
    E(33, "UnsupportedSaslMechanism", lasting=True),
    E(34, "IllegalSaslState", lasting=True),
    E(35, "UnsupportedVersion", lasting=True),
    E(36, "TopicAlreadyExists"),
    E(37, "InvalidPartitions"),
    E(38, "InvalidReplicationFactor"),
    E(39, "InvalidReplicaAssignment"),
    E(40, "InvalidConfig"),
    E(41, "NotController", retriable=True),
    E(42, "InvalidRequest", lasting=True),
    E(43, "UnsupportedForMessageFormat", lasting=True),
    E(44, "PolicyViolation", lasting=True),
    E(45, "OutOfOrderSequenceNumber"),
    E(46, "DuplicateSequenceNumber"),
    E(47, "InvalidProducerEpoch"),
    E(48, "InvalidTxnState"),
    E(49, "InvalidProducerIdMapping"),
    E(50, "InvalidTransactionTimeout"),
    E(51, "ConcurrentTransactions", retriable=True),
    E(52, "TransactionCoordinatorFenced"),
    E(53, "TransactionalIdAuthorizationFailed", lasting=True),
    E(54, "SecurityDisabled"),
    E(55, "OperationNotAttempted"),
    E(56, "KafkaStorageError", retriable=True, refresh=True),
    E(59, "UnknownProducerId"),
    E(74, "FencedLeaderEpoch", retriable=True, refresh=True),
    E(75, "UnknownLeaderEpoch", retriable=True, refresh=True),
    E(76, "UnsupportedCompressionType", lasting=True),
    E(78, "OffsetNotAvailable", retriable=True, refresh=True),
    E(87, "InvalidRecord"),
    E(88, "UnstableOffsetCommit", retriable=True),
    E(90, "ProducerFenced"),
    E(120, "TransactionAbortable"),
)
del E


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

    @property
    def retriable(self) -> bool:
        return self.info.retriable

    @property
    def refresh(self) -> bool:
        return self.info.refresh
