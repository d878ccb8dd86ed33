"""Tables of requests and replies for producer ids and transactions (KIP-98).

InitProducerId without a transactional id may go to any broker, and TxnOffsetCommit goes to the group's coordinator; all
others go to the coordinator of the transactional id (GroupCoordinator with OF_TRANSACTION).
"""

from __future__ import annotations

from kafkawire.protocol.api import Api, by_topic
from kafkawire.protocol.schema import (
    Array,
    Struct,
    boolean,
    int16,
    int32,
    int64,
    nullable_string,
    since,
    string,
)

INIT_PRODUCER_ID = Api(
    22,
    "InitProducerId",
    1,
    request=Struct(transactional_id=nullable_string, transaction_timeout_ms=int32),
    reply=Struct(throttle_time_ms=int32, error=int16, producer_id=int64, producer_epoch=int16),
)
ADD_PARTITIONS_TO_TXN = Api(
    24,
    "AddPartitionsToTxn",
    2,
    request=Struct(
        transactional_id=string,
        producer_id=int64,
        producer_epoch=int16,
        topics=Array(Struct(topic=string, partitions=Array(int32))),
    ),
    reply=Struct(throttle_time_ms=int32, topics=by_topic(error=int16)),
)
ADD_OFFSETS_TO_TXN = Api(
    25,
    "AddOffsetsToTxn",
    2,
    request=Struct(transactional_id=string, producer_id=int64, producer_epoch=int16, group=string),
    reply=Struct(throttle_time_ms=int32, error=int16),
)
END_TXN = Api(
    26,
    "EndTxn",
    2,
    request=Struct(transactional_id=string, producer_id=int64, producer_epoch=int16, commit=boolean),
    reply=Struct(throttle_time_ms=int32, error=int16),
)
TXN_OFFSET_COMMIT = Api(
    28,
    "TxnOffsetCommit",
    2,
    request=Struct(
        transactional_id=string,
        group=string,
        producer_id=int64,
        producer_epoch=int16,
        topics=by_topic(offset=int64, leader_epoch=since(2, int32), metadata=nullable_string),
    ),
    reply=Struct(throttle_time_ms=int32, topics=by_topic(error=int16)),
)
