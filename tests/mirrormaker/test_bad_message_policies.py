"""Policies for bad messages: the kinds, the decision, the options."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundwork.options import OptionError
from kafkawire.errors import BrokerError, CorruptMessage, LibraryMissing, RemoteError, UnknownMagic
from kafkawire.model import Broker, TopicPartition
from mirrormaker.badmessages import (
    PARK_ALL,
    REFETCHES,
    Action,
    BadMessage,
    Policies,
    decide,
    failure,
    kind_of,
    of_source,
    suspected,
)
from mirrormaker.config import Configuration, from_yaml
from mirrormaker.encoding import MessageEncoderFailed
from mirrormaker.handler import HandlerTopicMissing
from mirrormaker.partitioning import NoSuchPartition
from producer.conversion import MessageHandlerFailed
from producer.errors import RecordRefused, TooLarge, Undeliverable, UnknownOutcome, Waiting
from tests.mirrormaker.test_mirror_config import SOURCE, TARGET, problems, yaml_file
from zkconsumer.errors import DamagedMessage, EntryTooLarge, FetchRefused, OutOfRange

TP = TopicPartition("t", 3)
MIRROR = "mirror:\n  whitelist: 'a.*'\n"
DAMAGE = CorruptMessage("crc mismatch", 0, 7)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("reason", "kinds", "kind"),
    [
        (TooLarge("t", 5, Broker(1, "b", 1)), {"oversize"}, "oversize"),
        (EntryTooLarge(TP, 7, 9, 8, 8), {"oversize"}, "oversize"),
        (DAMAGE, {"corrupt", "undecodable"}, "corrupt"),
        (UnknownMagic("v9", 0, 7), {"corrupt", "undecodable"}, "undecodable"),
        (caused(CorruptMessage("gzip", 0, 7), RemoteError("gzip")), {"corrupt", "undecodable"}, "undecodable"),
        (caused(CorruptMessage("inside", 0, 7), DAMAGE), {"corrupt", "undecodable"}, "corrupt"),
        (DamagedMessage(TP, 7, "found", DAMAGE), {"corrupt", "undecodable"}, "corrupt"),
        (DamagedMessage(TP, 7, "found", UnknownMagic("v9", 0, 7)), {"corrupt", "undecodable"}, "undecodable"),
        (BrokerError(2, "t/3"), {"corrupt", "undecodable", "refused"}, "refused"),
        (BrokerError(87, "t/3"), {"corrupt", "undecodable", "refused"}, "refused"),
        (RecordRefused(87, "t/3"), {"refused"}, "refused"),
        (RecordRefused(32, "t/3"), {"refused"}, "refused"),
        (BrokerError(-1, "t/3"), {"corrupt", "undecodable", "unclear"}, "unclear"),
        (Undeliverable("stored nothing"), {"corrupt", "undecodable", "unclear"}, "unclear"),
        (BrokerError(29, "t/3"), set(), None),
        (UnknownOutcome("t/3"), set(), None),
        (Waiting(TP, "no leader"), set(), None),
        (MessageHandlerFailed("h"), {"handler"}, "handler"),
        (MessageEncoderFailed("e"), {"undecodable"}, "undecodable"),
        (HandlerTopicMissing("no topic"), set(), None),
        (LibraryMissing("lz4"), set(), None),
        (NoSuchPartition("none"), set(), None),
        (OutOfRange(TP, 1, 2, 3, "b"), set(), None),
        (FetchRefused(TP, 1, BrokerError(76, "t/3")), set(), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_the_kinds_that_may_be_behind_an_error_and_the_kind_of_one_message(
    reason: Exception, kinds: set[str], kind: str | None
) -> None:
    assert suspected(reason) == kinds
    assert kind_of(reason) == kind


def bad(reason: Exception, kind: str) -> BadMessage:
    return BadMessage(tp=TP, offset=7, resume_at=8, kind=kind, reason=reason, entry=b"", nbytes=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["dead-letter", "skip", "fail"])
def test_what_is_done_next(policy: str) -> None:
    policies = Policies(oversize=policy, corrupt=policy)  # type: ignore[arg-type]
    large, action = TooLarge("t", 5, Broker(1, "b", 1)), Action(policy)
    assert decide(policies, large, None, 0, 0) is Action.ISOLATE
    assert decide(policies, large, bad(large, "oversize"), 0, 1) is action
    assert decide(policies, DAMAGE, None, 0, 0) is Action.ISOLATE
    tries = [decide(policies, DAMAGE, bad(DAMAGE, "corrupt"), n, 1) for n in range(REFETCHES + 1)]
    assert tries == [Action.REFETCH] * 3 + [action]
    # What seemed corrupt is undecodable, and for that the policy is park.
    assert decide(policies, DAMAGE, bad(DAMAGE, "undecodable"), 9, 1) is Action.PARK
    assert decide(PARK_ALL, DAMAGE, None, 0, 0) is Action.PARK
    assert decide(policies, NoSuchPartition("none"), None, 0, 0) is Action.PARK
    assert decide(policies, DAMAGE, None, 0, 9) is Action.PARK  # it cannot be told


@pytest.mark.parametrize("code", [2, 32, 87, -1])
def test_what_the_target_refuses_is_isolated_before_it_parks_whatever_the_policy(code: int) -> None:
    refusal = BrokerError(code, "t/3")
    assert decide(PARK_ALL, refusal, None, 0, 0) is Action.ISOLATE
    assert decide(PARK_ALL, refusal, bad(refusal, "refused"), 0, 1) is Action.PARK
    assert decide(PARK_ALL, BrokerError(29, "t/3"), None, 0, 0) is Action.PARK  # it is about no message
    skips = Policies(refused="skip", corrupt="skip", undecodable="skip")
    assert decide(skips, refusal, bad(refusal, "unclear"), 9, 1) is Action.PARK  # no option leaves that out


def test_an_entry_of_the_source_counts_its_offsets_and_one_of_0_7_does_not() -> None:
    damaged = DamagedMessage(TP, 7, "found", DAMAGE)
    assert of_source(TP, damaged, True) is None  # not measured
    damaged.resume_at, damaged.raw = 12, b"12345"
    assert of_source(TP, DAMAGE, True) is None
    found, old = of_source(TP, damaged, True), of_source(TP, damaged, False)
    assert found is not None
    assert old is not None
    assert (found.offset, found.resume_at, found.offsets, old.offsets) == (7, 12, 5, None)
    assert (found.what, old.what) == (
        "an entry of 5 offsets",
        "an entry of 5 bytes, with an unknown number of messages",
    )


def test_the_last_sentence_of_a_mirror_names_message_option_and_what_helps() -> None:
    assert failure(bad(DAMAGE, "corrupt")) == (
        f"t/3 at 7: {DAMAGE}; mirror.corrupt.policy is fail: look at the disk of the broker, or restore the partition "
        "from a replica that is whole, or choose park, dead-letter or skip"
    )


# ---- options --------------------------------------------------------------------------------------------------------


def configured(folder: Path, more: str) -> Configuration:
    return from_yaml(yaml_file(folder, SOURCE + TARGET + MIRROR + more))


def test_policies_are_those_of_the_topic_or_of_the_mirror(tmp_path: Path) -> None:
    overrides = (
        "  topic.overrides:\n"
        "    - {topics: 'orders.*', oversize.policy: skip}\n"
        "    - {topics: orders, oversize.policy: fail, handler.error.policy: park}\n"
    )
    mirror = configured(
        tmp_path, "  corrupt.policy: dead-letter\n  handler.error.policy: fail\n  dead.letter.topic: dead\n" + overrides
    ).mirror
    assert mirror.policies("orders") == Policies(oversize="skip", corrupt="dead-letter", handler="park")
    assert mirror.policies("orders-eu") == Policies(oversize="skip", corrupt="dead-letter", handler="fail")
    assert mirror.policies("news") == Policies(corrupt="dead-letter", handler="fail")


def test_what_leaves_messages_out_is_named_where_it_is_asked_for(tmp_path: Path) -> None:
    more = "  oversize.policy: skip\n  dead.letter.topic: dead\n  topic.overrides:\n"
    found = configured(tmp_path, more + "    - {topics: a, corrupt.policy: dead-letter}\n")
    assert found.notes == (
        "m.yaml: skip (oversize.policy): such messages are not in the target; they are counted and logged",
        "m.yaml: dead-letter (corrupt.policy of a): such messages are in dead, not in their topic",
    )


def test_dead_letters_need_a_topic_and_target_end_leaves_nothing_out(tmp_path: Path) -> None:
    assert problems(tmp_path, SOURCE + TARGET + MIRROR + "  corrupt.policy: dead-letter\n") == [
        "m.yaml: mirror: corrupt.policy: dead-letter needs 'dead.letter.topic'"
    ]
    more = "  resume: target-end\n  offset.map.folder: /m\n"
    with pytest.raises(OptionError, match=r"oversize\.policy: 'resume: target-end' compares"):
        configured(tmp_path, f"{more}  oversize.policy: skip\n")
    configured(tmp_path, f"{more}  oversize.policy: fail\n")


def test_the_consumers_policy_is_refused_with_the_mirrors(tmp_path: Path) -> None:
    [sentence] = problems(tmp_path, SOURCE.replace("}", ", corrupt.message.policy: skip}") + TARGET + MIRROR)
    assert "corrupt.message.policy" in sentence
    assert "park" in sentence
