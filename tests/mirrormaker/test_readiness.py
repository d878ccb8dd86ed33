"""Readiness: what holds it back, in sentences."""

from __future__ import annotations

import pytest

from mirrormaker.report import SourceReport, not_ready


def source(state: str, reason: str = "", name: str = "dc1") -> SourceReport:
    return SourceReport(
        name=name, version="0.8.2", state=state, reason=reason, owned=0, lag=None, lag_unit="messages"
    )  # fmt: skip


def test_a_mirror_whose_sources_run_and_whose_target_answers_is_ready() -> None:
    assert not_ready([source("running"), source("running", name="dc2")], "") == ()


@pytest.mark.parametrize(
    ("state", "reason", "sentence"),
    [
        ("joining", "", "source dc1: joining its group"),
        ("joining", "no assignment yet", "source dc1: joining its group: no assignment yet"),
        ("out of reach", "ZooKeeper silent for 8 s", "source dc1: out of reach: ZooKeeper silent for 8 s"),
        ("refused", "chroot /a does not exist", "source dc1: refused: chroot /a does not exist"),
        ("running", "broker 0 (h:9092): Connection refused", "source dc1: broker 0 (h:9092): Connection refused"),
    ],
)  # fmt: skip
def test_each_state_of_one_source_says_why_though_the_other_runs(state: str, reason: str, sentence: str) -> None:
    assert not_ready([source("running", name="dc2"), source(state, reason)], "") == (sentence,)


def test_target_and_stop_count_as_well() -> None:
    sentences = not_ready([source("joining")], "broker 3 hangs (for 9 s)", stopping=True)
    assert sentences == ("the mirror is stopping", "target: broker 3 hangs (for 9 s)", "source dc1: joining its group")
