"""Actions that a command may request from a running mirror, by name.

An action takes the running mirror and the request's arguments, and yields responses as JSON values.  It raises Refused,
with the reason, if it cannot do what was requested; then nothing has changed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from groundwork.logs import LEVELS, set_level
from groundwork.sampling import TimerTaken
from groundwork.sentences import counted, did_you_mean
from groundwork.tasks import sleep
from kafkawire.model import partition_named
from mirrormaker.attention import view
from mirrormaker.badmessages import options_of
from mirrormaker.control.keptfile import KeptFileUnreadable
from mirrormaker.control.limiter import Limiter
from mirrormaker.control.server import (
    MAX_EVERY_S,
    MIN_EVERY_S,
    PROFILE_MAX_S,
    PROFILE_S,
    Action,
    Arguments,
    Refused,
    number,
)
from mirrormaker.control.topicrows import TopicFacts, rows_of
from mirrormaker.flow import Flow
from mirrormaker.limits import Limits, Pause, Throttle, limits_of
from mirrormaker.limits import rows_of as limit_rows
from mirrormaker.profile.bottleneck import lines
from mirrormaker.profile.profiler import Profiler
from mirrormaker.quarantine import ReleaseRefused
from mirrormaker.report import from_json
from mirrormaker.reporter import Reporter
from mirrormaker.selection import Selection
from mirrormaker.source import Source
from zkconsumer.engine.status import PartitionStatus
from zkconsumer.errors import ConsumerError
from zkconsumer.fetching.committable import Parked

log = logging.getLogger(__name__)

MIN_BYTES_PER_S = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMirror:
    """State that actions work on.  `flows`: the flows that have begun; `selections`: the topic selections by source."""

    sources: Sequence[Source]
    flows: Sequence[Flow]
    selections: Mapping[str, Selection]
    reporter: Reporter
    limiter: Limiter


# ---- looking --------------------------------------------------------------------------------------------------------


def status(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Yield the report; with `every_s`, yield another one after that many seconds, repeatedly."""
    every_s = number(arguments, "every_s", least=MIN_EVERY_S, most=MAX_EVERY_S)
    while True:
        yield view(mirror.reporter.report())
        if every_s is None:
            return
        sleep(every_s)


