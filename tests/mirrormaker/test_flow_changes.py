"""A flow whose rules change while it runs: what moves waits for what is in flight, everything else goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from groundwork.tasks import TaskGroup, sleep
from kafkawire.model import Message, Part
from mirrormaker.flow import Flow
from mirrormaker.handler import DROP, MessageHandler
from mirrormaker.routes import SourceTopic
from mirrormaker.selection import Selection
from tests.mirrormaker.test_flow import SPEAKS, Deleted, Sends, Share, Targets, fetched, flow_of, until


class Pending(Sends):
    """Parts that are in flight to some topics until the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.in_flight: set[str] = set()

    def pending(self, topic: str) -> bool:
        return topic in self.in_flight


def selecting(**more: Any) -> Selection:
    return Selection(source="dc1", whitelist="t|u", exclude_internal=False, **more)


def started(tasks: TaskGroup, sends: Pending, **rules: Any) -> Flow:
    flow = flow_of(tasks, Targets(t=2, u=2, moved=2), sends, selection=selecting(), **rules)
    for topic in ("t", "u"):
        flow.take(fetched(topic, 0, 0), Share())
    until(lambda: len(sends.parts) == 2)
    return flow


def sent_to(sends: Sends) -> list[str]:
    return [part.tp.topic for part in sends.parts]


def test_a_topic_with_another_name_waits_for_what_is_in_flight_and_its_neighbour_does_not(tasks: TaskGroup) -> None:
    sends = Pending()
    flow = started(tasks, sends)
    sends.in_flight = {"t", "u"}
    kept = flow.topics["u"]
    flow.change(flow._rules, selecting(rename={"t": "moved"}), None)
    assert flow.topics == {"u": kept}
    for start in (2, 4):
        flow.take(fetched("t", 0, start), Share())
        flow.take(fetched("u", 0, start), Share())
    sleep(0.1)
    assert sent_to(sends)[2:] == ["u", "u"]
    sends.in_flight = {"u"}
    until(lambda: sent_to(sends)[4:] == ["moved", "moved"])
    assert [value for tp, value in sends.values() if tp.topic == "moved"] == [b"v-2", b"v-3", b"v-4", b"v-5"]


def test_a_change_while_the_target_of_a_topic_is_asked_counts_for_what_was_held_back(tasks: TaskGroup) -> None:
    class Slow(Targets):
        answers = False

        def prepare(self, topic: str, source: SourceTopic) -> range:
            found = super().prepare(topic, source)
            until(lambda: self.answers)
            return found

    sends, targets = Pending(), Slow(t=2, moved=2)
    flow = flow_of(tasks, targets, sends, selection=selecting())
    flow.take(fetched("t", 0, 0), Share())
    until(lambda: targets.asked)
    flow.change(flow._rules, selecting(rename={"t": "moved"}), None)
    targets.answers = True
    until(lambda: sends.parts)
    assert (targets.asked, sent_to(sends)) == (["t", "moved"], ["moved"])


def test_a_change_while_held_sets_are_sent_on_counts_from_the_next_set_on(tasks: TaskGroup) -> None:
    class Changing(Pending):
        def submit(self, part: Part, ticket: object) -> None:
            super().submit(part, ticket)
            if len(self.parts) == 1:
                flow.change(flow._rules, selecting(rename={"t": "moved"}), None)

    sends = Changing()
    flow = flow_of(tasks, Targets(t=2, moved=2), sends, selection=selecting())
    flow.take(fetched("t", 0, 0), Share())
    until(lambda: sends.parts)
    until(lambda: not flow._held)
    flow.take(fetched("t", 0, 2), Share())
    until(lambda: len(sends.parts) == 2)
    assert sent_to(sends) == ["t", "moved"]


def test_what_leads_to_the_same_route_changes_no_topic(tasks: TaskGroup) -> None:
    sends = Pending()
    flow = started(tasks, sends)
    before = dict(flow.topics)
    flow.change(replace(flow._rules, partitioning="identity"), selecting(), None)  # as auto chose
    assert flow.topics == before
    flow.change(replace(flow._rules, codec="gzip"), selecting(), None)
    assert flow.topics == {}


