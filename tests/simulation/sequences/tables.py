"""Tables of the requests that only sequences send; kafkawire has the others."""

from __future__ import annotations

from kafkawire.protocol.api import Api, by_topic
from kafkawire.protocol.schema import Array, Struct, int16, int32, int64, string

DELETE_TOPICS = Api(
    20,
    "DeleteTopics",
    1,
    request=Struct(topics=Array(string), timeout_ms=int32),
    reply=Struct(throttle_time_ms=int32, topics=Array(Struct(topic=string, error=int16))),
)
DELETE_RECORDS = Api(
    21,
    "DeleteRecords",
    1,
    request=Struct(topics=by_topic(offset=int64), timeout_ms=int32),
    reply=Struct(throttle_time_ms=int32, topics=by_topic(low_watermark=int64, error=int16)),
)
