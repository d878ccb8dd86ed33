"""Stages of a mirror, and which of them a call stack belongs to.  Pure.

fetch      plans and asks: which partitions, how many bytes          receive   bytes of responses, into their places
scan       entries of a fetched set, checksums                       route     partitions, re-encoding
handler    message.handler, message.set.handler, encoders            produce   batches, requests, acknowledgements
commit     committed offsets, offset map                             ZooKeeper session, group, watches
other      status, metrics, control, timers                          idle      the event loop has nothing to run
"""

from __future__ import annotations

from collections.abc import Iterable

STAGES = ("fetch", "receive", "scan", "route", "handler", "produce", "commit", "ZooKeeper", "other")
IDLE = "idle"

# The innermost of these packages decides.
OWNERS = (
    ("mirrormaker.handler", "handler"),
    ("mirrormaker.sethandler", "handler"),
    ("mirrormaker.encoding", "handler"),
    ("mirrormaker.offsetmap", "commit"),
    ("zkconsumer.offsets", "commit"),
    ("kazoo", "ZooKeeper"),
    ("zkconsumer.session", "ZooKeeper"),
    ("zkconsumer.group", "ZooKeeper"),
    ("zkconsumer.member", "ZooKeeper"),
    ("zkconsumer.kafkagroup", "ZooKeeper"),
    ("mirrormaker.zookeeper", "ZooKeeper"),
    ("producer.zookeeper", "ZooKeeper"),
    ("zkconsumer", "fetch"),
    ("mirrormaker.flow", "route"),
    ("mirrormaker.routes", "route"),
    ("mirrormaker.partitioning", "route"),
    ("producer.conversion", "route"),
    ("producer.partitioners", "route"),
    ("producer.columnbatches", "route"),
    ("producer", "produce"),
    ("mirrormaker", "other"),
)
# Below the fetcher these belong to a stage of their own.
FETCHED = (("kafkawire.formats", "scan"), ("kafkawire.compression", "scan"), ("kafkawire", "receive"))
WAITS = {"commit": ("zkconsumer.offsets", "commit_locked"), "ZooKeeper": ("zkconsumer.session.zkcalls", "")}
Stack = Iterable[tuple[str, str]]  # module and function, the innermost first


def stage_of(stack: Stack) -> str:
    """Return the stage that runs."""
    below = ""
    inside = False  # in the event loop, or in code that it runs
    for module, _ in stack:
        owner = _of(module, OWNERS)
        if owner == "fetch" and below:
            return below
        if owner:
            return owner
        below = below or _of(module, FETCHED)
        inside = inside or not _is(module, "gevent")
    if not inside:
        return IDLE
    return "receive" if below == "receive" else "other"


def waits_of(stack: Stack) -> str:
    """Return the stage of a waiting greenlet: handler, commit or ZooKeeper; "" if its wait does not count as work."""
    found = ""
    for module, function in stack:
        if _of(module, OWNERS[:4]):
            return "handler"
        for stage, (package, name) in WAITS.items():
            if _is(module, package) and name in ("", function):
                found = "commit" if "commit" in (stage, found) else stage
    return found


def _of(module: str, table: tuple[tuple[str, str], ...]) -> str:
    for package, stage in table:
        if _is(module, package):
            return stage
    return ""


def _is(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
