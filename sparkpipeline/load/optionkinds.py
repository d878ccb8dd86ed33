"""What values the options of a load take: functions from a file's value to the field's own.

Each raises ValueError with what it expected; groundwork.options makes the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from groundwork.javachars import PatternRefused
from groundwork.javaregex import to_python
from sparkpipeline.load.hourrules import is_function, is_json_path
from zkconsumer.options import optiontypes as shared

brokers = shared.brokers
name = shared.name
partitions = shared.partitions
text = shared.text

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")


def base(raw: object) -> str:
    """A URI or an absolute path, without a slash at its end: a relative path would mean another folder each time."""
    found = shared.text(raw).rstrip("/")
    if not found.startswith("/") and not _SCHEME.match(found):
        raise ValueError("a URI such as hdfs://namenode:8020/warehouse/kafka, or an absolute path")
    return found


def topics(raw: object) -> tuple[str, ...]:
    """Names of topics, each once, sorted: a list, or text with commas."""
    rows = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(rows, Sequence) or not all(isinstance(row, str) for row in rows):
        raise ValueError("a list of topics")
    found = [row.strip() for row in rows if row.strip()]
    for topic in found:
        if not shared.NAME.fullmatch(topic):
            raise ValueError(f"names of topics; {topic!r} is none (topics.pattern takes a regular expression)")
    return tuple(sorted(set(found)))


def pattern(raw: object) -> str:
    """A Java regular expression that means the same in Python."""
    found = shared.text(raw)
    try:
        to_python(found)
    except PatternRefused as exc:
        raise ValueError(f"a Java regular expression ({exc})") from None
    return found


def json_path(raw: object) -> str:
    """$.field, $.outer.inner, $.list[0].field: what Spark's get_json_object takes."""
    found = shared.text(raw)
    if not is_json_path(found):
        raise ValueError("a path such as $.created or $.meta.at")
    return found


def function(raw: object) -> str:
    """package.module:function; whether it is there is looked at where a plan is made."""
    found = shared.text(raw)
    if not is_function(found):
        raise ValueError("package.module:function")
    return found
