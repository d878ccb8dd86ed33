"""Requests about producer ids and transactions (KIP-98), ready for a session; their tables: transactionapis.py.

Each reply is reduced to one code, or one code per partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kafkawire.model import Broker, ProducerId, TopicPartition
from kafkawire.protocol import transactionapis as apis
from kafkawire.protocol.api import Api
from kafkawire.protocol.request import ApiVersions
from kafkawire.protocol.requests08 import Request, group_coordinator, grouped


class Initialized(NamedTuple):
    """Reply of InitProducerId."""

    error: int
    producer: ProducerId


class Coordinator(NamedTuple):
    """Reply of FindCoordinator; broker: None beside an error."""

    error: int
    broker: Broker | None


def init_producer_id(d: ApiVersions, transactional_id: str | None, timeout_ms: int) -> Request:
    """Request a producer id; with a transactional id its own, which fences the previous owner and ends its transaction.

    timeout_ms: time after which the coordinator aborts a transaction by itself.  Reply: Initialized.
    """
    fields = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
    return _request(d, apis.INIT_PRODUCER_ID, fields, _initialized)


def add_partitions(
    d: ApiVersions, transactional_id: str, producer: ProducerId, tps: Collection[TopicPartition]
) -> Request:
    """Make partitions part of the transaction, before anything is produced to them.  Reply: dict of codes."""
    topics: dict[str, list[Any]] = {}
    for tp in tps:
        topics.setdefault(tp.topic, []).append(tp.partition)
    rows = [{"topic": topic, "partitions": ids} for topic, ids in topics.items()]
    return _request(d, apis.ADD_PARTITIONS_TO_TXN, {**_who(transactional_id, producer), "topics": rows}, _codes)


def add_offsets(d: ApiVersions, transactional_id: str, producer: ProducerId, group: str) -> Request:
    """Make the offsets of a group part of the transaction.  Reply: the code."""
    return _request(d, apis.ADD_OFFSETS_TO_TXN, {**_who(transactional_id, producer), "group": group}, _code)


def txn_offset_commit(
    d: ApiVersions,
    transactional_id: str,
    producer: ProducerId,
    group: str,
    offsets: Mapping[TopicPartition, tuple[int, str]],
) -> Request:
    """Commit (offset, metadata) each within the transaction; goes to the group's coordinator.  Reply: dict of codes."""
    extra = {"leader_epoch": -1} if d.speaks(apis.TXN_OFFSET_COMMIT.key) >= 2 else {}
    topics = grouped((tp, {"offset": at, "metadata": text, **extra}) for tp, (at, text) in offsets.items())
    fields = {**_who(transactional_id, producer), "group": group, "topics": topics}
    return _request(d, apis.TXN_OFFSET_COMMIT, fields, _codes)


def end_txn(d: ApiVersions, transactional_id: str, producer: ProducerId, commit: bool) -> Request:
    """Commit or abort the transaction; a repeated request gets the same response.  Reply: the code."""
    return _request(d, apis.END_TXN, {**_who(transactional_id, producer), "commit": commit}, _code)


def find_coordinator(d: ApiVersions, key: str, of_transaction: bool) -> Request:
    """Request the coordinator of a transactional id, or of a group.  Reply: Coordinator."""
    return replace(group_coordinator(d, key, of_transaction), finish=_coordinator)


def _who(transactional_id: str, producer: ProducerId) -> dict[str, Any]:
    return {"transactional_id": transactional_id, "producer_id": producer.id, "producer_epoch": producer.epoch}


def _request(
    d: ApiVersions, api: Api, fields: Mapping[str, Any], finish: Callable[[dict[str, Any]], object]
) -> Request:
    version = d.speaks(api.key)
    return Request(api, version, [api.encode_request(version, fields)], finish=finish)


def _initialized(fields: dict[str, Any]) -> Initialized:
    return Initialized(fields["error"], ProducerId(fields["producer_id"], fields["producer_epoch"]))


def _code(fields: dict[str, Any]) -> int:
    return int(fields["error"])


def _codes(fields: dict[str, Any]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic["topic"], row["partition"]): row["error"]
        for topic in fields["topics"]
        for row in topic["partitions"]
    }


def _coordinator(fields: dict[str, Any]) -> Coordinator:
    if fields["error"]:
        return Coordinator(fields["error"], None)
    row = fields["coordinator"]
    return Coordinator(0, Broker(row["node_id"], row["host"], row["port"]))
