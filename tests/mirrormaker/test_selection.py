"""Which topics are mirrored, under which names, and which would feed themselves."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormaker.selection import (
    Explanation,
    Override,
    Selection,
    merged_sentence,
    merged_topics,
    prefix,
    renames,
    topic_filter,
)


def chosen(source: str = "dc1", **given: Any) -> Selection:
    if "blacklist" not in given:
        given.setdefault("whitelist", ".*")
    return Selection(source=source, **given)


def test_the_blacklist_wins_over_the_whitelist() -> None:
    both = chosen(whitelist="orders.*,payments", blacklist="orders-eu")
    assert [t for t in ("orders", "orders-eu", "payments", "clicks") if both.selects(t)] == ["orders", "payments"]
    assert both.filter.pattern == "white_list"  # one pattern, which every member of the group evaluates alike
    assert [both.rule(t) for t in ("orders", "orders-eu", "clicks", "__transaction_state")] == [
        "whitelist 'orders.*,payments' matches, the blacklist does not",
        "blacklist 'orders-eu' matches",
        "whitelist 'orders.*,payments' does not match",
        "internal topic: exclude.internal.topics leaves it out",
    ]
    assert topic_filter("", "a").matches("b")
    assert not topic_filter("", "a").matches("a")


def test_a_renamed_topic_is_meant_literally_and_all_others_get_the_prefix() -> None:
    names = chosen(rename={"a": "mine"}, shared_rename={"a": "x", "b": "shared"}, prefix="dc1.")
    assert [(names.target(t), names.naming(t)) for t in ("a", "b", "c")] == [
        ("mine", "topic.rename of source dc1"),
        ("shared", "mirror.topic.rename"),
        ("dc1.c", "topic.prefix dc1. of source dc1"),
    ]
    assert (chosen().target("c"), chosen().naming("c"), chosen().changes_names) == ("c", "", False)


def test_the_options_as_text_and_as_a_mapping() -> None:
    assert renames("a:b, c:d") == renames({"a": "b", "c": "d"}) == {"a": "b", "c": "d"}
    for wrong in ("a", "a:b:c", {"a": 1}, {"a": "ü"}, {"a": ".."}, "a:b,a:c"):
        with pytest.raises(ValueError, match=r"."):
            renames(wrong)
    with pytest.raises(ValueError, match=r"for example dc1"):
        prefix(7)


@pytest.mark.parametrize(
    ("given", "topic", "says"),
    [
        ({"whitelist": ".*"}, "a", "topic a keeps its name in the cluster"),
        ({"whitelist": ".*", "prefix": "copy."}, "a", "topic a goes to copy.a in the cluster"),
        ({"whitelist": "a|b", "rename": {"a": "b"}}, "a", "and b is mirrored as well (whitelist 'a|b' matches)"),
        ({"whitelist": ".*", "blacklist": r"copy\..*", "prefix": "copy."}, "a", ""),
        ({"blacklist": r"copy\..*", "prefix": "copy."}, "copy.a", ""),
        ({"whitelist": "a", "rename": {"a": "b"}}, "a", ""),
        ({"whitelist": "[a-z]*", "prefix": "copy."}, "a", ""),
        ({"whitelist": ".*", "rename": {"a": "__consumer_offsets"}}, "a", ""),
    ],
)
def test_a_topic_whose_copy_would_be_mirrored_again_feeds_itself(given: Any, topic: str, says: str) -> None:
    sentence = chosen(**given).fed_back(topic)
    assert says in sentence
    assert bool(says) == bool(sentence)
    if topic == "a":  # what can be told without a cluster is the same here
        assert bool(says) == bool(chosen(**given).certainly_fed_back()) or "__" in str(given)


def test_one_cluster_where_some_topics_would_keep_their_names() -> None:
    assert "source and target are one cluster" in chosen(whitelist="[ab]1", rename={"a1": "c"}).certainly_fed_back()
    assert "topic b keeps its name" in chosen(whitelist="a,b", rename={"a": "c"}).certainly_fed_back()
    assert chosen(whitelist="a,b", rename={"a": "c", "b": "d"}).certainly_fed_back() == ""
    assert chosen(whitelist=r"a\.b", rename={"a.b": "c"}).certainly_fed_back() == ""
    assert "orders-topic" in chosen(whitelist=r"orders-.*|.*\.orders-.*", prefix="x.").certainly_fed_back()


def test_what_happens_to_a_topic_and_by_which_rule() -> None:
    entries = (
        Override("orders.*", {"compression.codec": "gzip"}),
        Override(".*", {"compression.codec": "snappy", "partitioning": "key"}),
        Override("nothing", {"partitioning": "key"}),
    )
    names = chosen(whitelist="orders.*", blacklist="orders-eu", prefix="dc1.", overrides=entries)
    assert names.explain("orders-us") == Explanation(
        topic="orders-us",
        mirrored=True,
        rule="whitelist 'orders.*' matches, the blacklist does not",
        target="dc1.orders-us",
        naming="topic.prefix dc1. of source dc1",
        overrides=(
            "compression.codec: gzip (mirror.topic.overrides[0], 'orders.*')",
            "partitioning: key (mirror.topic.overrides[1], '.*')",
        ),
    )
    assert names.explain("orders-eu") == Explanation("orders-eu", False, "blacklist 'orders-eu' matches")
    assert "it would feed itself" in chosen(prefix="dc1.").explain("a", target_is_source=True).refused
    assert names.idle_overrides(["orders-us", "nothing"]) == ["mirror.topic.overrides[2]: no topic matches 'nothing'"]


def test_target_topics_that_several_topics_are_sent_to() -> None:
    one = chosen("dc1", blacklist="x", rename={"a": "all"})
    other = chosen("dc2", blacklist="x", rename={"b": "all"})
    assert merged_topics([(one, ["a", "c", "x"]), (other, ["b", "c", "x"])]) == {
        "all": ("dc1/a", "dc2/b"),
        "c": ("dc1/c", "dc2/c"),
    }
    assert merged_topics([(one, ["a"])]) == {}
    said = merged_sentence("all", ("dc1/a", "dc1/b", "dc2/c"))
    assert said == "target topic all is fed by dc1/a, dc1/b and dc2/c: their messages are merged"


@pytest.mark.parametrize(
    ("given", "topic", "target"),
    [
        ({"exclude_internal": False}, "__transaction_state", "__transaction_state"),
        ({"rename": {"a": "__share_group_state"}}, "a", "__share_group_state"),
        ({"shared_rename": {"a": "__cluster_metadata"}}, "a", "__cluster_metadata"),
        ({"prefix": "__"}, "transaction_state", "__transaction_state"),
    ],
)
def test_a_name_that_is_internal_at_the_target_is_reached_by_no_rename_and_no_prefix(
    given: Any, topic: str, target: str
) -> None:
    names = chosen(**given)
    assert names.selects(topic)
    assert names.explain(topic).refused == (
        f"topic {topic} would be written to {target}, which is internal: brokers of some release keep their own state "
        "in a topic of that name; blacklist it, or give it another name (topic.rename, topic.prefix)"
    )
    assert not names.explain(f"{topic}s").refused
    assert topic in names.sent_to(target)


def test_a_name_that_is_too_long_with_its_prefix_is_held_back() -> None:
    """A broker of 0.8 that creates a topic of 252 characters ends, and does not start again."""
    names = chosen(prefix="dc1.", whitelist="a.*,b" + "b" * 247)
    assert not names.refusal("a" * 245)
    assert "has 252 characters: with more than 249" in names.refusal("b" * 248)
    assert list(names.certainly_held_back()) == ["b" * 248]
    for wrong in ("x" * 250, "a/b", ".."):
        with pytest.raises(ValueError, match="names that brokers take"):
            renames({"a": wrong})
    with pytest.raises(ValueError, match="text of ASCII letters"):
        prefix("x" * 246)
