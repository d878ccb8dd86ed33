"""Tables of requests and replies that create topics, add partitions, and describe settings.  Creation and partitions go
to the controller."""

from __future__ import annotations

from kafkawire.protocol.api import Api
from kafkawire.protocol.schema import (
    Array,
    Struct,
    boolean,
    int8,
    int16,
    int32,
    nullable_string,
    since,
    string,
    until,
)

OF_TOPIC, OF_BROKER = 2, 4  # resource_type of DescribeConfigs

CREATE_TOPICS = Api(
    19,
    "CreateTopics",
    4,  # in v4 and later, -1 partitions and -1 replicas are the broker's default (KIP-464)
    request=Struct(
        topics=Array(
            Struct(
                topic=string,
                partitions=int32,  # -1 if assignments are given
                replication=int16,  # -1 if assignments are given
                assignments=Array(Struct(partition=int32, brokers=Array(int32))),
                configs=Array(Struct(name=string, value=nullable_string)),
            )
        ),
        timeout_ms=int32,
        validate_only=since(1, boolean),
    ),
    reply=Struct(
        throttle_time_ms=since(2, int32),
        topics=Array(Struct(topic=string, error=int16, error_message=since(1, nullable_string))),
    ),
)
DESCRIBE_CONFIGS = Api(
    32,
    "DescribeConfigs",
    2,
    request=Struct(
        resources=Array(
            Struct(resource_type=int8, name=string, configs=Array(string, nullable_since=0))  # null: all of them
        ),
        include_synonyms=since(1, boolean),
    ),
    reply=Struct(
        throttle_time_ms=int32,
        resources=Array(
            Struct(
                error=int16,
                error_message=nullable_string,
                resource_type=int8,
                name=string,
                configs=Array(
                    Struct(
                        name=string,
                        value=nullable_string,
                        read_only=boolean,
                        is_default=until(1, boolean),
                        source=since(1, int8),  # 1: set for the topic itself; else for a broker, or the default
                        is_sensitive=boolean,
                        synonyms=since(1, Array(Struct(name=string, value=nullable_string, source=int8))),
                    )
                ),
            )
        ),
    ),
)
CREATE_PARTITIONS = Api(
    37,
    "CreatePartitions",
    1,
    request=Struct(
        topics=Array(
            Struct(
                topic=string,
                count=int32,  # of all partitions, after the request
                assignments=Array(Struct(brokers=Array(int32)), nullable_since=0),  # null: the controller chooses
            )
        ),
        timeout_ms=int32,
        validate_only=boolean,
    ),
    reply=Struct(
        throttle_time_ms=int32,
        topics=Array(Struct(topic=string, error=int16, error_message=nullable_string)),
    ),
)
