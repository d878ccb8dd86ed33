"""Groups that a broker coordinates, and the offsets that groups commit: tables of their requests and replies.

The metadata and assignment of a member of protocol type "consumer" are blobs of their own
(kafkawire.protocol.offsetrecords reads the same).
"""

from __future__ import annotations

from kafkawire.protocol.api import Api, by_topic
from kafkawire.protocol.schema import (
    Array,
    Struct,
    between,
    blob,
    int8,
    int16,
    int32,
    int64,
    nullable_string,
    since,
    string,
)

OF_GROUP, OF_TRANSACTION = 0, 1  # key_type of GroupCoordinator: whose coordinator is asked for

OFFSET_COMMIT = Api(
    8,
    "OffsetCommit",
    7,
    request=Struct(
        group=string,
        generation=since(1, int32),
        member_id=since(1, string),
        group_instance_id=since(7, nullable_string),
        retention_ms=between(2, 4, int64),
        topics=by_topic(
            offset=int64,
            timestamp=between(1, 1, int64),
            leader_epoch=since(6, int32),  # -1: not known
            # metadata: 0.10 reads null too, 0.9 does not; we never write it
            metadata=nullable_string,
        ),
    ),
    reply=Struct(throttle_time_ms=since(3, int32), topics=by_topic(error=int16)),
)
OFFSET_FETCH = Api(
    9,
    "OffsetFetch",
    5,  # v0 reads ZooKeeper, v1 reads Kafka; the bytes are the same.  From v2 on null asks for all of the group
    request=Struct(group=string, topics=Array(Struct(topic=string, partitions=Array(int32)), nullable_since=2)),
    reply=Struct(
        throttle_time_ms=since(3, int32),
        topics=by_topic(offset=int64, leader_epoch=since(5, int32), metadata=nullable_string, error=int16),
        error=since(2, int16),
    ),
)
GROUP_COORDINATOR = Api(
    10,
    "GroupCoordinator",
    2,
    request=Struct(group=string, key_type=since(1, int8)),
    reply=Struct(
        throttle_time_ms=since(1, int32),
        error=int16,
        error_message=since(1, nullable_string),
        coordinator=Struct(node_id=int32, host=string, port=int32),
    ),
)
JOIN_GROUP = Api(
    11,
    "JoinGroup",
    5,  # v4: a new member is told its id first (error 79, KIP-394); v5: static members (KIP-345)
    request=Struct(
        group=string,
        session_timeout=int32,
        rebalance_timeout=since(1, int32),
        member_id=string,
        group_instance_id=since(5, nullable_string),
        protocol_type=string,
        protocols=Array(Struct(name=string, metadata=blob)),
    ),
    reply=Struct(
        throttle_time_ms=since(2, int32),
        error=int16,
        generation=int32,
        protocol=string,
        leader_id=string,
        member_id=string,
        members=Array(Struct(member_id=string, group_instance_id=since(5, nullable_string), metadata=blob)),
    ),
)
HEARTBEAT = Api(
    12,
    "Heartbeat",
    3,
    request=Struct(group=string, generation=int32, member_id=string, group_instance_id=since(3, nullable_string)),
    reply=Struct(throttle_time_ms=since(1, int32), error=int16),
)
LEAVE_GROUP = Api(
    13,
    "LeaveGroup",
    2,
    request=Struct(group=string, member_id=string),
    reply=Struct(throttle_time_ms=since(1, int32), error=int16),
)
SYNC_GROUP = Api(
    14,
    "SyncGroup",
    3,
    request=Struct(
        group=string,
        generation=int32,
        member_id=string,
        group_instance_id=since(3, nullable_string),
        assignments=Array(Struct(member_id=string, assignment=blob)),
    ),
    reply=Struct(throttle_time_ms=since(1, int32), error=int16, assignment=blob),
)
DESCRIBE_GROUPS = Api(
    15,
    "DescribeGroups",
    2,
    request=Struct(groups=Array(string)),
    reply=Struct(
        throttle_time_ms=since(1, int32),
        groups=Array(
            Struct(
                error=int16,
                group=string,
                state=string,
                protocol_type=string,
                protocol=string,
                members=Array(
                    Struct(member_id=string, client_id=string, client_host=string, metadata=blob, assignment=blob)
                ),
            )
        ),
    ),
)
LIST_GROUPS = Api(
    16,
    "ListGroups",
    2,
    request=Struct(),
    reply=Struct(
        throttle_time_ms=since(1, int32),
        error=int16,
        groups=Array(Struct(group=string, protocol_type=string)),
    ),
)
