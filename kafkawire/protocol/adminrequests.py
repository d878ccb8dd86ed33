"""Requests that create topics, add partitions, and describe settings; and the meaning of their replies.

Each builder takes the dialect first.  CreateTopics and CreatePartitions go to the controller; other brokers answer 41
(a KRaft broker forwards them); DescribeConfigs of a topic goes to any broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkawire.errors import LocalError
from kafkawire.protocol import adminapis
from kafkawire.protocol.request import ApiVersions
from kafkawire.protocol.requests08 import Request

BROKERS_DEFAULT = -1  # partitions or replicas, in CreateTopics v4 and later (KIP-464)
_OF_TOPIC_ITSELF = 1  # source of a setting, in DescribeConfigs v1 and later


@dataclass(frozen=True, slots=True)
class NewTopic:
    """Topic to create. settings: those that differ from the broker's default."""

    partitions: int
    replication: int = BROKERS_DEFAULT
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """Outcome for one topic. message: the broker's error message, "" if it has none."""

    error: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting in effect for a topic or broker. own: set for it explicitly, not a default."""

    value: str
    own: bool


def create_topics(
    d: ApiVersions, topics: Mapping[str, NewTopic], timeout_ms: int, validate_only: bool = False
) -> Request:
    """Create topics. timeout_ms: how long the controller waits until its brokers know them.

    validate_only: create none, and return which would be refused (v1 and later, 0.10.2).  Reply: dict[str,
    TopicOutcome].  Raises LocalError if a broker default is requested that this version does not support.
    """
    version = d.speaks(adminapis.CREATE_TOPICS.key)
    for name, topic in topics.items():
        if version < 4 and BROKERS_DEFAULT in (topic.partitions, topic.replication):
            raise LocalError(f"topic {name}: Kafka {d.release} needs its number of partitions and replicas")
    fields: dict[str, Any] = {
        "topics": [
            {
                "topic": name,
                "partitions": topic.partitions,
                "replication": topic.replication,
                "assignments": [],
                "configs": [{"name": key, "value": value} for key, value in topic.settings.items()],
            }
            for name, topic in topics.items()
        ],
        "timeout_ms": timeout_ms,
    }
    if version >= 1:
        fields["validate_only"] = validate_only
    elif validate_only:
        raise LocalError(f"Kafka {d.release} cannot validate topics without creating them")
    return _request(d, adminapis.CREATE_TOPICS, fields, _outcomes)


def create_partitions(d: ApiVersions, counts: Mapping[str, int], timeout_ms: int) -> Request:
    """Add partitions to each topic until it has its count.  Reply: dict[str, TopicOutcome]; 37: it already has as many,
    or more."""
    fields = {
        "topics": [{"topic": name, "count": count, "assignments": None} for name, count in counts.items()],
        "timeout_ms": timeout_ms,
        "validate_only": False,
    }
    return _request(d, adminapis.CREATE_PARTITIONS, fields, _outcomes)


def describe_topics(d: ApiVersions, topics: Iterable[str]) -> Request:
    """Request the settings of topics.  Reply: dict[str, dict[str, Setting] | TopicOutcome]."""
    return _describe(d, adminapis.OF_TOPIC, topics)


def describe_broker(d: ApiVersions, broker_id: int) -> Request:
    """Request a broker's settings, from that broker, since no other knows them.  The reply is keyed by its id."""
    return _describe(d, adminapis.OF_BROKER, [str(broker_id)])


def _describe(d: ApiVersions, resource_type: int, names: Iterable[str]) -> Request:
    version = d.speaks(adminapis.DESCRIBE_CONFIGS.key)
    resources = [{"resource_type": resource_type, "name": name, "configs": None} for name in names]
    fields: dict[str, Any] = {"resources": resources}
    if version >= 1:
        fields["include_synonyms"] = False
    return _request(d, adminapis.DESCRIBE_CONFIGS, fields, _settings)


def _outcomes(reply: dict[str, Any]) -> dict[str, TopicOutcome]:
    return {row["topic"]: TopicOutcome(row["error"], row.get("error_message") or "") for row in reply["topics"]}


def _settings(reply: dict[str, Any]) -> dict[str, dict[str, Setting] | TopicOutcome]:
    return {
        row["name"]: TopicOutcome(row["error"], row["error_message"] or "")
        if row["error"]
        else {one["name"]: Setting(one["value"], _its_own(one)) for one in row["configs"] if one["value"] is not None}
        for row in reply["resources"]
    }


def _its_own(setting: Mapping[str, Any]) -> bool:
    """True if it is set for the topic itself, not taken from a broker or a default."""
    return setting["source"] == _OF_TOPIC_ITSELF if "source" in setting else not setting["is_default"]


def _request(d: ApiVersions, api: Any, fields: Mapping[str, Any], finish: Any) -> Request:
    version = d.speaks(api.key)
    return Request(api, version, [api.encode_request(version, fields)], finish=finish)
