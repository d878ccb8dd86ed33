"""What `migrate check` looks at in a group.  Pure; the rows of the cluster are in checks.py.

members, modes, kafka-members     who is there, in both worlds, and which stores they use
elsewhere                         whether another migration has it
undecided, no-position            what the plan leaves open, and what it leaves without a position
foreign, deleted-topics           nodes that no Kafka of these releases wrote, or that belong to nothing any more
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groundwork.plural import counted
from groupadmin.migrate.checks import Check
from groupadmin.migrate.groupplan import GroupPlan
from groupadmin.snapshot.model import GroupSnapshot
from zkconsumer.offsets.marker import Marker, Phase
from zkconsumer.offsets.modes import Mode


def check_group(snapshot: GroupSnapshot, plan: GroupPlan, marker: Marker | None = None) -> list[Check]:
    """The rows of one group.  marker: what an earlier migration left under /consumers/GROUP."""
    rows = [_members(snapshot), _modes(snapshot.modes, snapshot.members), _kafka_members(snapshot)]
    rows += [_elsewhere(plan, marker), _undecided(plan), _foreign(plan), _deleted(plan), _no_position(plan)]
    return [Check(row.id, row.outcome, row.text, row.remedy, snapshot.group) for row in rows]


def _members(snapshot: GroupSnapshot) -> Check:
    owners = len(snapshot.owners) + sum(each.kind == "owner" for each in snapshot.foreign)
    if not snapshot.members and not owners:
        return Check("members", "pass", "no ids and no owners in ZooKeeper: it can be copied")
    return Check(
        "members",
        "warn",
        f"{_some(snapshot.members)} registered, {counted(owners, 'partition')} owned: it is active",
        "go by dual commit, or stop every member before the copy",
    )


def _modes(modes: Mapping[str, Mode], members: Sequence[str]) -> Check:
    told = sorted(set(modes.values()))
    silent = [member for member in members if member not in modes]
    if "zookeeper" in told and "kafka" in told:
        return Check(
            "modes",
            "fail",
            f"members on zookeeper and on kafka at once: {', '.join(f'{m} {modes[m]}' for m in sorted(modes))}",
            "neither reads what the other writes: take every member to dual now, or stop all of them",
        )
    if silent:
        return Check(
            "modes",
            "warn",
            f"no mode is told by {_some(silent)} (JVM members and other clients do not)"
            + (f"; the others are on {' and '.join(told)}" if told else ""),
            "look at their offsets.storage and dual.commit.enabled, and answer with --mode",
        )
    return Check("modes", "pass", f"every member is on {' or '.join(told)}" if told else "no members")


def _kafka_members(snapshot: GroupSnapshot) -> Check:
    there = snapshot.kafka_members
    if there is None:
        return Check("kafka-members", "pass", "brokers before 0.9 coordinate no groups")
    if there and snapshot.members:
        return Check(
            "kafka-members",
            "fail",
            f"{_some(there)} in a group of this name that Kafka coordinates, "
            f"and {_some(snapshot.members)} in ZooKeeper: both read everything",
            "stop one side now; old members' commits are refused (error 25) as long as the new ones are there",
        )
    if there:
        return Check(
            "kafka-members", "warn", f"{_some(there)} are there: they commit to Kafka", "stop them before a copy"
        )
    return Check("kafka-members", "pass", "nobody in a group of this name that Kafka coordinates")


def _elsewhere(plan: GroupPlan, marker: Marker | None) -> Check:
    if marker is None or marker.phase in (Phase.PLANNED, Phase.CHECKED, Phase.ROLLED_BACK):
        return Check("elsewhere", "pass", "no other migration of it is on its way")
    if plan.direction == "to-kafka" and marker.phase in (Phase.CUTOVER, Phase.DONE):
        text = f"plan {marker.plan} took it to Kafka ({marker.phase}): ZooKeeper's positions are old"
        return Check("elsewhere", "fail", text, "nothing is left to copy; `zkconsumer migrate status` tells more")
    return Check(
        "elsewhere", "warn", f"plan {marker.plan} left it {marker.phase}", "go on with that one, unless it is given up"
    )


def _undecided(plan: GroupPlan) -> Check:
    rows = plan.open_rows
    if not rows:
        return Check("undecided", "pass", f"of {counted(len(plan.rows), 'partition')} all are decided")
    return Check(
        "undecided",
        "warn",  # members in dual differ for a moment all the time; a copy is refused as long as rows are open
        f"{len(rows)} of {counted(len(plan.rows), 'partition')} are open: {rows[0].tp} is "
        f"{rows[0].action}, {rows[0].why}",
        "before a copy plan again with --prefer or --on-out-of-range, or set them by hand",
    )


def _foreign(plan: GroupPlan) -> Check:
    if not plan.foreign:
        return Check("foreign", "pass", "no node of another client")
    first = plan.foreign[0]
    return Check(
        "foreign",
        "warn",
        f"{counted(len(plan.foreign), 'node')} of other clients, the first "
        f"{first.path} = {first.found!r}: {first.text}",
        "see what wrote them; they are shown and never changed",
    )


def _deleted(plan: GroupPlan) -> Check:
    gone = sorted({row.tp.topic for row in plan.rows if row.action == "skip-missing-topic"})
    if not gone:
        return Check("deleted-topics", "pass", "every topic with an offset exists")
    return Check(
        "deleted-topics",
        "warn",
        f"offsets of topics or partitions that do not exist: {', '.join(gone)}",
        "they are left where they are; `zkconsumer offsets delete` takes them away",
    )


def _no_position(plan: GroupPlan) -> Check:
    without = [row for row in plan.rows if row.target is None and row.action in ("skip-no-offset", "out-of-range")]
    if not without:
        return Check("no-position", "pass", "every partition has, or will get, a position")
    return Check(
        "no-position",
        "warn",
        f"{counted(len(without), 'partition')} will have no position in {plan.goal}, the first {without[0].tp}: "
        f"whoever takes one "
        "starts where auto.offset.reset says (JVM default: the end, skipping what is there)",
        "set them with `zkconsumer offsets set` where that matters",
    )


def _some(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'member')} ({', '.join(names[:3])}{', ..' if len(names) > 3 else ''})"
