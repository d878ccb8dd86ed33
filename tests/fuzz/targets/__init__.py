"""All targets by name."""

from __future__ import annotations

from tests.fuzz.engine import Target
from tests.fuzz.targets import folders, protocol, sets, texts

TARGETS: dict[str, Target] = {
    each.name: each for each in (*sets.TARGETS, *protocol.TARGETS, *texts.TARGETS, *folders.TARGETS)
}
