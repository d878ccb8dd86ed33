"""ListOffsets and DeleteRecords (2.5, 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.brokers.fetch import FENCED_EPOCH, READ_COMMITTED, UNKNOWN_EPOCH
from tests.simulation.brokers.replica import Replica
from tests.simulation.brokers.serving import Request

if TYPE_CHECKING:
    from tests.simulation.brokers.broker import SimBroker

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
A_CONSUMER = -1  # replica id; for others the high watermark is no bound
OUT_OF_RANGE, UNKNOWN, NOT_AVAILABLE, POLICY, OFFSET_NOT_AVAILABLE = 1, 3, 5, 44, 78


def list_offsets(broker: SimBroker, request: Request) -> None:
    """The handler of ListOffsets."""
    topics = []
    for topic in request.body["topics"]:
        name = topic["topic"]
        rows = [_listed(broker, request, name, row) for row in topic["partitions"]]
        topics.append({"topic": name, "partitions": rows})
    request.answer({"throttle_time_ms": 0, "topics": topics})


def _listed(broker: SimBroker, request: Request, topic: str, row: dict[str, Any]) -> dict[str, Any]:
    tp, version, rules = (topic, row["partition"]), request.version, broker.rules
    told = {
        "partition": row["partition"], "error": 0, "offsets": [], "timestamp": -1, "offset": -1, "leader_epoch": -1,
    }  # fmt: skip
    known = not rules.cache_before_log or broker.cache.has(tp if rules.known_elsewhere_is_6 else topic)
    code = broker.role_code(tp) if known else UNKNOWN
    if not code and version >= 4 and rules.epochs_are_checked:
        epoch, own = row["current_leader_epoch"], broker.replicas[tp].epoch
        if epoch >= 0 and epoch != own:
            code = FENCED_EPOCH if epoch < own else UNKNOWN_EPOCH
    if code:
        return {**told, "error": code}
    replica = broker.replicas[tp]
    log = replica.log
    consumer = request.body["replica_id"] == A_CONSUMER
    if version == 0:
        found = log.starts_before(row["time"], row["max_offsets"], broker.cluster.now_ms())
        if consumer and any(
            at > log.hw for at in found
        ):  # whatever is above the high watermark becomes one high watermark
            found = [log.hw, *(at for at in found if at < log.hw)]
        if row["time"] == EARLIEST:
            found = [log.start][: row["max_offsets"]]
        return {**told, "offsets": found}
    stamp = row["timestamp"]
    committed = version >= 2 and request.body["isolation_level"] == READ_COMMITTED
    end = log.stable_end() if committed else log.hw
    end = end if consumer else log.end
    lags = consumer and rules.ends_wait_for_hw and log.hw < replica.epoch_start
    own_epoch = replica.epoch
    if stamp == EARLIEST:
        return {**told, "offset": log.start, "leader_epoch": _epoch_at(replica, log.start)}
    if lags:
        return {**told, "error": OFFSET_NOT_AVAILABLE if version >= 5 else NOT_AVAILABLE}
    if stamp == LATEST:
        return {**told, "offset": end, "leader_epoch": own_epoch}
    at_time = log.first_at_time(stamp)
    if at_time is None or at_time[1] > end or (at_time[1] == end and not rules.by_time_up_to_hw):
        return told
    return {**told, "timestamp": at_time[0], "offset": at_time[1], "leader_epoch": _epoch_at(replica, at_time[1])}


def _epoch_at(replica: Replica, offset: int) -> int:
    return max((epoch for epoch, at in replica.log.epochs if at <= offset), default=-1)


def delete_records(broker: SimBroker, request: Request) -> None:
    """The handler of DeleteRecords (PA.deleteRecordsOnLeader); waits for no follower."""
    rules = broker.rules
    topics = []
    for topic in request.body["topics"]:
        rows = []
        for row in topic["partitions"]:
            tp, offset = (topic["topic"], row["partition"]), row["offset"]
            code = broker.role_code(tp) if broker.cache.has(tp) else UNKNOWN
            low = -1
            if not code:
                log = broker.replicas[tp].log
                at = log.hw if offset == -1 else offset
                refused = POLICY if log.config.compacts and not log.config.deletes else 0
                if at < 0 or at > log.hw:
                    code = OUT_OF_RANGE
                elif refused and not rules.start_moves_before_44:
                    code = refused
                else:
                    log.start_at(at)
                    code = refused
                    low = -1 if code else log.start
            rows.append({"partition": row["partition"], "low_watermark": low, "error": code})
        topics.append({"topic": topic["topic"], "partitions": rows})
    request.answer({"throttle_time_ms": 0, "topics": topics})
