"""Text form of a plan, which is reviewed, kept, and executed later.  Pure.

    {"format": "zkconsumer.migration.plan/1", "plan": ID, "direction": .., "policies": {..}, "cluster": ..,
     "made_at_ms": ..,
     "groups": [{"group": G, "plan": ID, "read_at_ms": .., "members": [..], "foreign": [..],
       "partitions": [{"topic": T, "partition": "0", "action": "copy", "target": 123, "open": false, "why": "",
         "zookeeper": {"offset": 123, "version": 4, "mzxid": .., "czxid": .., "mtime_ms": ..},
         "kafka": {"offset": null, "metadata": "", "committed_at_ms": null},
         "log_start": 0, "log_end": 200}]}]}

null: no offset; {"unreadable": WHY}: could not be read; "zookeeper": null: no node.  A plan that was changed by hand is
refused: its id is a hash of its content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from groundwork.jsontext import json_value
from groupadmin.migrate.rules.groupplan import GroupPlan, Plan, PlanRow, Policies, make_plan, rehashed
from groupadmin.snapshot.model import Foreign, KafkaRow, ZkRow
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.options.arguments import WrongUsage, parse_partition

FORMAT = "zkconsumer.migration.plan/1"


class PlanUnclear(ConsumerError):
    """The file is not a plan, or its text was changed."""


def plan_text(plan: Plan) -> str:
    """Return the plan as JSON."""
    return json.dumps(plan_document(plan), indent=1) + "\n"


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as a JSON document."""
    return {
        "format": FORMAT,
        "plan": plan.plan_id,
        "direction": plan.direction,
        "policies": asdict(plan.policies),
        "cluster": plan.cluster,
        "made_at_ms": plan.made_at_ms,
        "groups": [_group(each) for each in plan.groups],
    }


def _group(plan: GroupPlan) -> dict[str, Any]:
    return {
        "group": plan.group,
        "plan": plan.plan_id,
        "read_at_ms": plan.read_at_ms,
        "members": list(plan.members),
        "foreign": [asdict(each) for each in plan.foreign],
        "partitions": [_row(row) for row in plan.rows],
    }


def _row(row: PlanRow) -> dict[str, Any]:
    node, start_end = row.zookeeper, row.bounds or (None, None)
    return {
        "topic": row.tp.topic,
        "partition": str(row.tp.partition),
        "action": row.action,
        "target": row.target,
        "open": row.open,
        "why": row.why,
        "zookeeper": None
        if node is None
        else {
            "offset": _said(node.position),
            "version": node.version,
            "mzxid": node.mzxid,
            "czxid": node.czxid,
            "mtime_ms": node.mtime_ms,
        },
        "kafka": {
            "offset": _said(row.kafka.position),
            "metadata": row.kafka.metadata,
            "committed_at_ms": row.kafka.committed_at_ms,
        },
        "log_start": start_end[0],
        "log_end": start_end[1],
    }


def _said(there: Committed) -> int | dict[str, str] | None:
    if isinstance(there, Unknown):
        return {"unreadable": there.reason}
    return there if isinstance(there, int) else None


def read_plan(text: str) -> Plan:
    """Return the plan in a text.  Raises PlanUnclear."""
    try:
        said = json_value(text)
    except ValueError as why:
        raise PlanUnclear(f"the plan is not JSON ({why})") from None
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise PlanUnclear(f"this is not the plan of a migration ({FORMAT}); make one with `zkconsumer migrate plan`")
    try:
        plan = _plan(said)
    except (KeyError, TypeError, ValueError, WrongUsage) as why:
        raise PlanUnclear(f"the plan cannot be parsed ({type(why).__name__}: {why}); make a new one") from None
    if plan.plan_id != said.get("plan"):
        raise PlanUnclear(f"the plan was changed after it was made: it calls itself {said.get('plan')}; make a new one")
    return plan


def _plan(said: Mapping[str, Any]) -> Plan:
    policies, direction = Policies(**said["policies"]), said["direction"]
    groups = []
    for each in said["groups"]:
        rows = tuple(_read_row(row) for row in each["partitions"])
        foreign = tuple(Foreign(**one) for one in each["foreign"])
        unsigned = GroupPlan(
            each["group"],
            direction,
            rows=rows,
            foreign=foreign,
            members=tuple(each["members"]),
            read_at_ms=each["read_at_ms"],
            plan_id="",
        )
        groups.append(rehashed(unsigned, policies))
    return make_plan(groups, policies, direction, cluster=said["cluster"], at_ms=said["made_at_ms"])


def _read_row(said: Mapping[str, Any]) -> PlanRow:
    node, kafka = said["zookeeper"], said["kafka"]
    zookeeper = None
    if node is not None:
        where = (node["version"], node["mzxid"], node["czxid"], node["mtime_ms"])
        zookeeper = ZkRow(_read_position(node["offset"]), *where)
    return PlanRow(
        TopicPartition(said["topic"], parse_partition(said["partition"])),
        zookeeper,
        KafkaRow(_read_position(kafka["offset"]), kafka["metadata"], kafka["committed_at_ms"]),
        None if said["log_start"] is None else (said["log_start"], said["log_end"]),
        action=said["action"],
        target=said["target"],
        open=said["open"],
        why=said["why"],
    )


def _read_position(said: int | Mapping[str, str] | None) -> Committed:
    if said is None:
        return NONE
    if isinstance(said, int) and not isinstance(said, bool) and said >= 0:
        return said
    if isinstance(said, Mapping):
        return Unknown(said["unreadable"])
    raise ValueError(f"{said!r} is not a position")
