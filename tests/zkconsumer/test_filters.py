"""White and black lists choose what the JVM chooses, and register what it registers."""

from __future__ import annotations

import pytest

from kafkawire.topicnames import INTERNAL_TOPICS
from kafkawire.znodes.v08 import Registration
from zkconsumer.filters import Blacklist, Whitelist, streams_by_topic
from zkconsumer.kafkagroup.topics import GroupTopics

TOPICS = ["__consumer_offsets", "orders", "orders-eu", "payments", "test.a"]


def chosen(which, exclude_internal=True):
    return [topic for topic in TOPICS if which.matches(topic, exclude_internal)]


def test_the_whole_name_has_to_match():
    assert chosen(Whitelist("orders")) == ["orders"]
    assert chosen(Whitelist("orders.*")) == ["orders", "orders-eu"]
    assert chosen(Whitelist("rders")) == []


def test_a_topic_that_the_own_filter_cannot_tell_is_left_out_with_a_line(caplog):
    slow = Whitelist("(?:(?:(?:a|.)*b|.)*c|.)*d|orders").registration(1)
    topics = GroupTopics(None, slow, "g-1", True)  # type: ignore[arg-type]
    topics.counts = {"orders": 1, "a" * 255: 1}
    assert topics.subscribed() == ["orders"]
    assert topics.subscribed() == ["orders"]
    assert not topics.subscribes("a" * 255)
    [line] = caplog.messages
    assert line.startswith(
        "a topic is left out, also partitions of it that other members count as this member's: topic"
    )


def test_a_black_list_is_the_rest():
    assert chosen(Blacklist("orders.*")) == ["payments", "test.a"]


def test_internal_topics_are_left_out_unless_asked_for():
    for topic in INTERNAL_TOPICS:
        for which in (Whitelist(".*"), Blacklist("orders")):
            assert not which.matches(topic)
            assert which.matches(topic, exclude_internal=False)


def test_the_text_is_registered_as_java_keeps_it():
    which = Whitelist(' "orders , pay.*" ')
    assert which.registration(3) == Registration("white_list", {"orders|pay.*": 3})
    assert chosen(which) == ["orders", "payments"]
    assert Blacklist("a").registration(1) == Registration("black_list", {"a": 1})
    assert repr(which) == """Whitelist(' "orders , pay.*" ')"""


@pytest.mark.parametrize("text", ["*", "a(", "[", "a{2,1}"])
def test_a_bad_expression_is_refused_with_its_place(text):
    with pytest.raises(ValueError, match=r".+"):
        Whitelist(text)


def test_a_white_list_without_a_black_one_is_one_pattern():
    which = Whitelist("orders.*,payments").without(Blacklist("orders-eu"))
    assert which.registration(2) == Registration("white_list", {"(?!(?:orders-eu)$)(?:orders.*|payments)": 2})
    assert chosen(which) == ["orders", "payments"]
    assert chosen(which.without(Blacklist("pay.*"))) == ["orders"]
    assert "__consumer_offsets" not in chosen(Whitelist(".*").without(Blacklist("orders")))


def test_a_quotation_without_an_end_does_not_quote_the_rest_of_both():
    which = Whitelist(r"\Qtest.a").without(Blacklist(r"\Qorders"))
    assert chosen(which) == ["test.a"]


def test_flags_of_one_list_do_not_reach_the_other():
    which = Whitelist("(?i)ORDERS.*").without(Blacklist("ORDERS"))
    assert chosen(which) == ["orders", "orders-eu"]


def test_a_reference_to_a_group_that_would_be_another_one_is_refused():
    assert Whitelist(r"(a)b\1").without(Blacklist("b")).matches("aba")
    with pytest.raises(ValueError, match="refers to a group of its own"):
        Whitelist(r"(a)b\1").without(Blacklist("(b)"))


def test_streams_of_a_member_with_a_filter_depend_on_the_topics_there_are():
    lists = Registration("white_list", {"orders.*": 2}), Registration("black_list", {"orders.*": 1})
    assert streams_by_topic(lists[0], TOPICS) == {"orders": 2, "orders-eu": 2}
    assert streams_by_topic(lists[1], TOPICS) == {"payments": 1, "test.a": 1}


def test_a_static_member_names_its_topics_whether_they_are_there_or_not():
    assert streams_by_topic(Registration("static", {"nosuch": 1, "orders": 2}), TOPICS) == {"nosuch": 1, "orders": 2}
