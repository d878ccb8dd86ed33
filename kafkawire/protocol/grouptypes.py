"""Requests about groups of Kafka's newer protocols (consumer: KIP-848, share: KIP-932), and requests that delete.

The classic ones are in requests08.  Replies are the decoded fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kafkawire.errors import LocalError
from kafkawire.model import TopicPartition
from kafkawire.protocol import groupapis
from kafkawire.protocol.api import Api
from kafkawire.protocol.request import ApiVersions
from kafkawire.protocol.requests08 import Request, grouped


def speaks(d: ApiVersions, api: Api, least: int = 0) -> bool:
    """True if brokers take a version of this api that is `least` or newer."""
    try:
        return d.speaks(api.key) >= least
    except LocalError:
        return False


def describe_consumer_groups(d: ApiVersions, groups: Sequence[str]) -> Request:
    """Ask for state and members of groups whose members use the consumer protocol of KIP-848.  From 4.0 on."""
    return _request(d, groupapis.CONSUMER_GROUP_DESCRIBE, {"groups": groups, "authorized_operations": False})


def describe_share_groups(d: ApiVersions, groups: Sequence[str]) -> Request:
    """Ask for state and members of share groups.  From 4.1 on."""
    return _request(d, groupapis.SHARE_GROUP_DESCRIBE, {"groups": groups, "authorized_operations": False})


def share_group_offsets(d: ApiVersions, group: str) -> Request:
    """Ask where a share group begins in each of its partitions: everything before is done.  From 4.1 on."""
    return _request(d, groupapis.SHARE_GROUP_OFFSETS, {"groups": [{"group": group, "topics": None}]})


def delete_groups(d: ApiVersions, groups: Sequence[str]) -> Request:
    """Delete groups without members, with their offsets.  From 1.1 on; to their coordinator."""
    return _request(d, groupapis.DELETE_GROUPS, {"groups": groups})


def delete_offsets(d: ApiVersions, group: str, tps: Iterable[TopicPartition]) -> Request:
    """Delete offsets of a group that does not subscribe to their topics.  From 2.4 on; to its coordinator."""
    return _request(d, groupapis.OFFSET_DELETE, {"group": group, "topics": grouped((tp, {}) for tp in tps)})


def _request(d: ApiVersions, api: Api, fields: dict[str, Any]) -> Request:
    version = d.speaks(api.key)
    return Request(api, version, [api.encode_request(version, fields)])
