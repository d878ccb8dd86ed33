"""Which columns a DataFrame has that is written to topics: Spark's own kafka format's, with its refusals.

key        string or binary, optional          value  string or binary, required
topic      string; needed without the option topic, and of no effect with it
partition  int, optional; null: the partitioner chooses
timestamp  timestamp, only looked at with includeTimestamps
headers    ignored, as in Spark without includeHeaders.  Other columns are ignored too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkpipeline.errors import OptionRefused
from sparkpipeline.sink.options import SinkOptions

TAKEN = {  # column -> types it may have
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """Which of the columns there are that count.  names: as the DataFrame spells them."""

    value: str
    key: str | None
    topic: str | None
    partition: str | None
    timestamp: str | None


def columns_of(schema: Any, options: SinkOptions) -> Columns:
    """schema: a StructType.  Raises OptionRefused naming the column."""
    found: dict[str, str | None] = dict.fromkeys(TAKEN)
    for column in schema.fields:
        name, kind = column.name.lower(), column.dataType.simpleString()
        counts = name in TAKEN and not (name == "timestamp" and not options.include_timestamps)
        counts = counts and not (name == "topic" and options.topic is not None)
        if not counts:
            continue
        if kind.split("(")[0].split(" ")[0] not in TAKEN[name]:
            raise OptionRefused(f"must be {' or '.join(TAKEN[name])}, and is {kind}: cast it", column=column.name)
        found[name] = column.name
    return _checked(found, options)


def _checked(found: dict[str, str | None], options: SinkOptions) -> Columns:
    value = found["value"]
    if value is None:
        raise OptionRefused("the DataFrame has no column value; it must have one, string or binary", column="value")
    if found["topic"] is None and options.topic is None:
        raise OptionRefused("the option topic is needed when the DataFrame has no column topic", option="topic")
    if found["timestamp"] is None and options.include_timestamps:
        raise OptionRefused("includeTimestamps needs a column timestamp", column="timestamp")
    return Columns(value, found["key"], found["topic"], found["partition"], found["timestamp"])