def test_another_handler_sees_the_next_set_and_what_was_dropped_stays_counted(tasks: TaskGroup) -> None:
    def drops(message: Message) -> object:
        return DROP

    def shouts(message: Message) -> object:
        return message.key, (message.value or b"").upper()

    sends = Pending()
    flow = flow_of(tasks, Targets(t=2), sends, handler=drops, selection=selecting())
    share = Share()
    flow.take(fetched("t", 0, 0), share)
    until(lambda: share.told)
    rules = flow._rules
    flow.change(rules, selecting(), MessageHandler(shouts, "a:b", "dc1", SPEAKS))
    flow.take(fetched("t", 0, 2), Share())
    until(lambda: sends.parts)
    assert [value for _, value in sends.values()] == [b"V-2", b"V-3"]
    assert flow.left_out == {("t", "message.handler"): 2}
    flow.change(replace(rules, handler=""), selecting(), None)
    flow.take(fetched("t", 0, 4), Share())
    until(lambda: len(sends.parts) == 2)
    assert sends.values()[-1][1] == b"v-5"
    assert flow.left_out == {("t", "message.handler"): 2}


def test_a_topic_that_waits_and_is_not_selected_any_more_waits_no_longer(tasks: TaskGroup) -> None:
    share = Share()
    flow = flow_of(tasks, Targets(), Pending(), selection=selecting())
    flow.take(fetched("t", 0, 7), share)
    until(lambda: flow.waiting)
    flow.change(flow._rules, Selection(source="dc1", whitelist="u", exclude_internal=False), None)
    assert flow.waiting == {}
    until(lambda: share.told)
    assert share.told == [("failed", "topic t is not selected any more", 7)]
    assert flow.waiting == {}


def test_a_target_topic_that_is_gone_is_not_created_again_once_nothing_is_sent_there_any_more(tasks: TaskGroup) -> None:
    """It would wait for the former name for ever, and its topic would be shown as waiting while it flows."""
    sends, targets = Pending(), Deleted(t=2, moved=2)
    flow = flow_of(tasks, targets, sends, selection=selecting())
    flow.take(fetched("t", 0, 0), Share())
    until(lambda: sends.parts)
    del targets.counts["t"]
    assert flow.target_is_gone("t")
    until(lambda: "target topic t" in flow.waiting.get("t", ""))
    flow.change(flow._rules, selecting(rename={"t": "moved"}), None)
    flow.take(fetched("t", 0, 2), Share())
    until(lambda: sent_to(sends)[-1] == "moved")
    until(lambda: not flow._returning)
    assert flow.waiting == {}


def test_a_target_topic_that_is_gone_is_given_up_once_its_source_topic_is_not_selected(tasks: TaskGroup) -> None:
    sends, targets = Pending(), Deleted(t=2, u=2)
    flow = flow_of(tasks, targets, sends, selection=selecting())
    flow.take(fetched("t", 0, 0), Share())
    until(lambda: sends.parts)
    del targets.counts["t"]
    assert flow.target_is_gone("t")
    until(lambda: "target topic t" in flow.waiting.get("t", ""))
    flow.change(flow._rules, Selection(source="dc1", whitelist="u", exclude_internal=False), None)
    until(lambda: not flow._returning)
    assert (flow.waiting, tasks.death) == ({}, None)


def test_a_topic_whose_name_becomes_reserved_is_held_back_and_its_neighbour_flows_on(tasks: TaskGroup) -> None:
    sends, held = Pending(), Share()
    flow = started(tasks, sends)
    flow.change(flow._rules, selecting(reserved="t"), None)
    flow.take(fetched("t", 0, 2), held)
    flow.take(fetched("u", 0, 2), Share())
    until(lambda: held.told and len(sends.parts) == 3)
    assert (held.told[0][0], sent_to(sends)[2:]) == ("failed", ["u"])
    assert "reserved.topics 't' keeps for others" in flow.waiting["t"]
