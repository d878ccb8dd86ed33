"""What test_mirror_schedules.py runs in a process of its own: each prints a line of JSON.

keep     schedules of all modes; those that break a promise
prove    each mutation by the seed or the story that shows it; what is not as it should be
"""

from __future__ import annotations

import json
import logging

from tests.simulation.mirrors.mutations import FOUND, mutated
from tests.simulation.mirrors.run import run
from tests.simulation.mirrors.schedule import MODES, MirrorSchedule, schedule
from tests.simulation.mirrors.stories import stories

EACH = 40  # schedules of a mode
FIRST = 20_000


def keep() -> None:
    logging.disable(logging.CRITICAL)
    found = {}
    for mode in MODES:
        for seed in range(FIRST, FIRST + EACH):
            broken = run(schedule(seed, (mode,)))
            if broken is not None:
                found[f"{mode} {seed}"] = str(broken)
    print(json.dumps(found))


def prove() -> None:
    logging.disable(logging.CRITICAL)
    proved = {name: _proved(name, schedule(seed, (mode,))) for name, (mode, seed) in FOUND.items()}
    proved |= {f"story {name}": _proved(mutation, given) for name, mutation, given in stories()}
    print(json.dumps(proved))


def _proved(name: str, given: MirrorSchedule) -> str:
    with mutated(name):
        broken = run(given)
    if broken is None:
        return f"{given} does not show it"
    clean = run(given)
    return "" if clean is None else f"{given} is broken without it: {clean.why}"
