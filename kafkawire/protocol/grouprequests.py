"""Requests of a member to the coordinator of its group: join, sync, heartbeat, leave.  0.9 and later.

Replies are the decoded fields; `error` is the coordinator's code, and the other fields are empty if it is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkawire.protocol import groupapis
from kafkawire.protocol.api import Api
from kafkawire.protocol.request import ApiVersions
from kafkawire.protocol.requests08 import Request


def tells_rebalance_timeout(d: ApiVersions) -> bool:
    """True if JoinGroup has a rebalance timeout; otherwise the session timeout is used for it."""
    return d.speaks(groupapis.JOIN_GROUP.key) >= 1


def join_group(
    d: ApiVersions,
    group: str,
    member_id: str,
    *,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
    protocol_type: str,
    protocols: Sequence[tuple[str, bytes]],
) -> Request:
    """Join the group, or stay a member in its next generation.  Answered once all members have joined.

    member_id: "" for a new member; the response names its own.  protocols: (name, metadata), the preferred one first.
    """
    version = d.speaks(groupapis.JOIN_GROUP.key)
    fields: dict[str, Any] = {
        "group": group,
        "session_timeout": session_timeout_ms,
        "member_id": member_id,
        "protocol_type": protocol_type,
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
    }
    if tells_rebalance_timeout(d):
        fields["rebalance_timeout"] = rebalance_timeout_ms
    return _request(groupapis.JOIN_GROUP, version, fields, instance_since=5)


def sync_group(
    d: ApiVersions, group: str, generation: int, member_id: str, assignments: Mapping[str, bytes] | None = None
) -> Request:
    """Request our assignment; the leader sends the assignments of all members by member id.  Answered once the leader
    has sent them."""
    rows = [{"member_id": name, "assignment": data} for name, data in (assignments or {}).items()]
    fields = {"group": group, "generation": generation, "member_id": member_id, "assignments": rows}
    return _request(groupapis.SYNC_GROUP, d.speaks(groupapis.SYNC_GROUP.key), fields, instance_since=3)


def heartbeat(d: ApiVersions, group: str, generation: int, member_id: str) -> Request:
    """Renew the membership: it is still valid for each response except 22 and 25. 27: the group rebalances, join
    again."""
    fields = {"group": group, "generation": generation, "member_id": member_id}
    return _request(groupapis.HEARTBEAT, d.speaks(groupapis.HEARTBEAT.key), fields, instance_since=3)


def leave_group(d: ApiVersions, group: str, member_id: str) -> Request:
    """Leave at once, so that the others need not wait for the session to expire."""
    version = d.speaks(groupapis.LEAVE_GROUP.key)
    return _request(groupapis.LEAVE_GROUP, version, {"group": group, "member_id": member_id})


def _request(api: Api, version: int, fields: Mapping[str, Any], instance_since: int | None = None) -> Request:
    if instance_since is not None and version >= instance_since:
        fields = {**fields, "group_instance_id": None}
    return Request(api, version, [api.encode_request(version, fields)])
