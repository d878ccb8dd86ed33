"""The wait of a member between two rounds: a contested node that goes ends one wait, and no other."""

from __future__ import annotations

from typing import Any

from groundwork.tasks import now
from zkconsumer.group.executor import RebalanceExecutor
from zkconsumer.group.steps import Action, Do, Finished

NOBODY: Any = None  # waiting asks nobody


def test_a_node_that_went_ends_one_wait_only() -> None:
    executor = RebalanceExecutor(
        session=NOBODY,
        group=NOBODY,
        claims=NOBODY,
        fetchers=NOBODY,
        commits=NOBODY,
        store=NOBODY,
        make_cursor=NOBODY,
        cursors={},
        config=NOBODY,
        on_event=NOBODY,
        listener=NOBODY,
        closing=lambda: False,
    )
    executor.freed.set()
    began = now()
    assert executor.do(Action(Do.WAIT, 1, wait_ms=60_000)) == Finished(1)
    assert now() - began < 30
    began = now()
    assert executor.do(Action(Do.WAIT, 2, wait_ms=50)) == Finished(2)  # the round between did not come to its claim
    assert now() - began >= 0.04
