"""Finds which stage of a mirror a call stack belongs to, and the mirror's bottleneck.  Pure.

handler   a handler runs in the event loop or waits, half of the time
CPU       the event loop is busy nearly all of the time
source    nothing is left to copy; or fetches wait for the source's brokers, and their latency is low
target    fetched sets wait to be acknowledged, and the latency of the target's brokers is low
link      one side waits, and the link to its brokers is long (every response takes long) or narrow (bytes are
          in transit most of the time)

Stages:

fetch      plans and asks: which partitions, how many bytes          receive   bytes of responses, into their places
scan       entries of a fetched set, checksums                       route     partitions, re-encoding
handler    message.handler, message.set.handler, encoders            produce   batches, requests, acknowledgements
commit     committed offsets, offset map                             ZooKeeper session, group, watches
other      status, metrics, control, timers                          idle      the event loop has nothing to run
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Name = Literal["handler", "CPU", "source", "target", "link"]

HANDLER = 0.5  # share of the time
BUSY = 0.85
OFTEN = 0.5
FAR_S = 0.010  # a broker in the same site answers some request faster than that
NARROW_BYTES_PER_S = 125e6  # a gigabit: a link that carries more is not narrow
CAUGHT_UP_S = 1.0  # seconds of lag, in messages at the mirror's own rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Requests to the brokers of one side.

    waiting   share of the time with a request that waits for the first byte of its response
    moving    share of the time in which bytes of a response (source) or of a request (target) are in transit
    soonest_s shortest time of any response, or None without a response
    bytes     received or sent
    """

    waiting: float = 0.0
    moving: float = 0.0
    soonest_s: float | None = None
    requests: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Profile of a mirror: where its time went.

    seconds   length of the profile; cpu_s: processor time of the event loop's thread in it
    ran       seconds in which each stage had the event loop (including waits during which nothing else ran); cpu:
              its processor time
    waited    seconds in which a greenlet of a stage waited while others ran: handler, commit, ZooKeeper
    messages  copied
    handled   messages that message.set.handler sent: copied, or encoded again
    unread, unacknowledged   messages not fetched yet, and messages fetched and not acknowledged (averages)
    """

    seconds: float
    cpu_s: float
    ran: Mapping[str, float]
    cpu: Mapping[str, float]
    waited: Mapping[str, float] = field(default_factory=dict)
    source: Side = Side()
    target: Side = Side()
    messages: int = 0
    unread: float = 0.0
    unacknowledged: float = 0.0
    handled: Mapping[str, int] = field(default_factory=dict)

    @property
    def busy(self) -> float:
        """Return the share of the time in which the event loop ran something."""
        return sum(self.ran.values()) / self.seconds


@dataclass(frozen=True, slots=True)
class Bottleneck:
    name: Name
    sentence: str


def bottleneck(profile: Profile) -> Bottleneck:
    """Return the bottleneck of the mirror, with one sentence about it."""
    handler = max(profile.ran.get("handler", 0.0), profile.waited.get("handler", 0.0)) / profile.seconds
    if handler >= HANDLER:
        return Bottleneck(
            "handler",
            f"handlers and encoders take {handler:.0%} of the time; a set handler, a cheaper one or --workers helps",
        )
    if profile.busy >= BUSY:
        first = max(profile.ran, key=lambda stage: profile.ran[stage])
        share = profile.ran[first] / sum(profile.ran.values())
        return Bottleneck(
            "CPU",
            f"the event loop is busy {profile.busy:.0%} of the time, most of it with {first} ({share:.0%}); "
            "--workers or the extra fast helps",
        )
    per_s = profile.messages / profile.seconds
    if profile.unread + profile.unacknowledged <= per_s * CAUGHT_UP_S:
        return Bottleneck("source", "the mirror has caught up: it waits for new messages at the source")
    return _of_target(profile) if _held_by_target(profile) else _of_source(profile)


def _held_by_target(profile: Profile) -> bool:
    """True if fetched sets wait for the target, instead of the target for fetched sets."""
    if profile.unread < profile.unacknowledged * 0.1:
        return True
    fetching = profile.source.waiting + profile.source.moving
    sending = profile.target.waiting + profile.target.moving
    return fetching < OFTEN and sending > fetching


def _of_source(profile: Profile) -> Bottleneck:
    side = profile.source
    far = _link(side, "source", "larger fetches and more of them (num.consumer.fetchers) help", profile.seconds)
    if far is not None:
        return far
    return Bottleneck(
        "source",
        f"fetches wait {side.waiting:.0%} of the time for the source's brokers, which are near: they bring no more",
    )


def _of_target(profile: Profile) -> Bottleneck:
    side = profile.target
    if side.soonest_s is None:
        return Bottleneck("target", "no produce request was answered: what is fetched waits for the target's brokers")
    far = _link(side, "target", "larger batches and more in flight (max.in.flight) help", profile.seconds)
    if far is not None:
        return far
    return Bottleneck(
        "target",
        f"produce requests wait {side.waiting:.0%} of the time for the target's brokers, which are near: they take no "
        "more",
    )


def _link(side: Side, where: str, helps: str, seconds: float) -> Bottleneck | None:
    """Return a long link, a narrow one, or either: responses that wait behind other bytes are late, too."""
    long = side.soonest_s is not None and side.soonest_s >= FAR_S
    narrow = side.moving >= OFTEN and side.bytes < NARROW_BYTES_PER_S * side.moving * seconds
    late = f"no response of the {where}'s brokers comes sooner than {(side.soonest_s or 0) * 1000:.0f} ms"
    if not narrow:
        return Bottleneck("link", f"{late}; {helps}") if long else None
    rate = side.bytes / (side.moving * seconds) / 1e6
    transit = f"bytes are in transit {side.moving:.0%} of the time on the link of the {where}, {rate:.1f} MB/s"
    wider = "compression.codec at the producers, or a wider link helps"
    if not long:
        return Bottleneck("link", f"{transit}; {wider}")
    return Bottleneck(
        "link", f"{transit}, and {late}: where ping takes as long, {helps}; where it takes much less, {wider}"
    )


def lines(profile: Profile) -> list[str]:
    """Return the profile as text: a table of stages, the waits, and the bottleneck."""
    found = bottleneck(profile)
    per_s = profile.messages / profile.seconds
    rows = [("stage", "runs s", "share", "CPU s"), *_rows(profile)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    handled = ", ".join(f"{count:,} {how}" for how, count in sorted(profile.handled.items()) if count)
    return [
        f"profile of {profile.seconds:.1f} s: {profile.messages:,} messages copied, {per_s:,.0f} a second; "
        f"{profile.unread:,.0f} not fetched yet, {profile.unacknowledged:,.0f} fetched and not acknowledged",
        *table,
        f"the event loop ran {profile.busy:.0%} of the time, with {profile.cpu_s:.2f} s of CPU",
        *([f"messages of message.set.handler: {handled}"] if handled else []),
        f"bottleneck: {found.name}: {found.sentence}",
    ]


def _rows(profile: Profile) -> list[tuple[str, str, str, str]]:
    def row(stage: str, seconds: float, cpu: float | None) -> tuple[str, str, str, str]:
        return stage, f"{seconds:.2f}", f"{seconds / profile.seconds:.0%}", "" if cpu is None else f"{cpu:.2f}"

    rows = [row(stage, seconds, profile.cpu.get(stage, 0.0)) for stage, seconds in profile.ran.items()]
    idle = max(0.0, profile.seconds - sum(profile.ran.values()))
    waits = {
        "fetch wait": profile.source.waiting * profile.seconds,
        "receive wait": profile.source.moving * profile.seconds,
        "produce wait": profile.target.waiting * profile.seconds,
        "send wait": profile.target.moving * profile.seconds,
        **{f"{stage} wait": seconds for stage, seconds in profile.waited.items()},
    }
    return [*rows, row("idle", idle, None), *(row(name, seconds, None) for name, seconds in waits.items())]


# ---- stages -------------------------------------------------------------------------------------------------------

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
