"""What is named as the bottleneck, for facts of each kind; and what is printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrormaker.profile.bottleneck import FAR_S, STAGES, Profile, Side, bottleneck, lines

NEAR = Side(waiting=0.9, moving=0.05, soonest_s=0.001, requests=1000, bytes=10**9)
QUIET = Side(waiting=0.1, soonest_s=0.001, requests=1000, bytes=10**9)


def profile(**ran: float) -> Profile:
    """Ten seconds of a mirror that has much to copy, and an event loop that is idle but for what is given."""
    return Profile(
        seconds=10,
        cpu_s=2,
        ran={stage: ran.get(stage, 0.0) for stage in STAGES},
        cpu={},
        source=NEAR,
        target=QUIET,
        messages=1000,
        unread=10**6,
        unacknowledged=100,
    )


def named(found: Profile) -> tuple[str, str]:
    one = bottleneck(found)
    return one.name, one.sentence


def test_a_handler_that_computes_or_blocks_half_of_the_time() -> None:
    name, sentence = named(profile(handler=6, route=3.5))
    assert (name, "60%" in sentence) == ("handler", True)


def test_a_handler_that_lets_others_run_while_it_waits() -> None:
    assert named(replace(profile(), waited={"handler": 9.0}))[0] == "handler"


def test_an_event_loop_that_is_always_busy_names_its_first_stage() -> None:
    name, sentence = named(profile(handler=1, scan=3, route=5))
    assert name == "CPU"
    assert "route (56%)" in sentence


def test_nothing_left_to_copy_is_the_source() -> None:
    name, sentence = named(replace(profile(), unread=50, unacknowledged=20))
    assert (name, "caught up" in sentence) == ("source", True)


def test_nothing_left_and_nothing_copied_is_the_source() -> None:
    assert named(replace(profile(), messages=0, unread=0, unacknowledged=0))[0] == "source"


def test_a_source_that_is_near_and_slow() -> None:
    assert named(profile())[0] == "source"


@pytest.mark.parametrize("soonest_s", [FAR_S, 0.16])
def test_a_source_that_is_far(soonest_s: float) -> None:
    name, sentence = named(replace(profile(), source=replace(NEAR, soonest_s=soonest_s)))
    assert name == "link"
    assert f"{soonest_s * 1000:.0f} ms" in sentence
    assert "source" in sentence


def test_a_narrow_link_of_the_source() -> None:
    name, sentence = named(replace(profile(), source=Side(waiting=0.1, moving=0.8, soonest_s=0.001, bytes=8_000_000)))
    assert name == "link"
    assert "1.0 MB/s" in sentence


def test_a_link_that_is_full_all_the_time_makes_every_response_late() -> None:
    """It may be narrow, long, or both: no advice of one of them alone."""
    full = Side(waiting=0.9, moving=0.7, soonest_s=1.049, bytes=7_000_000)
    name, sentence = named(replace(profile(), source=full))
    assert name == "link"
    assert all(each in sentence for each in ("in transit 70%", "1.0 MB/s", "1049 ms", "ping", "num.consumer.fetchers"))
    assert "a wider link helps" in sentence


def test_a_quick_transfer_all_the_time_is_no_narrow_link() -> None:
    busy = Side(waiting=0.1, moving=0.8, soonest_s=0.001, bytes=8 * 10**9)
    assert named(replace(profile(), source=busy))[0] == "source"


def behind_the_target(**changed: object) -> Profile:
    """All budget is fetched, and waits."""
    waiting = Side(waiting=1.0, soonest_s=0.002, requests=50, bytes=10**6)
    return replace(profile(), source=QUIET, target=waiting, unacknowledged=10**5, **changed)  # type: ignore[arg-type]


def test_a_target_that_is_near_and_slow() -> None:
    assert named(behind_the_target())[0] == "target"


def test_a_target_that_takes_everything_that_is_there_to_fetch() -> None:
    """The fetches wait, too: for what is new."""
    assert named(replace(behind_the_target(), source=NEAR, unread=0))[0] == "target"


def test_a_target_that_does_not_answer() -> None:
    name, sentence = named(replace(behind_the_target(), target=Side(waiting=1.0), messages=0))
    assert (name, "answered" in sentence) == ("target", True)


def test_a_target_that_is_far() -> None:
    far = Side(waiting=1.0, soonest_s=0.08, requests=50, bytes=10**6)
    name, sentence = named(replace(behind_the_target(), target=far))
    assert (name, "target" in sentence) == ("link", True)


def test_a_narrow_link_of_the_target() -> None:
    narrow = Side(waiting=0.4, moving=0.6, soonest_s=0.001, requests=50, bytes=6_000_000)
    assert named(replace(behind_the_target(), target=narrow))[0] == "link"


def test_all_stages_waits_and_the_bottleneck_are_printed() -> None:
    printed = lines(replace(profile(scan=2.5), cpu={"scan": 2.0}, waited={"commit": 0.5}))
    rows = {line.rsplit("  ", 3)[0].strip() for line in printed[1:]}
    assert {*STAGES} <= {row.split("  ")[0] for row in rows}
    assert [line.split() for line in printed if line.startswith("scan")] == [["scan", "2.50", "25%", "2.00"]]
    assert any(line.split() == ["fetch", "wait", "9.00", "90%"] for line in printed)
    assert any(line.split() == ["commit", "wait", "0.50", "5%"] for line in printed)
    assert any(line.split() == ["idle", "7.50", "75%"] for line in printed)
    assert "1,000 messages copied, 100 a second" in printed[0]
    assert printed[-1].startswith("bottleneck: source: ")
