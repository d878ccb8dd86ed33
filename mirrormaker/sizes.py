"""Compares the message sizes of both clusters, as far as they are known, for `mirrormaker check --online`.

A topic's own limit, max.message.bytes, is in ZooKeeper (0.8.1 and later).  The brokers' limit is not;
target.message.max.bytes gives it for the target.  A source topic without its own limit has its brokers' limit, which
only they know: such a topic is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kazoo.exceptions import NoNodeError

from groundwork.decimals import decimal_int
from groundwork.jsontext import json_value
from kafkawire.dialects import ENTRY_OVERHEAD
from mirrormaker.options import SourceOptions, TargetOptions

LIMIT = "max.message.bytes"
OVERHEAD = max(ENTRY_OVERHEAD.values())


def topic_limits(zk: Any, topics: Iterable[str]) -> dict[str, int]:
    """Return the limits that topics set themselves, in bytes; topics without one are left out."""
    asked = {topic: zk.get_async(f"/config/topics/{topic}") for topic in topics}
    found: dict[str, int] = {}
    for topic, answer in asked.items():
        try:
            limit = json_value(answer.get()[0])["config"].get(LIMIT)
        except (NoNodeError, ValueError, TypeError, KeyError, AttributeError):
            continue  # not set, or not in the brokers' format
        if (number := decimal_int(str(limit))) is not None:
            found[topic] = number
    return found


def size_warnings(
    source: SourceOptions,
    target: TargetOptions,
    names: Mapping[str, str],
    *,
    here: Mapping[str, int],
    there: Mapping[str, int],
) -> Iterator[str]:
    """Yield sentences about messages that are too large for the next step of their way.

    names: target topic by source topic.  here, there: topic_limits of both sides.
    """
    for topic, named in names.items():
        at = f"source {source.name}: topic {topic}"
        limit = here.get(topic)
        takes, by = there.get(named), f"{LIMIT} of target topic {named}"
        if takes is None:
            takes, by = target.message_max_bytes, "target.message.max.bytes"
        elif takes < target.message_max_bytes:
            yield (
                f"{at}: {by} is {takes}, less than target.message.max.bytes {target.message_max_bytes}: what is larger "
                "is refused once and then split; lower the option"
            )
        if limit is None:
            continue
        if limit > takes:
            yield (
                f"{at}: {LIMIT} is {limit} there, and {by} {takes}: a message between the two cannot be delivered "
                "(oversize.policy); raise it at the target"
            )
        largest = max(source.fetch_message_max_bytes, source.fetch_growth_max_bytes)
        if limit + OVERHEAD > largest:
            yield (
                f"{at}: {LIMIT} is {limit} there, and fetch.growth.max.bytes {source.fetch_growth_max_bytes}: what is "
                "larger is not fetched; raise it (and queued.max.bytes)"
            )
