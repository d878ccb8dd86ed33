"""Tables of the requests and replies of Kafka 0.8 to 4.x; names are those of the protocol guide.

This module has logs and clusters; others have groups and their offsets (groupapis), changes of topics (adminapis),
transactions (transactionapis), logins (saslapis).  APIS has them all.  The versions are those without compact strings
and tagged fields ("flexible", KIP-482), which every broker up to 4.x supports; only groups of 4.x's newer protocols
need flexible ones (groupapis).

throttle_time_ms comes last in a Produce and an ApiVersions reply and first in every other.  Topics and partitions of a
reply may have another order than in the request: match by name.

Source: the schemas of org.apache.kafka.common.message (requests and responses as JSON) of Kafka 3.9.
"""

from __future__ import annotations

from kafkawire.errors import LocalError
from kafkawire.protocol.adminapis import CREATE_PARTITIONS, CREATE_TOPICS, DESCRIBE_CONFIGS
from kafkawire.protocol.api import Api as Api
from kafkawire.protocol.api import by_topic
from kafkawire.protocol.groupapis import CONSUMER_GROUP_DESCRIBE as CONSUMER_GROUP_DESCRIBE
from kafkawire.protocol.groupapis import DELETE_GROUPS as DELETE_GROUPS
from kafkawire.protocol.groupapis import DESCRIBE_GROUPS as DESCRIBE_GROUPS
from kafkawire.protocol.groupapis import GROUP_COORDINATOR as GROUP_COORDINATOR
from kafkawire.protocol.groupapis import HEARTBEAT as HEARTBEAT
from kafkawire.protocol.groupapis import JOIN_GROUP as JOIN_GROUP
from kafkawire.protocol.groupapis import LEAVE_GROUP as LEAVE_GROUP
from kafkawire.protocol.groupapis import LIST_GROUPS as LIST_GROUPS
from kafkawire.protocol.groupapis import OFFSET_COMMIT as OFFSET_COMMIT
from kafkawire.protocol.groupapis import OFFSET_DELETE as OFFSET_DELETE
from kafkawire.protocol.groupapis import OFFSET_FETCH as OFFSET_FETCH
from kafkawire.protocol.groupapis import SHARE_GROUP_DESCRIBE as SHARE_GROUP_DESCRIBE
from kafkawire.protocol.groupapis import SHARE_GROUP_OFFSETS as SHARE_GROUP_OFFSETS
from kafkawire.protocol.groupapis import SYNC_GROUP as SYNC_GROUP
from kafkawire.protocol.saslapis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafkawire.protocol.schema import (
    Array,
    Row,
    Struct,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message_set,
    nullable_message_set,
    nullable_string,
    since,
    string,
    topic_name,
    until,
)
from kafkawire.protocol.transactionapis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
)

READ_UNCOMMITTED, READ_COMMITTED = 0, 1  # isolation_level

