"""Which partitions are new to a member, so that they are read from the start."""

from __future__ import annotations

from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent
from zkconsumer.member.history import TopicHistory

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_a_subscription_that_changes_during_a_round_counts_with_the_first_round_that_has_it() -> None:
    """Changed between JoinGroup and SyncGroup, its topics were read from the start, whatever auto.offset.reset says."""
    history = TopicHistory(lambda event: None)
    history.read({T0}, True)
    history.resubscribed(["t"])
    history.read({T0}, False)  # the round that was under way
    history.read({T0, T1, U0}, True)
    assert [history.appeared(tp) for tp in (T0, T1, U0)] == [False, True, False]


def test_an_absent_topic_is_reported_once_until_it_was_there() -> None:
    told: list[ConsumerEvent] = []
    history = TopicHistory(told.append)
    for absent in (["u"], ["u"], [], ["u"]):
        history.report_absent(absent)
    assert [event.text for event in told] == 2 * ["topic u does not exist (yet); waiting for it"]


def test_a_deleted_topic_is_forgotten_once_it_exists_or_is_not_read() -> None:
    history = TopicHistory(lambda event: None)
    history.deleted = {"t": "t was deleted", "u": "u was deleted", "v": "v was deleted"}
    history.forget_deleted({"u"}, lambda topic: topic != "v")
    assert history.deleted == {"t": "t was deleted"}
