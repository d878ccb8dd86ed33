"""Tables of requests and replies for groups that a broker coordinates, and for committed offsets.

The metadata and assignment of a member of protocol type "consumer" are separate blobs
(kafkawire.protocol.subscriptions).
"""

from __future__ import annotations

from kafkawire.protocol.api import Api, by_topic
from kafkawire.protocol.schema import (
    Array,
    CompactArray,
    Ranged,
    Struct,
    Type,
    between,
    blob,
    boolean,
    compact_nullable_string,
    compact_string,
    flexible,
    int8,
    int16,
    int32,
    int64,
    nullable_string,
    since,
    string,
    uuid,
)

OF_GROUP, OF_TRANSACTION = 0, 1  # key_type of GroupCoordinator: of a group, or of a transaction

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
            # metadata: 0.10 accepts null, too, 0.9 does not; so null is never written
            metadata=nullable_string,
        ),
    ),
    reply=Struct(throttle_time_ms=since(3, int32), topics=by_topic(error=int16)),
)
OFFSET_FETCH = Api(
    9,
    "OffsetFetch",
    5,  # v0 reads ZooKeeper, v1 reads Kafka; the bytes are the same.  Null in v2 and later: all of the group
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
    5,  # v4: a new member first gets its id (error 79, KIP-394); v5: static members (KIP-345)
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
    5,  # v4: with states (KIP-518); v5: with types (KIP-848): Classic, Consumer, Share, Streams
    request=Struct(3, states=since(4, CompactArray(compact_string)), types=since(5, CompactArray(compact_string))),
    reply=Struct(
        3,
        throttle_time_ms=since(1, int32),
        error=int16,
        groups=flexible(
            3,
            Array(Struct(group=string, protocol_type=string)),
            CompactArray(
                Struct(
                    3,
                    group=compact_string,
                    protocol_type=compact_string,
                    state=since(4, compact_string),
                    type=since(5, compact_string),
                )
            ),
        ),
    ),
    flexible=3,
)
DELETE_GROUPS = Api(
    42,
    "DeleteGroups",
    1,
    request=Struct(groups=Array(string)),
    reply=Struct(throttle_time_ms=int32, results=Array(Struct(group=string, error=int16))),
)
OFFSET_DELETE = Api(
    47,
    "OffsetDelete",
    0,
    request=Struct(group=string, topics=by_topic()),
    reply=Struct(error=int16, throttle_time_ms=int32, topics=by_topic(error=int16)),
)
_ASSIGNED = Struct(
    0,
    topics=CompactArray(Struct(0, topic_id=uuid, topic=compact_string, partitions=CompactArray(int32))),
)
_MEMBER: dict[str, Type | Ranged] = {
    "rack": compact_nullable_string,
    "epoch": int32,
    "client_id": compact_string,
    "client_host": compact_string,
    "subscribed": CompactArray(compact_string),
}


def _described(**member: Type | Ranged) -> Struct:
    """Return the type of a described group with its members, for the newer group protocols of 4.x."""
    return Struct(
        0,
        throttle_time_ms=int32,
        groups=CompactArray(
            Struct(
                0,
                error=int16,
                error_message=compact_nullable_string,
                group=compact_string,
                state=compact_string,
                group_epoch=int32,
                assignment_epoch=int32,
                assignor=compact_string,
                members=CompactArray(Struct(0, **member)),
                authorized_operations=int32,
            )
        ),
    )


_DESCRIBE = Struct(0, groups=CompactArray(compact_string), authorized_operations=boolean)
CONSUMER_GROUP_DESCRIBE = Api(
    69,
    "ConsumerGroupDescribe",
    0,
    request=_DESCRIBE,
    reply=_described(
        member_id=compact_string,
        instance_id=compact_nullable_string,
        **_MEMBER,
        subscribed_regex=compact_nullable_string,
        assignment=_ASSIGNED,
        target=_ASSIGNED,
    ),
    flexible=0,
)
SHARE_GROUP_DESCRIBE = Api(
    77,
    "ShareGroupDescribe",
    1,  # v0: only the preview in 4.0
    request=_DESCRIBE,
    reply=_described(member_id=compact_string, **_MEMBER, assignment=_ASSIGNED),
    flexible=0,
)
SHARE_GROUP_OFFSETS = Api(
    90,
    "DescribeShareGroupOffsets",
    0,
    request=Struct(
        0,
        groups=CompactArray(
            Struct(
                0,
                group=compact_string,
                topics=CompactArray(Struct(0, topic=compact_string, partitions=CompactArray(int32)), nullable_since=0),
            )
        ),
    ),
    reply=Struct(
        0,
        throttle_time_ms=int32,
        groups=CompactArray(
            Struct(
                0,
                group=compact_string,
                topics=CompactArray(
                    Struct(
                        0,
                        topic=compact_string,
                        topic_id=uuid,
                        partitions=CompactArray(
                            Struct(
                                0,
                                partition=int32,
                                start_offset=int64,
                                leader_epoch=int32,
                                error=int16,
                                error_message=compact_nullable_string,
                            )
                        ),
                    )
                ),
                error=int16,
                error_message=compact_nullable_string,
            )
        ),
    ),
    flexible=0,
)
