"""Verdicts on responses to produce requests: two tables, and the bounds of retries.  Pure.

judge() returns what follows a response:

STORED    done
AGAIN     retry, forever or up to message.send.max.retries
BOUNDED   the broker would most likely respond with the same again: retry a few times, then fail
WAIT      the broker does not know the topic or partition, which may be new: retry for a bounded time, then fail
SPLIT     too large together, or one message of the set is refused for its content: retry each part alone, then smaller
          pieces, down to the faulty message
CHECK     the broker found damage: check the sent bytes; if they are intact, the damage happened in transit

A code in UNCLEAR may also be about one message of the set: the set is split the same way after retries fail.

unknown_outcome() returns whether a batch that was not acknowledged may still be in the log: by NOT_APPENDED, and by the
base offset.  A leader that waits for replicas (acks -1) has already appended the batch; if the wait fails, the response
has an error together with the batch's offset (DelayedProduce).  If the leader refuses a batch before the append, its
base offset is -1.
"""

from __future__ import annotations

import random
from enum import Enum

from kafkawire.cluster.retry import Backoff
from kafkawire.errors import error_info
from kafkawire.protocol.request import ProducedPartition

BOUNDED_TRIES = 5
BACKOFF_MAX_S = 2.0
STORAGE_ERROR_SINCE = 4  # version of Produce in which a broker of 1.0 and 1.1 first returns 56 (ProduceResponse), not 6
NOT_LEADER = 6
UNANSWERED = ProducedPartition(error=-1, base_offset=-1)  # for a partition that a response leaves out
NOTHING_STORED = "error 0 with base offset -1: the broker stored nothing (an empty or incomplete set)"


# Errors which, with base offset -1, mean that this attempt appended nothing; in brackets where brokers of 0.8.2 to 3.9
# raise them.  An earlier attempt may have appended it.  Every other code leaves it open: -1 (any exception, also of
# work after an append), 7 and 20 (only after an append), 56 (the write may have succeeded before the disk failed; its
# base offset is always -1), and codes that no broker is known to return.
NOT_APPENDED = frozenset({
    0,  # no complete entry in the set (Log.append)
    2,  # checksum, size, no key for a compacted topic, invalid batch (Log.analyzeAndValidateMessageSet, LogValidator)
    3,  # the broker does not know the topic, or holds no replica (KafkaApis, ReplicaManager)
    5,  # never raised in an append
    6,  # not the leader any more, or not yet (Partition.appendRecordsToLeader)
    10,  # an entry or batch larger than max.message.bytes (Log.analyzeAndValidateMessageSet)
    17,  # an internal topic (ReplicaManager.appendToLocalLog)
    18,  # a set larger than a segment (Log.append)
    19,  # too few replicas in sync before the append (Partition.appendRecordsToLeader)
    21,  # acks (ReplicaManager.appendMessages)
    29, 31, 53,  # not allowed to write to the topic, idempotently, in transactions (KafkaApis)
    32, 43, 76, 87,  # timestamp, message format, codec, records (LogValidator, ProduceRequest.validateRecords)
    45,  # its sequence does not follow: also for a duplicate older than the broker remembers (ProducerAppendInfo)
    47,  # the producer's epoch is fenced (ProducerAppendInfo)
    48, 120,  # the partition does not belong to the transaction (AddPartitionsToTxnManager)
    59,  # no state of the producer (ProducerAppendInfo of 1.0 to 2.4)
})  # fmt: skip


class Verdict(Enum):
    STORED = "stored"
    AGAIN = "again"
    BOUNDED = "bounded"
    WAIT = "wait"
    SPLIT = "split"
    CHECK = "check"


SPECIAL = {
    2: Verdict.CHECK,
    3: Verdict.WAIT,
    10: Verdict.SPLIT,
    18: Verdict.SPLIT,
    32: Verdict.SPLIT,  # a timestamp that the topic does not accept
    87: Verdict.SPLIT,  # since 2.4 also a message without a key for a compacted topic; before, that is 2
}
UNCLEAR = frozenset({-1, 2})
TIMESTAMP = 32


def judge(code: int, base_offset: int) -> Verdict:
    """Return the verdict on the response for one partition."""
    if code == 0:
        return Verdict.STORED if base_offset >= 0 else Verdict.BOUNDED
    if code in SPECIAL:
        return SPECIAL[code]
    return Verdict.AGAIN if error_info(code).retriable else Verdict.BOUNDED


def unknown_outcome(answer: ProducedPartition) -> bool:
    """True if this response does not acknowledge the batch, and the broker may have appended it.

    A 6 in a response before version 4 may hide a 56.
    """
    if answer.base_offset >= 0:
        return not answer.stored
    hidden = answer.error == NOT_LEADER and answer.version < STORAGE_ERROR_SINCE
    return hidden or answer.error not in NOT_APPENDED


def refreshes(code: int) -> bool:
    """True if leaders must be refreshed: by the table of errors, and for 8 (the broker itself is not available)."""
    return code == 8 or error_info(code).refresh


def backoff_s(tries: int, first_s: float, rng: random.Random) -> float:
    """Return the backoff after this number of consecutive failed attempts: it doubles, with jitter."""
    return Backoff(first_s, max(first_s, BACKOFF_MAX_S)).wait_s(tries - 1) * rng.uniform(0.8, 1.2)
