"""The wait of a member between two rounds: a contested node that goes ends one wait, and no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from groundwork.tasks import now, sleep
from zkconsumer.events import ConsumerEvent
from zkconsumer.group import claimactions
from zkconsumer.group.claimactions import ClaimActions
from zkconsumer.group.verify import SESSIONLESS
from zkconsumer.member.executor import Executor, GroupActions
from zkconsumer.member.history import TopicHistory
from zkconsumer.member.steps import Action, Do, Finished
from zkconsumer.session.zksession import SessionState

NOBODY: Any = None  # waiting asks nobody


def test_a_node_that_went_ends_one_wait_only() -> None:
    executor = Executor(GroupActions({}, TopicHistory(NOBODY)), NOBODY, NOBODY, lambda: False)
    executor.group.freed.set()
    began = now()
    assert executor.do(Action(Do.WAIT, 1, wait_ms=60_000)) == Finished(1)
    assert now() - began < 30
    began = now()
    assert executor.do(Action(Do.WAIT, 2, wait_ms=50)) == Finished(2)  # the round between did not come to its claim
    assert now() - began >= 0.04


def test_a_second_member_with_one_consumer_id_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for ever, at info, without a word of the option that made it wait."""
    told: list[ConsumerEvent] = []
    monkeypatch.setattr(claimactions, "REPORT_AFTER_S", 0.0)

    class Held:
        consumer_id = "g_one"
        tries = 0
        holder = "session 0x1"

        def register(self, now_ms: int) -> str | None:
            self.tries += 1
            return self.holder if self.tries < 3 else None

        def wait_for_id(self, seconds: float) -> None:
            sleep(0.001)

    def registered(fixed: str | None, group: Any) -> None:
        told.clear()
        actions = ClaimActions(
            session=SimpleNamespace(state=SessionState.CONNECTED, fenced=False),
            group=group,
            claims=SimpleNamespace(sweep=list),
            commits=NOBODY,
            store=NOBODY,
            owned=SimpleNamespace(cursors={}),
            config=SimpleNamespace(consumer_id=fixed),
            on_event=told.append,
            closing=lambda: False,
        )
        assert actions.own[Do.REGISTER](Action(Do.REGISTER, 1)) == Finished(1)

    for fixed, kind in (("one", "claim"), (None, "rebalance")):
        registered(fixed, Held())
        assert {event.kind for event in told} == {kind}
        named = "; consumer.id is one there too: give each member its own, or leave it out" if fixed else ""
        assert told[0].text == f"id node g_one is held by session 0x1; waiting until it ends{named}"
    copied = Held()
    copied.holder = SESSIONLESS  # and there is no other process to stop
    registered("one", copied)
    assert told[0].text == f"id node g_one: {SESSIONLESS}; waiting until it is deleted"
