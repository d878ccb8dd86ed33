"""Settings of topics that the mirror creates in the target (target.topic.configs): copied from the source, or fixed.

    retention.ms, cleanup.policy, compression.type=producer
    NAME          the source topic's own setting, if it has one; else the target's default, even if the default of the
                  source's brokers differs: for retention.ms this is logged when a topic is created
    NAME=VALUE    this value, whatever the source has

A topic gets them when it is created, and they are not changed afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_NAME = re.compile(r"[a-z][a-z0-9]*(\.[a-z0-9]+)*")
EXPECTED = (
    "names of topic settings, separated by commas or as a list, such as retention.ms (as the source topic has it) or "
    "compression.type=producer (whatever it has)"
)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Settings for new topics.  copied: names of settings copied from the source topic.  fixed: settings with their
    values."""

    copied: frozenset[str] = frozenset()
    fixed: Mapping[str, str] = field(default_factory=dict)

    def of(self, source: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a target topic.  source: the source topic's own settings."""
        return {**{name: value for name, value in source.items() if name in self.copied}, **self.fixed}

    def __str__(self) -> str:
        return ", ".join([*sorted(self.copied), *(f"{name}={value}" for name, value in self.fixed.items())])


NO_SETTINGS = TopicSettings()


def topic_settings(raw: object) -> TopicSettings:
    """Return the value of the option.  In a list, values may have commas (cleanup.policy=compact,delete).  Raises
    ValueError."""
    items = [str(one) for one in raw] if isinstance(raw, list | tuple) else str(raw).split(",")
    copied, fixed = set(), {}
    for item in filter(None, map(str.strip, items)):
        name, equals, value = item.partition("=")
        name, value = name.strip(), value.strip()
        if not _NAME.fullmatch(name) or (equals and not value):
            raise ValueError(EXPECTED)
        if name in copied or name in fixed:
            raise ValueError(f"{EXPECTED}; {name} is given twice")
        if equals:
            fixed[name] = value
        else:
            copied.add(name)
    return TopicSettings(frozenset(copied), fixed)