# The fields before the topics, which are written without copying.
PRODUCE_HEAD = Struct(transactional_id=since(3, nullable_string), acks=int16, timeout_ms=int32)
PRODUCE = Api(
    0,
    "Produce",
    8,
    request=Struct(
        transactional_id=since(3, nullable_string),
        acks=int16,
        timeout_ms=int32,
        topics=by_topic(message_set=message_set),
    ),
    reply=Struct(
        topics=by_topic(
            error=int16,
            base_offset=int64,
            timestamp=since(2, int64),
            log_start_offset=since(5, int64),
            record_errors=since(8, Array(Struct(batch_index=int32, message=nullable_string))),
            error_message=since(8, nullable_string),
        ),
        throttle_time_ms=since(1, int32),
    ),
)
FETCH = Api(
    1,
    "Fetch",
    11,
    request=Struct(
        replica_id=int32,
        max_wait_ms=int32,
        min_bytes=int32,
        max_bytes=since(3, int32),
        isolation_level=since(4, int8),
        session_id=since(7, int32),  # 0 and epoch -1: a whole fetch, and no session (KIP-227)
        session_epoch=since(7, int32),
        topics=by_topic(
            current_leader_epoch=since(9, int32),  # -1: not known
            fetch_offset=int64,
            log_start_offset=since(5, int64),  # of a follower; -1 of a consumer
            max_bytes=int32,
        ),
        forgotten_topics=since(7, Array(Struct(topic=string, partitions=Array(int32)))),
        rack_id=since(11, string),
    ),
    reply=Struct(
        throttle_time_ms=since(1, int32),
        error=since(7, int16),
        session_id=since(7, int32),
        topics=by_topic(
            error=int16,
            high_watermark=int64,
            last_stable_offset=since(4, int64),
            log_start_offset=since(5, int64),
            aborted=since(4, Array(Struct(producer_id=int64, first_offset=int64), nullable_since=4)),
            preferred_read_replica=since(11, int32),
            message_set=nullable_message_set,
        ),
    ),
)
LIST_OFFSETS = Api(
    2,
    "ListOffsets",
    5,
    request=Struct(
        replica_id=int32,
        isolation_level=since(2, int8),
        topics=by_topic(
            current_leader_epoch=since(4, int32),  # -1: not known
            time=until(1, int64),
            max_offsets=until(1, int32),
            timestamp=since(1, int64),
        ),
    ),
    reply=Struct(
        throttle_time_ms=since(2, int32),
        topics=by_topic(
            error=int16,
            offsets=until(1, Array(int64)),
            timestamp=since(1, int64),
            offset=since(1, int64),
            leader_epoch=since(4, int32),
        ),
    ),
)
MAX_TOPICS = 200_000  # of a cluster in a Metadata response; ZooKeeper could not store a cluster with more partitions
METADATA = Api(
    3,
    "Metadata",
    8,
    # v0: an empty array requests all topics, and null does not exist; v1: null requests all, an empty array none
    request=Struct(
        topics=Array(string, nullable_since=1),
        allow_auto_topic_creation=since(4, boolean),
        include_cluster_authorized_operations=since(8, boolean),
        include_topic_authorized_operations=since(8, boolean),
    ),
    reply=Struct(
        throttle_time_ms=since(3, int32),
        brokers=Array(Struct(node_id=int32, host=string, port=int32, rack=since(1, nullable_string))),
        cluster_id=since(2, nullable_string),
        controller_id=since(1, int32),
        topics=Array(
            Struct(
                error=int16,
                topic=topic_name,
                is_internal=since(1, boolean),
                partitions=Array(
                    Struct(
                        error=int16,
                        partition=int32,
                        leader=int32,
                        leader_epoch=since(7, int32),
                        replicas=Array(int32),
                        isr=Array(int32),
                        offline_replicas=since(5, Array(int32)),
                    )
                ),
                authorized_operations=since(8, int32),
            ),
            limit=MAX_TOPICS,
        ),
        authorized_operations=since(8, int32),
    ),
)
API_VERSIONS = Api(
    18,
    "ApiVersions",
    2,
    request=Struct(),
    reply=Struct(
        error=int16,
        api_versions=Array(Row((int16, int16, int16))),  # key, lowest, highest
        throttle_time_ms=since(1, int32),
    ),
)

APIS: dict[int, Api] = {
    api.key: api
    for api in (
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        GROUP_COORDINATOR,
        JOIN_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        SYNC_GROUP,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        SASL_HANDSHAKE,
        API_VERSIONS,
        CREATE_TOPICS,
        INIT_PRODUCER_ID,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        TXN_OFFSET_COMMIT,
        DESCRIBE_CONFIGS,
        SASL_AUTHENTICATE,
        CREATE_PARTITIONS,
        DELETE_GROUPS,
        OFFSET_DELETE,
        CONSUMER_GROUP_DESCRIBE,
        SHARE_GROUP_DESCRIBE,
        SHARE_GROUP_OFFSETS,
    )
}


def api(key: int) -> Api:
    """Return the api of a key.  Raises LocalError for an unsupported one."""
    if key not in APIS:
        raise LocalError(f"api key {key} is not supported; known: {', '.join(map(str, APIS))}")
    return APIS[key]
