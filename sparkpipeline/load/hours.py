"""Hours: the hour of a row, and completeness of hours.

The hour of a row is found by expressions of Spark's, without regard to the session's time zone:

    message    the message's timestamp; 0.8 and 0.9 have none
    json       a field of the value; what is no JSON, lacks it, or holds something else there has none.  A text (iso)
               must have a day: a time of day alone would be today, whenever that is
    callable   a user's function(key, value, timestamp_ms) -> ms or None; what it raises ends the load
    plan       none has one

A row that has none, or one outside of the years 1970 to 9999, gets the time of the plan: it is stored in the plan, so
that executing it again puts every row into the same hour.

An hour is complete when no message to come can belong to it, as far as lateness.minutes goes:

    passed(partition)   the latest time that its position has certainly passed: that of the latest message loaded, or,
                        while it has nothing left to load, the time of the snapshot of the cluster
    closed(hour)        every partition of the topic has passed its end + lateness

The marker is _CLOSED in the hour's folder, a JSON object; a reader of folders waits for it.  It stays when rows come
later all the same: the manifest that brings them says how many (facts.late), and a rewind replaces files below it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from groundwork.named import NotLoaded, load_named
from kafkawire.model import TopicPartition
from sparkpipeline.errors import OptionRefused
from sparkpipeline.ledger.files import Files
from sparkpipeline.ledger.manifests import LiveFile, utc
from sparkpipeline.load.hourrules import CALLABLE, FIELD, MESSAGE, HourRule
from sparkpipeline.load.loadplan import LogBounds, Positions
from sparkpipeline.paths import FinalName, Hour

LATEST_MS = 253402300799999  # the end of the year 9999
HOUR_MS = 3600_000
DAY_MS = 86400_000
LOOK_BACK = 48  # hours
_ISO_DAY = r"^\+?\d{4}-\d{1,2}-\d{1,2}(?!\d)"
_ISO_SPELLINGS = (  # patterns of Java, in this order
    (r"^(\d{4})(\d\d)(\d\d)(?:[Tt ](\d\d)(\d\d)(\d\d))(?=\D|$)", "$1-$2-$3T$4:$5:$6"),
    (r"^(\d{4}-\d{1,2}-\d{1,2})t(?=\d)", "$1T"),
    (r"(?<=\d)z$", "Z"),
    (r"(?<=\d),(?=\d)", "."),
    (r"(?<=[T ]\d{2})(?=Z$|[+-])", ":00"),
    (r"(?<=[T ]\d{2}:\d{2})(?=Z$|[+-])", ":00"),
)


# ---- the hour of a row -----------------------------------------------------------------------------------------------


def hour_columns(rule: HourRule, plan_ms: int) -> dict[str, Any]:
    """Return columns date (YYYY-MM-DD) and hour (HH), in UTC, never null, from key, value, timestamp and timestampType.

    Raises OptionRefused if the callable cannot be loaded here."""
    from pyspark.sql import functions as F

    ms = F.coalesce(own_time(rule), F.lit(plan_ms).cast("bigint"))
    day = F.floor(ms / F.lit(DAY_MS)).cast("int")  # exact: fewer than 2**53 ms
    hour = F.floor(ms / F.lit(HOUR_MS)).cast("bigint") % F.lit(24)
    return {
        "date": F.date_add(F.lit("1970-01-01").cast("date"), day).cast("string"),
        "hour": F.lpad(hour.cast("string"), 2, "0"),
    }


def own_time(rule: HourRule) -> Any:
    """Return a column with a row's own time: ms since 1970 by the rule, or null.  Raises OptionRefused if the callable
    cannot be loaded."""
    from pyspark.sql import functions as F

    found = _found(rule)
    return F.when(found.between(0, LATEST_MS), found)


def _found(rule: HourRule) -> Any:
    from pyspark.sql import functions as F

    sent = F.when(F.col("timestampType") >= 0, F.unix_millis(F.col("timestamp")))
    if rule.source == MESSAGE:
        return sent
    if rule.source == FIELD:
        return _ms(F.get_json_object(F.col("value").cast("string"), str(rule.field)), rule.unit)
    if rule.source == CALLABLE:
        function = _function(rule)
        return F.udf(_TimeFunction(function), "bigint", useArrow=False)(F.col("key"), F.col("value"), sent)
    return F.lit(None).cast("bigint")


def _ms(field: Any, unit: str) -> Any:
    """Return milliseconds since 1970 of a column of texts, null for invalid ones.

    Columns and no text of SQL: the name of the field comes from a file.  try_cast everywhere, because one row with a
    strange number must not end every attempt at its plan."""
    from pyspark.sql import functions as F

    number = field.try_cast("double")
    whole = F.coalesce(field.try_cast("bigint"), number.try_cast("bigint"))
    if unit == "ms":
        return whole
    if unit == "s":
        return (number * F.lit(1000)).try_cast("bigint")
    if unit == "us":
        return F.call_function("div", whole, F.lit(1000).cast("bigint"))
    return F.unix_millis(_moment(field))


def _moment(field: Any) -> Any:
    """Return a column of times parsed from ISO 8601 texts; null for other texts and for a time of day without a day.

    Spark takes neither a comma before a fraction, nor a zone behind minutes, nor a small t or z, nor a day without
    hyphens."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import TimestampType

    text = F.trim(field)
    for pattern, spelled in _ISO_SPELLINGS:
        text = F.regexp_replace(text, pattern, spelled)
    # TimestampType and no text: "timestamp" is another type where spark.sql.timestampType says so.
    return F.when(text.rlike(_ISO_DAY), text.try_cast(TimestampType()))


