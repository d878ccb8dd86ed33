"""Requirements of delivery.guarantee: exactly-once, checked against the release, settings and internal topics of the
target.  Pure.

    require_transactions    checks the release: otherwise a start and a check end with 78
    lacking                 checks the settings: otherwise transactions, and the mirror, would wait forever
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from groundwork.decimals import decimal_int
from groundwork.sentences import counted
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from kafkawire.topicnames import TRANSACTIONS_TOPIC
from zkconsumer.errors import ConsumerError

REPLICATION = {
    TRANSACTIONS_TOPIC: "transaction.state.log.replication.factor",
    OFFSETS_TOPIC: "offsets.topic.replication.factor",
}
LEAST_IN_SYNC = "transaction.state.log.min.isr"
LONGEST_MS = "transaction.max.timeout.ms"


class NoTransactions(ConsumerError):
    """Raised when the target cannot be written to exactly once; the text is a sentence."""


def require_transactions(target: Dialect) -> None:
    """Raise NoTransactions if the target, by the dialect its brokers reported, has no transactions."""
    if not target.record_batches:
        raise NoTransactions(
            f"delivery.guarantee: exactly-once needs a target of 0.11 or later, and it is {target.release}: set "
            "resume: target-end, which needs no transactions, or at-least-once"
        )


def lacking(settings: Mapping[str, str], view: ClusterView, timeout_ms: int) -> Iterator[str]:
    """Yield reasons why transactions of a target would never begin, as clauses.

    settings: the settings of one of its brokers; a missing setting is not judged.  timeout_ms: transaction.timeout.ms.
    """
    brokers = counted(len(view.brokers), "broker")
    for topic, option in REPLICATION.items():
        wanted = _number(settings, option)
        if topic not in view.topics and wanted is not None and wanted > len(view.brokers):
            yield (
                f"its brokers have yet to create {topic}, with {option} {wanted}, and the cluster has {brokers}: "
                "lower it there, or add brokers"
            )
    least, partitions = _number(settings, LEAST_IN_SYNC), view.topics.get(TRANSACTIONS_TOPIC, {}).values()
    replicas = min((len(each.replicas) for each in partitions), default=len(view.brokers))
    if least is not None and least > replicas:
        yield (
            f"its brokers write {TRANSACTIONS_TOPIC} with at least {least} replicas in sync ({LEAST_IN_SYNC}), and it "
            f"can have {replicas}: lower that there, or give the topic more replicas"
        )
    longest_ms = _number(settings, LONGEST_MS)
    if longest_ms is not None and longest_ms < timeout_ms:
        yield (
            f"transaction.timeout.ms is {timeout_ms}, and its brokers refuse more than {longest_ms} ({LONGEST_MS}): "
            "lower the one or raise the other"
        )


def _number(settings: Mapping[str, str], option: str) -> int | None:
    return decimal_int(settings.get(option, ""))
