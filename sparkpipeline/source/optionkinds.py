"""What values the source's options take: functions from an option's text to its value.

Each raises ValueError with what it expected; groundwork.options makes the sentence.
"""

from __future__ import annotations

import re

from sparkpipeline.cluster.access import resolve_release
from sparkpipeline.ranges import OffsetRange, parse_ranges
from zkconsumer.options import optiontypes as optionkinds

brokers = optionkinds.brokers
numbered_brokers = optionkinds.numbered_brokers
text = optionkinds.text

_DELAY_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60000, "min": 60000, "h": 3600000, "d": 86400000}


def any_text(raw: object) -> str:
    """Also an empty one, about which there is a better sentence later."""
    return str(raw).strip()


def protocol(raw: object) -> str:
    """auto, or the release that is meant.  Raises OptionRefused, which has a sentence of its own."""
    name = str(raw).strip().lower()
    return name if name == "auto" else resolve_release(name, ())


def ranges(raw: object) -> tuple[OffsetRange, ...]:
    """Raises OptionRefused, which has a sentence of its own."""
    return tuple(parse_ranges(str(raw)))


def counts(raw: object) -> tuple[int, ...]:
    """3,1,5: whole numbers from 1 on."""
    parts = str(raw).split(",")
    if not all(re.fullmatch(r"\s*[1-9][0-9]{0,8}\s*", part, re.ASCII) for part in parts):
        raise ValueError("whole numbers from 1 on, such as 3,1,5")
    return tuple(int(part) for part in parts)


def delay(raw: object) -> int:
    """A time as Spark writes it, in ms: 15m, 90s, or a number of ms."""
    found = re.fullmatch(r"([0-9]{1,12})(us|ms|s|m|min|h|d)?", str(raw).strip().lower())
    if found is None:
        raise ValueError("a whole number with us, ms, s, m, min, h or d behind it, such as 15m")
    return int(int(found[1]) * _DELAY_MS[found[2] or "ms"])