class _TimeFunction:
    """User's function as called by Spark: bytearrays are converted to bytes for it, and a float result is accepted."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "time.callable")

    def __call__(self, key: Any, value: Any, timestamp_ms: int | None) -> int | None:
        found = self.function(
            None if key is None else bytes(key), None if value is None else bytes(value), timestamp_ms
        )
        return None if found is None else int(found)


def _function(rule: HourRule) -> Any:
    try:
        return load_named("time.callable", str(rule.function))
    except NotLoaded as exc:
        raise OptionRefused(str(exc), option="time.callable") from None


# ---- complete hours --------------------------------------------------------------------------------------------------


def passed(
    before: Positions, latest_ms: Mapping[TopicPartition, int], caught_up: Iterable[TopicPartition], snapshot_ms: int
) -> dict[TopicPartition, int]:
    """Return the time that each partition has passed.

    before: what they had passed, which counts up to snapshot_ms: a clock that once was ahead is forgotten latest_ms: of
    messages loaded since; one from the future counts as now: a clock that is wrong must not close hours caught_up:
    partitions whose positions were the logs' ends at snapshot_ms"""
    found = {tp: min(ms, snapshot_ms) for tp, ms in before.items()}
    for tp, ms in latest_ms.items():
        found[tp] = max(found.get(tp, 0), min(ms, snapshot_ms))
    for tp in caught_up:
        found[tp] = max(found.get(tp, 0), snapshot_ms)
    return found


def caught_up(positions: Positions, logs: Mapping[TopicPartition, LogBounds]) -> list[TopicPartition]:
    """Return the partitions that have nothing left to load."""
    return [tp for tp, log in logs.items() if positions.get(tp, log.earliest) >= log.latest]


def at_heads(positions: Positions, heads: Positions) -> list[TopicPartition]:
    """Return the partitions that have nothing left to load once a plan is executed, without those never loaded (a
    rewind sees them and does not load them)."""
    return [tp for tp, head in heads.items() if tp in positions and positions[tp] >= head]


def closed_until(passed_ms: Positions, topics: Iterable[str], lateness_ms: int) -> dict[str, int]:
    """Return by topic the time before which hours are closed: the one that its slowest partition has passed."""
    slowest: dict[str, int] = {}
    for tp, ms in passed_ms.items():
        slowest[tp.topic] = min(slowest.get(tp.topic, ms), ms)
    return {topic: slowest[topic] - lateness_ms for topic in topics if topic in slowest}


def to_close(live: Iterable[LiveFile], until_ms: Mapping[str, int]) -> dict[Hour, dict[str, Any]]:
    """Return hours with rows that end before their topic's time, with the content of their markers."""
    found: dict[Hour, dict[str, Any]] = {}
    for file in live:
        name = FinalName.of(file.final)
        if name is None:
            continue
        hour = name.hour
        if hour.end_ms > until_ms.get(hour.topic, 0):
            continue
        said = found.setdefault(hour, {"rows": 0, "bytes": 0, "files": 0, "batch": 0})
        said["rows"] += file.rows
        said["bytes"] += file.bytes
        said["files"] += 1
        said["batch"] = max(said["batch"], file.batch)
    return found


def unmarked(files: Files, base: str, hours: Mapping[Hour, Mapping[str, Any]], touched: Iterable[Hour]) -> list[Hour]:
    """Return the hours without a marker, the oldest first: the order in which close() writes them.

    Looks from the newest back and stops after LOOK_BACK that have one, because markers are made in order, and at all
    that were touched now: late rows may have made an old folder."""
    found = {hour for hour in touched if hour in hours and not is_closed(files, base, hour)}
    by_topic: dict[str, list[Hour]] = {}
    for hour in sorted(hours, reverse=True):
        by_topic.setdefault(hour.topic, []).append(hour)
    for newest_first in by_topic.values():
        marked = 0
        for hour in newest_first:
            if is_closed(files, base, hour):
                marked += 1
            else:
                marked = 0
                found.add(hour)
            if marked == LOOK_BACK:
                break
    return sorted(found)


def close(files: Files, base: str, hour: Hour, said: Mapping[str, Any], now_ms: int) -> bool:
    """Write the marker of an hour; return False if it existed."""
    text = json.dumps({**said, "closed": utc(now_ms), "closed_ms": now_ms}, sort_keys=True)
    return files.create(f"{base}/{hour.marker}", f"{text}\n".encode())


def is_closed(files: Files, base: str, hour: Hour) -> bool:
    """True if the hour has its marker."""
    return files.exists(f"{base}/{hour.marker}")
