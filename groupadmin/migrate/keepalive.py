"""Keepalive of copies: they are committed again, so that they do not expire, until members return, or until ctrl-C.

Kafka has no compare-and-set.  So each group is read just before it is written, and left alone from the moment when it
has members, or other offsets than the plan's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from groundwork.sentences import counted
from groupadmin.migrate import stepwrites
from groupadmin.migrate.observation import SiteLike
from groupadmin.migrate.rules.comparison import presence_of
from groupadmin.migrate.rules.groupplan import GroupPlan, left_to_write
from groupadmin.snapshot.model import GroupSnapshot

LOOK_S = 5.0  # interval of the checks for members
FEW = 20  # groups that are read and then written together


def keep_alive(
    site: SiteLike,
    plans: Iterable[GroupPlan],
    *,
    every_s: float,
    retention_ms: int | None,
    tell: Callable[[str], object],
) -> None:
    """Commit the copies again every `every_s`; returns when no group is left.  Raises ZooKeeperAway."""
    left = {plan.group: plan for plan in plans}
    due = site.now() + every_s
    while left:
        touch = site.now() >= due
        if touch:
            due = site.now() + every_s
        names = list(left)
        for first in range(0, len(names), FEW):
            some = [left[name] for name in names[first : first + FEW]]
            seen = site.snapshots(some, only_presence=True)
            for plan in some:
                why = _end_reason(plan, seen[plan.group])
                if why:
                    tell(f"{plan.group} is no longer kept alive: {why}")
                    del left[plan.group]
                elif touch:
                    _touch(site, plan, seen[plan.group], retention_ms=retention_ms, tell=tell)
        if left:
            site.sleep(min(LOOK_S, max(0.0, due - site.now())))


def _end_reason(plan: GroupPlan, now: GroupSnapshot) -> str:
    if not presence_of(now).absent:
        return "it has members"
    found = left_to_write(plan, now)
    if found.stale:
        return found.stale[0].text
    return "Kafka does not hold what was copied" if found.writes else ""


def _touch(
    site: SiteLike, plan: GroupPlan, now: GroupSnapshot, *, retention_ms: int | None, tell: Callable[[str], object]
) -> None:
    written = site.write(stepwrites.copying(plan, left_to_write(plan, now)), retention_ms)
    wrong = [row for row in written if row.state != "written"]
    for row in wrong[:1]:
        tell(
            f"{plan.group}: {counted(len(wrong), 'offset was', 'offsets were')} not committed again, "
            f"the first {row.write.tp}: {row.why}"
        )
