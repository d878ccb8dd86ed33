"""Which groups are meant, and what an operator answers for members that tell no mode."""

from __future__ import annotations

import pytest

from groupadmin.migrate.selection import GroupSelection, answers, chosen
from zkconsumer.errors import NoSuchGroup
from zkconsumer.offsets.modes import MODES
from zkconsumer.options.arguments import WrongUsage

THERE = ["audit", "billing", "console-consumer-1", "etl-1", "etl-2"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (GroupSelection(("billing",)), ["billing"]),
        (GroupSelection(pattern="etl-.*"), ["etl-1", "etl-2"]),
        (GroupSelection(pattern="etl"), None),  # the whole name has to fit
        (GroupSelection(("audit",), "etl-1"), ["audit", "etl-1"]),
        (GroupSelection(everything=True, exclude=("console-consumer-.*", "etl-1")), ["audit", "billing", "etl-2"]),
        (GroupSelection(("billing",), exclude=("bill.*",)), None),
        (GroupSelection(("nobody",)), None),
    ],
)
def test_groups_that_are_meant(wanted: GroupSelection, expected: list[str] | None):
    if expected is None:
        with pytest.raises(NoSuchGroup):
            chosen(wanted, THERE, "zk")
    else:
        assert chosen(wanted, THERE, "zk") == expected


@pytest.mark.parametrize("wanted", [GroupSelection(pattern="("), GroupSelection(everything=True, exclude=("*",))])
def test_a_pattern_that_is_none_is_wrong_usage(wanted: GroupSelection):
    with pytest.raises(WrongUsage, match="not a regular expression"):
        chosen(wanted, THERE, "zk")


def test_answers_for_one_member_and_for_all_others():
    assert answers(["dual", "host-1=a=kafka"], MODES) == {"*": "dual", "host-1=a": "kafka"}


@pytest.mark.parametrize("texts", [["both"], ["=dual"], ["m=both"], ["dual", "kafka"], ["m=dual", "m=kafka"]])
def test_answers_that_say_nothing_or_two_things_are_wrong_usage(texts: list[str]):
    with pytest.raises(WrongUsage, match="--mode"):
        answers(texts, MODES)
