"""Requests about groups of Kafka's newer protocols (consumer: KIP-848, share: KIP-932), and requests that delete groups
or offsets.

Requests for classic groups are in requests08.  Replies are the decoded fields.
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
    """True if brokers support version `least` of this api or a newer one."""
    try:
        return d.speaks(api.key) >= least
    except LocalError:
        return False


def describe_consumer_groups(d: ApiVersions, groups: Sequence[str]) -> Request:
    """Request state and members of groups whose members use the consumer protocol of KIP-848 (4.0 and later)."""
    return _request(d, groupapis.CONSUMER_GROUP_DESCRIBE, {"groups": groups, "authorized_operations": False})


def describe_share_groups(d: ApiVersions, groups: Sequence[str]) -> Request:
    """Request state and members of share groups (4.1 and later)."""
    return _request(d, groupapis.SHARE_GROUP_DESCRIBE, {"groups": groups, "authorized_operations": False})


def share_group_offsets(d: ApiVersions, group: str) -> Request:
    """Request the start offset of a share group in each of its partitions: everything before is done (4.1 and
    later)."""
    return _request(d, groupapis.SHARE_GROUP_OFFSETS, {"groups": [{"group": group, "topics": None}]})


def delete_groups(d: ApiVersions, groups: Sequence[str]) -> Request:
    """Delete groups without members, with their offsets; goes to their coordinator (1.1 and later)."""
    return _request(d, groupapis.DELETE_GROUPS, {"groups": groups})


def delete_offsets(d: ApiVersions, group: str, tps: Iterable[TopicPartition]) -> Request:
    """Delete offsets of a group that does not subscribe to their topics; goes to its coordinator (2.4 and later)."""
    return _request(d, groupapis.OFFSET_DELETE, {"group": group, "topics": grouped((tp, {}) for tp in tps)})


def _request(d: ApiVersions, api: Api, fields: dict[str, Any]) -> Request:
    version = d.speaks(api.key)
    return Request(api, version, [api.encode_request(version, fields)])