def topics(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Yield a row for each topic of the sources, or for each of `topics`: whether it is mirrored, by which rule, its
    state."""
    names = arguments.get("topics") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Refused("topics: a list of names")
    given = arguments.get("report")  # the report of all workers, if this mirror is one of several
    report = mirror.reporter.report() if given is None else from_json(given)
    rows, problems = [], []
    for source in _sources(mirror, arguments):
        try:
            everything = source.all_topics()
            wanted = [name for name in everything if not names or name in names]
            found = TopicFacts(
                topics=wanted,
                partitions=source.partitions_of(wanted),
                owners=source.owners(wanted),
                report=report,
            )
        except ConsumerError as reason:
            problems.append(f"source {source.name}: its topics cannot be read: {reason}")
            continue
        rows += rows_of(mirror.selections[source.name], found)
    missing = [name for name in names if name not in {row["topic"] for row in rows}]
    if missing and not problems:
        known = [topic for source in _sources(mirror, arguments) for topic in _topics_of(source)]
        raise Refused(_unknown(missing[0], known, ""))
    yield {"rows": rows, "problems": problems}


def profile(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Take a profile of `seconds` seconds and yield its text lines; yield empty lists meanwhile so that the client
    keeps waiting."""
    seconds = number(arguments, "seconds", least=1.0, most=PROFILE_MAX_S) or PROFILE_S
    profiler = Profiler(mirror.flows)
    try:
        for _ in profiler.watched(seconds, MAX_EVERY_S):
            yield []
    except TimerTaken as taken:
        raise Refused(str(taken)) from taken
    yield lines(profiler.profile())


# ---- pauses ---------------------------------------------------------------------------------------------------------


def pause(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Pause `what` (TOPIC or TOPIC:P) of `source`, or of all sources that have it; with `keep`, also after a
    restart."""
    keep = _keep(mirror, arguments)
    chosen = _chosen(mirror, arguments)
    since_ms = int(time.time() * 1000)

    def edit(limits: Limits) -> None:
        for source, topic, partition in chosen:
            limits.set_pause(Pause(source=source, topic=topic, partition=partition, since_ms=since_ms, kept=keep))

    _change(mirror, edit)
    kept = ", kept over restarts" if keep else " until resumed or restarted"
    yield [_log(f"source {source}: {_shown(topic, partition)} paused{kept}") for source, topic, partition in chosen]


def resume(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """End a pause of `what`."""
    chosen = _chosen(mirror, arguments, also_paused=True)

    def edit(limits: Limits) -> list[bool]:
        return [limits.end_pause(*each) for each in chosen]

    ended = _change(mirror, edit)
    sentences = []
    for (source, topic, partition), was in zip(chosen, ended, strict=True):
        what = f"source {source}: {_shown(topic, partition)}"
        sentences.append(_log(f"{what} resumed") if was else f"{what} was not paused")
    yield sentences


# ---- throttles ------------------------------------------------------------------------------------------------------


def throttle(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Limit a `topic`, or a whole source, to `bytes_per_s` and `messages_per_s`.  `off` ends the limit; without both,
    show the limits."""
    bytes_per_s = number(arguments, "bytes_per_s", least=MIN_BYTES_PER_S)
    messages_per_s = number(arguments, "messages_per_s", least=1)
    off = arguments.get("off") is True
    if off and (bytes_per_s is not None or messages_per_s is not None):
        raise Refused("--off ends a throttle: give no rate with it")
    if not off and bytes_per_s is None and messages_per_s is None:
        yield [
            f"source {limit.source}: {limit.topic or 'all topics'}: {limit.reason}"
            for limit in mirror.limiter.limits
            if isinstance(limit, Throttle)
        ] or ["nothing is throttled"]
        return
    keep = _keep(mirror, arguments)
    what = arguments.get("what")
    if what:
        if ":" in str(what):
            raise Refused(f"{what}: a throttle is of a topic or of a whole source, not of a partition")
        chosen = [(source, topic) for source, topic, _ in _chosen(mirror, arguments, also_paused=off)]
    else:
        chosen = [(source.name, "") for source in _sources(mirror, arguments)]
    yield _throttle_off(mirror, chosen) if off else _throttle_on(mirror, chosen, bytes_per_s, messages_per_s, keep)


def _throttle_on(
    mirror: RunningMirror,
    chosen: Sequence[tuple[str, str]],
    bytes_per_s: float | None,
    messages_per_s: float | None,
    keep: bool,
) -> list[str]:
    made = [
        Throttle(
            source=source,
            topic=topic,
            bytes_per_s=bytes_per_s,
            messages_per_s=messages_per_s,
            since_ms=int(time.time() * 1000),
            kept=keep,
        )
        for source, topic in chosen
    ]

    def edit(limits: Limits) -> None:
        for each in made:
            limits.set_throttle(each)

    _change(mirror, edit)
    kept = ", kept over restarts" if keep else " until ended or restarted"
    return [_log(f"source {each.source}: {each.topic or 'all topics'} throttled to {each.rate}{kept}") for each in made]


def _throttle_off(mirror: RunningMirror, chosen: Sequence[tuple[str, str]]) -> list[str]:
    ended = _change(mirror, lambda limits: [limits.end_throttle(*each) for each in chosen])
    sentences = []
    for (source, topic), was in zip(chosen, ended, strict=True):
        what = f"source {source}: {topic or 'all topics'}"
        sentences.append(_log(f"{what} throttled no more") if was else f"{what} had no throttle of its own")
    return sentences


# ---- parked partitions ----------------------------------------------------------------------------------------------


def parked(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Yield a row for each parked partition."""
    rows = _parked(mirror, arguments)
    places = {flow.name: flow.source.parked() for flow in mirror.flows}
    yield [_parked_row(flow, row, places[flow.name].get(row.tp)) for flow, row in rows]


def _parked_row(flow: Flow, row: PartitionStatus, where: Parked | None) -> dict[str, Any]:
    """Return a row of the table.  `at` describes the message that the partition is parked at, as far as it is known;
    `policy` names the options that decide about such a message."""
    return {
        "source": flow.name,
        "topic": row.topic,
        "partition": row.partition if isinstance(row.partition, int) else str(row.partition),
        "at": row.done if where is None else where.position,
        "lag": row.lag,
        "policy": None if where is None else options_of(flow.quarantine.kinds(row.tp, where)) or None,
        "reason": row.parked,
    }


def retry(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Fetch parked partitions again: all of them, or those of `what`."""
    rows = _parked(mirror, arguments)
    if not rows:
        what = arguments.get("what")
        yield [f"{what} is not parked" if what else "nothing is parked"]
        return
    sentences = []
    for flow, row in rows:
        said = f"source {flow.name}: {row.topic}:{row.partition}"
        if flow.retry(row):
            sentences.append(_log(f"{said} is fetched again from {row.done}"))
        else:
            sentences.append(f"{said} is not fetched again yet: messages before the bad one are still in flight")
    yield sentences


def release(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Leave out the message at which a partition (`what`, TOPIC:P) is parked: send it to the dead-letter topic, or skip
    it (`to`).

    Without `execute` nothing changes, and the response says what would be done.
    """
    what, to = str(arguments.get("what") or ""), str(arguments.get("to"))
    topic, partition = _split(what)
    if not partition:
        raise Refused(f"{what}: which partition? A message is released one at a time: TOPIC:PARTITION")
    rows = _parked(mirror, arguments)
    if not rows:
        here = [(flow, row) for flow in mirror.flows for row in flow.source.partitions() if row.topic == topic]
        if any(str(row.partition) == partition and flow.quarantine.searches(row.tp, row.done) for flow, row in here):
            raise Refused(f"{what} is fetched message by message, to find the one at fault: try again in some seconds")
        raise Refused(f"{what} is not parked")
    if len(rows) > 1:
        names = " and ".join(flow.name for flow, _ in rows)
        raise Refused(f"{what} is parked in sources {names}: choose one with --source")
    ((flow, row),) = rows
    said = f"source {flow.name}: {topic}:{partition}"
    try:
        where = flow.quarantine.releasable(row.tp, to)
        if arguments.get("execute") is not True:
            does = "would be skipped" if to == "skip" else "would be sent to the dead-letter topic"
            bad = flow.quarantine.at_fault(row.tp, where)
            record = f"the first failing message at or after {where.position}" if bad is None else bad.named
            yield [
                f"{said}: {record} {does}: {where.reason}",
                "nothing is changed without --execute",
            ]
            return
        yield [_log(f"{said}: {flow.release(row.tp, to)}")]
    except ReleaseRefused as reason:
        raise Refused(str(reason)) from reason


def _parked(mirror: RunningMirror, arguments: Arguments) -> list[tuple[Flow, PartitionStatus]]:
    """Return the parked partitions that the arguments select."""
    what, named = arguments.get("what"), {source.name for source in _sources(mirror, arguments)}
    topic, partition = _split(what) if what else ("", "")
    rows = [
        (flow, row)
        for flow in mirror.flows
        if flow.name in named
        for row in flow.source.partitions()
        if row.parked is not None
    ]
    if not what:
        return rows
    meant = [each for each in rows if each[1].topic == topic and partition in ("", str(each[1].partition))]
    if not meant:
        _chosen(mirror, arguments)  # refuses a name that does not exist
    return meant


# ---- the log --------------------------------------------------------------------------------------------------------


def set_log_level(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Set the log level to `level` until the next start."""
    level = str(arguments.get("level", "")).lower()
    if level not in LEVELS:
        raise Refused(f"log level is one of {', '.join(LEVELS)}, not {level}")
    set_level(level)
    log.log(max(logging.INFO, logging.getLogger().level), "log level is %s now", level, extra={"event": "log-level"})
    yield [f"log level is {level} until the next start"]


# ---- for the supervisor only -----------------------------------------------------------------------------------------


def limits(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Yield the active limits as rows; with `rows`, replace the limits first.  The file is not written."""
    if (rows := arguments.get("rows")) is not None:
        mirror.limiter.replace(limits_of(rows))
    yield limit_rows(mirror.limiter.limits)


def shares(mirror: RunningMirror, arguments: Arguments) -> Iterator[Any]:
    """Set this worker's share of each throttle: rows of source, topic and share."""
    mirror.limiter.divide({(source, topic): share for source, topic, share in arguments["shares"]})
    yield None


ACTIONS: Mapping[str, Callable[[RunningMirror, Arguments], Iterator[Any]]] = {
    "status": status,
    "topics": topics,
    "pause": pause,
    "resume": resume,
    "throttle": throttle,
    "parked": parked,
    "retry": retry,
    "release": release,
    "set-log-level": set_log_level,
    "profile": profile,
}


WORKER_ACTIONS: Mapping[str, Callable[[RunningMirror, Arguments], Iterator[Any]]] = {"limits": limits, "shares": shares}


def actions_of(mirror: RunningMirror, *, worker: bool = False) -> dict[str, Action]:
    """Return the actions of one mirror by name; with `worker`, also those that only its supervisor requests."""
    actions = {**ACTIONS, **WORKER_ACTIONS} if worker else ACTIONS
    return {name: partial(action, mirror) for name, action in actions.items()}


# ---- arguments ------------------------------------------------------------------------------------------------------


def _keep(mirror: RunningMirror, arguments: Arguments) -> bool:
    keep = arguments.get("keep") is True
    if keep and mirror.limiter.kept is None:
        raise Refused(
            "nothing can be kept over restarts: this mirror has no state folder; set mirror.state.folder, or run it as "
            "a unit with StateDirectory="
        )
    return keep


def _sources(mirror: RunningMirror, arguments: Arguments) -> list[Source]:
    """Return the selected sources: the one named by `source`, or all."""
    name = arguments.get("source")
    if name is None:
        return list(mirror.sources)
    found = [source for source in mirror.sources if source.name == name]
    if not found:
        names = ", ".join(source.name for source in mirror.sources)
        raise Refused(f"there is no source {name}: this mirror has {names}")
    return found


def _chosen(mirror: RunningMirror, arguments: Arguments, *, also_paused: bool = False) -> list[tuple[str, str, str]]:
    """Return source, topic and partition ("" for all) of `what`, in each source that has the topic and mirrors it.

    also_paused: include topics that are limited but do not exist any more.
    """
    what = arguments.get("what")
    if not isinstance(what, str) or not what:
        raise Refused("which topic is meant? TOPIC or TOPIC:PARTITION")
    topic, partition = _split(what)
    sources = _sources(mirror, arguments)
    limited = {limit.source for limit in mirror.limiter.limits if also_paused and limit.topic == topic}
    found, left, known = [], [], []
    for source in sources:
        topics = _topics_of(source)
        known += topics
        if source.name in limited or (not topics and mirror.selections[source.name].selects(topic)):
            found.append((source.name, topic, partition))
        elif topic in topics and not mirror.selections[source.name].selects(topic):
            left.append(f"source {source.name}: {topic} is not mirrored: {mirror.selections[source.name].rule(topic)}")
        elif topic in topics:
            _check_partition(source, topic, partition)
            found.append((source.name, topic, partition))
    if not found:
        raise Refused(left[0] if left else _unknown(topic, known, str(arguments.get("source") or "")))
    return found


def _split(what: Any) -> tuple[str, str]:
    topic, colon, partition = str(what).partition(":")
    if not topic or (colon and partition_named(partition) is None):
        raise Refused(f"{what} is neither TOPIC nor TOPIC:PARTITION (a number, of 0.7 broker-index)")
    return topic, str(partition_named(partition)) if colon else ""


def _topics_of(source: Source) -> list[str]:
    """Return all topics of a source, or only the owned ones while its ZooKeeper is unreachable."""
    try:
        return source.all_topics()
    except ConsumerError:
        return sorted({row.topic for row in source.partitions()})


def _check_partition(source: Source, topic: str, partition: str) -> None:
    if not partition:
        return
    try:
        known = source.partitions_of([topic]).get(topic, [])
    except ConsumerError:
        return
    if partition not in {str(one) for one in known}:
        has = (
            ", ".join(map(str, sorted(known, key=str)))
            if len(list(known)) <= 8
            else counted(len(list(known)), "partition")
        )
        raise Refused(f"source {source.name}: {topic} has no partition {partition}: it has {has or 'none'}")


def _unknown(topic: str, known: Iterable[str], source: str) -> str:
    where = f"source {source} has" if source else "no source has"
    return f"{where} {'no' if source else 'a'} topic {topic}{did_you_mean(topic, set(known))}"


def _shown(topic: str, partition: str) -> str:
    return f"{topic}:{partition}" if partition else topic


def _change(mirror: RunningMirror, edit: Callable[[Limits], Any]) -> Any:
    try:
        return mirror.limiter.change(edit)
    except KeptFileUnreadable as reason:
        raise Refused(f"nothing has changed: {reason}") from reason


def _log(sentence: str) -> str:
    """Log what an operator changed, and return the sentence."""
    log.warning("control: %s", sentence, extra={"event": "control", "always": True})
    return sentence
