"""The hour of a row: expressions of Spark's, without regard to the session's time zone.

    message    the message's timestamp; 0.8 and 0.9 have none
    json       a field of the value; what is no JSON, lacks it, or holds something else there has none
    callable   a user's function(key, value, timestamp_ms) -> ms or None; what it raises ends the load
    plan       none has one

A row that has none, or one outside of the years 1970 to 9999, gets the time of the plan: it is stored in the plan, so
that executing it again puts every row into the same hour.
"""

from __future__ import annotations

from typing import Any

from groundwork.named import NotLoaded, load_named
from sparkpipeline.errors import OptionRefused
from sparkpipeline.load.plan import HourRule

LATEST_MS = 253402300799999  # the end of the year 9999
HOUR_MS = 3600_000
DAY_MS = 86400_000
# try_cast everywhere: one row with a strange number must not end every attempt at its plan.
_WHOLE = "coalesce(try_cast({0} as bigint), try_cast(try_cast({0} as double) as bigint))"
_MS = {
    "ms": _WHOLE,
    "s": "try_cast(try_cast({0} as double) * 1000 as bigint)",
    "us": f"{_WHOLE} div 1000",
    "iso": "unix_millis(try_cast({0} as timestamp))",
}


def hour_columns(rule: HourRule, plan_ms: int) -> dict[str, Any]:
    """Columns date (YYYY-MM-DD) and hour (HH), in UTC, never null; over columns key, value, timestamp, timestampType.

    Raises OptionRefused when the callable cannot be loaded here."""
    from pyspark.sql import functions as F

    ms = F.coalesce(own_time(rule), F.lit(plan_ms).cast("bigint"))
    day = F.floor(ms / F.lit(DAY_MS)).cast("int")  # exact: fewer than 2**53 ms
    hour = F.floor(ms / F.lit(HOUR_MS)).cast("bigint") % F.lit(24)
    return {
        "date": F.date_add(F.lit("1970-01-01").cast("date"), day).cast("string"),
        "hour": F.lpad(hour.cast("string"), 2, "0"),
    }


def own_time(rule: HourRule) -> Any:
    """What a row itself says: ms since 1970 by the rule, or null.  Raises OptionRefused as hour_columns."""
    from pyspark.sql import functions as F

    found = _found(rule)
    return F.when(found.between(0, LATEST_MS), found)


def _found(rule: HourRule) -> Any:
    from pyspark.sql import functions as F

    sent = F.when(F.col("timestampType") >= 0, F.unix_millis(F.col("timestamp")))
    if rule.source == "message":
        return sent
    if rule.source == "json":
        field = f"get_json_object(cast(value as string), '{rule.field}')"
        return F.expr(_MS[rule.unit].format(field))
    if rule.source == "callable":
        function = _function(rule)
        return F.udf(_Asked(function), "bigint", useArrow=False)(F.col("key"), F.col("value"), sent)
    return F.lit(None).cast("bigint")


class _Asked:
    """A user's function as Spark calls it: Spark's bytearrays are bytes to it, and a float is no surprise."""

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
