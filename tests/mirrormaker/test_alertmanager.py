"""How many pages an outage is: the labels of the alerts that its rules raise, grouped and kept back as alertmanager.yml
says.

What raises a rule is shown by promtool (alerts_test.yml); here its labels are computed, for any number of partitions.
amtool itself is run where it is on the machine (AMTOOL, or the package prometheus-alertmanager).
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import yaml

from tests.mirrormaker.test_alerts import EXPORTED, RULES, SCRAPED_BY_PROMETHEUS, rules

CONFIG = RULES.with_name("alertmanager.yml")
CONFIGURED = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
RULE = {rule["alert"]: rule for rule in rules()}
OF_ONE_PARTITION = {"topic", "partition"}
Alert = Mapping[str, str]

# Three members of a mirror of two sources, 50 topics and 500 partitions.
VALUES = {
    "job": ["mirrormaker"], "instance": ["m1:9308", "m2:9308", "m3:9308"], "source": ["dc1", "dc2"],
    "topic": [f"t{n}" for n in range(50)], "partition": [str(n) for n in range(10)], "name": ["orders"],
    "state": ["parked"], "reason": ["skip", "corrupt skipped"],
}  # fmt: skip


def labels_of(expression: str) -> set[str]:
    """Return the labels of what an expression gives: those of its first metric, but for what is aggregated away."""
    names = [name for name in re.findall(r"[a-z_]+", expression) if name in {**EXPORTED, **SCRAPED_BY_PROMETHEUS}]
    found = {**EXPORTED, **SCRAPED_BY_PROMETHEUS}[names[0]] | {"job", "instance"}
    if whole := re.match(r"(?:sum|min|max|count) (by|without) \(([^)]*)\)", expression):
        listed = {label.strip() for label in whole[2].split(",")}
        return listed if whole[1] == "by" else found - listed
    return found


def raised(name: str) -> list[Alert]:
    """Return all alerts of a rule, where it holds for everything."""
    labels = sorted(labels_of(RULE[name]["expr"]))
    constant = {"alertname": name, **RULE[name]["labels"]}
    return [
        {**constant, **dict(zip(labels, values, strict=True))}
        for values in itertools.product(*(VALUES[label] for label in labels))
    ]


def matched(alert: Alert, matchers: Iterable[str]) -> bool:
    """True if an alert has all of these labels, as Alertmanager compares them."""
    for matcher in matchers:
        label, operator, wanted = re.fullmatch(r'(\w+)(=~|!~|!=|=)"(.*)"', matcher).groups()
        value = alert.get(label, "")
        same = bool(re.fullmatch(wanted, value)) if "~" in operator else value == wanted
        if same == operator.startswith("!"):
            return False
    return True


def kept_back(alert: Alert, firing: Iterable[Alert]) -> bool:
    """True if another alert inhibits this one."""
    return any(
        matched(alert, rule["target_matchers"])
        and any(
            matched(other, rule["source_matchers"])
            and all(other.get(label, "") == alert.get(label, "") for label in rule["equal"])
            for other in firing
        )
        for rule in CONFIGURED["inhibit_rules"]
    )


def notifications(firing: list[Alert]) -> list[tuple[str, ...]]:
    """Return the receiver and the values of group_by of each notification."""
    sent = set()
    for alert in (one for one in firing if not kept_back(one, firing)):
        route: Mapping[str, Any] = CONFIGURED["route"]
        route = {**route, **next((one for one in route["routes"] if matched(alert, one["matchers"])), {})}
        sent.add((route["receiver"], *(alert.get(label, "") for label in route["group_by"])))
    return sorted(sent)


@pytest.mark.parametrize("name", RULE)
def test_no_alert_is_of_one_topic_or_partition(name: str) -> None:
    assert not labels_of(RULE[name]["expr"]) & OF_ONE_PARTITION
    assert len(raised(name)) <= 3 * 2 * 2


def test_a_target_that_is_gone_is_one_page_for_all_members_and_partitions() -> None:
    firing = [
        alert
        for name in ("MirrorTargetDown", "MirrorNotReady", "MirrorLagAge", "MirrorStuck", "MirrorWaiting")
        for alert in raised(name)
    ]
    assert len(firing) == 3 * (1 + 1 + 2 + 2 + 2), "1,000 alerts of a member before"
    assert notifications(firing) == [("page", "MirrorTargetDown")]


def test_a_source_that_is_gone_is_one_page_and_another_source_that_is_stuck_is_a_second() -> None:
    firing = [*raised("MirrorNotReady"), *raised("MirrorStuck"), *raised("MirrorLagAge"), *raised("MirrorCommitStale")]
    firing += [alert for alert in raised("MirrorSourceDown") if alert["source"] == "dc1"]
    assert notifications(firing) == [
        ("page", "MirrorSourceDown"),
        ("page", "MirrorStuck"),
        ("ticket", "MirrorCommitStale"),
    ]


def test_a_mirror_that_is_down_is_one_page() -> None:
    ended_with_it = ("MirrorNotReady", "MirrorTargetDown", "MirrorSourceDown", "MirrorStuck", "MirrorSlowLoop")
    firing = [*raised("MirrorDown"), *(alert for name in ended_with_it for alert in raised(name))]
    assert notifications(firing) == [("page", "MirrorDown")]


def test_what_is_or_will_be_lost_is_kept_back_by_nothing() -> None:
    everything = [alert for name in RULE for alert in raised(name)]
    lost = {
        "MirrorWillLoseData",
        "MirrorGap",
        "MirrorSkipped",
        "MirrorVerifyDiffers",
        "MirrorPartitionsUnowned",
        "MirrorPartitionsParked",
    }
    assert lost <= {name for _, name in notifications(everything)}


def test_alerts_that_are_named_there_exist() -> None:
    for rule in CONFIGURED["inhibit_rules"]:
        for matcher in rule["source_matchers"] + rule["target_matchers"]:
            pattern = re.fullmatch(r'alertname=~?"(.*)"', matcher)[1]
            one_by_one = re.fullmatch(r"(\w*)\(([\w|]+)\)", pattern)
            names = [one_by_one[1] + end for end in one_by_one[2].split("|")] if one_by_one else [pattern]
            assert set(names) <= RULE.keys()


def test_amtool_takes_the_file_and_sends_each_severity_to_its_receiver() -> None:
    program = os.environ.get("AMTOOL") or shutil.which("amtool")
    if program is None:
        pytest.skip("no amtool on this machine (package prometheus-alertmanager, or AMTOOL)")
    for words in (
        ["check-config", str(CONFIG)],
        *(
            ["config", "routes", "test", f"--config.file={CONFIG}", f"--verify.receivers={to}", f"severity={to}"]
            for to in ("page", "ticket")
        ),
    ):
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
