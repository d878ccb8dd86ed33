"""What the log shows of a connector's events when there are many."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from groundwork.logs import set_up_logging
from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent, log_event, logger_of
from zkconsumer.group.rebalance import ClaimingMember
from zkconsumer.kafkagroup.lifecycle import JoiningMember
from zkconsumer.member.machine import begin, step
from zkconsumer.member.member import Member
from zkconsumer.member.steps import Action, Close, Do, Failed, Finished, GroupRead, Refused, Report


@pytest.fixture
def out() -> io.StringIO:
    stream = io.StringIO()
    set_up_logging(stream=stream)
    return stream


def test_events_of_many_partitions_and_kinds_are_all_shown(out: io.StringIO) -> None:
    for n in range(30):
        tp = TopicPartition("orders", n)
        log_event(ConsumerEvent("start", f"{tp}: no committed offset", tp))
        log_event(ConsumerEvent("leader", f"{tp}: no leader", tp))
    log_event(ConsumerEvent("session", "the session is suspended"))
    log_event(ConsumerEvent("rebalance", "3 members, 30 partitions"))
    assert len(out.getvalue().splitlines()) == 62


def test_one_partition_that_repeats_itself_is_counted(out: io.StringIO) -> None:
    tp = TopicPartition("orders", 3)
    for n in range(20):
        log_event(ConsumerEvent("leader", f"{tp}: no answer, try {n}", tp))
    assert len(out.getvalue().splitlines()) == 5


def test_parked_and_fenced_are_never_held_back(out: io.StringIO) -> None:
    tp = TopicPartition("orders", 3)
    for _ in range(7):
        log_event(ConsumerEvent("parked", f"{tp} at 7: crc mismatch", tp))
        log_event(ConsumerEvent("fence", "the lease is over"))
    assert len(out.getvalue().splitlines()) == 14


def test_an_outage_is_a_warning_and_its_end_is_information(out: io.StringIO) -> None:
    log_event(ConsumerEvent("outage", "broker 0 is gone"))
    log_event(ConsumerEvent("over", "broker 0: over after 3.0 s"))
    first, second = out.getvalue().splitlines()
    assert 'level=warning at=zkconsumer.events event=out-of-reach msg="outage: broker 0 is gone"' in first
    assert 'level=info at=zkconsumer.events event=within-reach msg="over: broker 0: over after 3.0 s"' in second


def test_each_of_several_connectors_names_itself_and_none_holds_back_another(out: io.StringIO) -> None:
    tp = TopicPartition("orders", 3)
    for n in range(20):
        for who in ("source dc1", "source dc2"):
            logger_of(who)(ConsumerEvent("leader", f"{tp}: no answer, try {n}", tp))
    lines = out.getvalue().splitlines()
    assert [sum(f'msg="source dc{n}: leader: ' in line for line in lines) for n in (1, 2)] == [5, 5]


def test_a_share_that_stays_short_is_one_outage_however_often_it_is_tried() -> None:
    events: list[ConsumerEvent] = []
    fails = iter(range(12))

    def do(action: Action) -> Report:
        match action.do:
            case Do.REGISTER if next(fails, None) is not None:
                return Failed(action.turn, "held")
            case Do.READ:
                return GroupRead(action.turn, {})
            case _:
                return Finished(action.turn)

    def as_seen() -> str:
        member.note(Close())  # everything is read
        return ""

    executor: Any = SimpleNamespace(do=do, group=SimpleNamespace(as_seen=as_seen))
    tasks: Any = SimpleNamespace(spawn=lambda name, run, action: run(action))
    member = Member(ClaimingMember(4, 10), executor=executor, tasks=tasks, on_event=events.append)
    member.run()
    told = [event for event in events if not event.text.startswith("waiting to try again")]
    assert [event.kind for event in told] == ["outage", "rebalance", "rebalance", "rebalance", "over"]
    assert told[-1].text.startswith("the full share is read, ")
    assert (member.closed.is_set(), member.rounds) == (True, 12 + 2)


def test_a_refused_join_is_called_so_and_not_an_outage(out: io.StringIO) -> None:
    state, _ = begin(JoiningMember(4, 100))
    _, actions = step(state, Refused(state.turn, "no strategy in common"))
    (alarm,) = [action for action in actions if action.do is Do.ALARM]
    log_event(ConsumerEvent(alarm.alarm, alarm.text))
    assert (
        'level=warning at=zkconsumer.events event=join-refused msg="refused: no strategy in common"' in out.getvalue()
    )
