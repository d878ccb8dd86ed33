"""Alert rules and dashboard ask only for metrics and labels that /metrics has; each rule has its page; promtool agrees.

promtool itself is run where it is on the machine (PROMTOOL, or the package prometheus).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from mirrormaker.commands.verify import lines
from mirrormaker.http.metrics import MirrorMetrics
from mirrormaker.report import COPIED, ConnectionReport, MirrorReport, ProduceReport, ReloadReport, WorkerReport
from mirrormaker.verify.result import VerifyResult
from tests.docpages import anchor, headings, text_of
from tests.fakes.reports import group, partition, report, source

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "conf" / "prometheus" / "alerts.yml"
RULES_TEST = ROOT / "conf" / "prometheus" / "alerts_test.yml"
DASHBOARD = ROOT / "conf" / "grafana" / "mirror.json"
WORDS = {
    "and", "or", "unless", "on", "ignoring", "by", "without", "offset", "bool", "group_left", "group_right",
    "sum", "min", "max", "topk", "count", "rate", "increase", "delta", "deriv", "changes", "absent", "time",
    "label_values",
}  # fmt: skip
SCRAPED_BY_PROMETHEUS = {"up": {"job"}, "process_cpu_seconds_total": {"job"}}
EVERYWHERE = {"instance", "job"}  # labels that a scrape adds


def everything() -> MirrorReport:
    """A report that has something of all there is."""
    return report(
        partitions=(partition(0), partition("1-0", source="old", lag_unit="bytes"), partition(2, state="parked")),
        sources=(
            source(rebalances=1, committed_at_ms=1, failed_commits=1, unowned=0),
            source(name="old", lag_unit="bytes"),
        ),
        produced=ProduceReport(requests=1, retries=1, unknown_outcomes=1, errors={6: 1}),
        reload=ReloadReport(at_ms=1, problem=""),
        left_out={("dc1", "orders", "skip"): 1},
        dropped_fields={("dc1", "orders", "headers"): 1},
        gaps={("dc1", "orders"): 1, ("old", "clicks"): 1},
        workers=(WorkerReport(number=1, pid=1, state="running"),),
        handled={("dc1", "orders", COPIED): 1},
        connections=(ConnectionReport(source="dc1", side="target", broker=3, open=1, most=2),),
        groups=(group(),),
    )


def exported() -> dict[str, set[str]]:
    """The labels of each sample name that /metrics and the file of a comparison can have."""
    text, _ = MirrorMetrics(everything, lambda: 0.0).exposition("")
    verified = "\n".join(lines("orders", 4, VerifyResult((), (), (), 0, 0.0), 1.0, 1.0))
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(f"{text.decode()}\n{verified}\n"):
        for sample in family.samples:
            if sample.name.startswith("mirrormaker_"):
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


EXPORTED = exported()


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard_expressions() -> list[str]:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [one["expr"] for one in board["annotations"]["list"]]
    return expressions + [one["definition"] for one in board["templating"]["list"] if one["type"] == "query"]


EXPRESSIONS = [rule["expr"] for rule in rules()] + dashboard_expressions()


def wrong(expression: str) -> list[str]:
    """Names and labels in it that nobody exports."""
    found = []
    known = {**EXPORTED, **SCRAPED_BY_PROMETHEUS}
    bare = re.sub(r"\[[^\]]*\]|\boffset \w+", "", expression)
    labels_used = set()
    for name, matchers in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", bare):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
            if label not in known.get(name, set()) | EVERYWHERE:
                found.append(f"{name} has no label {label}")
    bare = re.sub(r"\{[^}]*\}", "", bare)
    for labels in re.findall(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)", bare):
        labels_used |= {label.strip() for label in labels.split(",")}
    if bare.startswith("label_values("):
        labels_used.add(bare.rstrip(")").rpartition(",")[2].strip())
        bare = bare.rpartition(",")[0]
    bare = re.sub(r"\b(?:by|on|ignoring|without)\s*\([^)]*\)", "", bare)
    names = set(re.findall(r"[a-zA-Z_:][\w:]*", bare)) - WORDS
    found += [f"nothing exports {name}" for name in sorted(names - known.keys())]
    every = set().union(*(known[name] for name in names & known.keys())) | EVERYWHERE
    return found + [f"no metric of it has {label}" for label in sorted(labels_used - every)]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_ask_for_what_is_exported(expression: str) -> None:
    assert wrong(expression) == []


@pytest.mark.parametrize(
    "expression",
    [
        "mirrormaker_nonsense > 0",
        'mirrormaker_lag_messages{server="a"} > 0',
        "sum by (server) (mirrormaker_lag_messages)",
        "label_values(mirrormaker_source_up, server)",
        "rate(mirrormaker_acked_messages[5m])",
    ],
)
def test_what_is_not_exported_is_found_out(expression: str) -> None:
    assert wrong(expression) != []


def test_every_metric_is_in_the_dashboard_in_an_alert_or_in_the_page() -> None:
    listed = set(re.findall(r"`(mirrormaker_\w+)`", text_of("monitoring.md")))
    assert listed == set(EXPORTED), "the table of docs/monitoring.md names exactly what is exported"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_each_alert_has_a_severity_a_summary_and_a_runbook_that_exists(rule: dict[str, Any]) -> None:
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"].keys() == {"summary", "runbook_url"}
    page, _, fragment = rule["annotations"]["runbook_url"].partition("#")
    assert page == "https://docs.example.com/mirror/monitoring.html", "one sed puts the reader's own site there"
    assert fragment == rule["alert"].lower()
    assert fragment in {anchor(title) for _, title in headings("monitoring.md")}


def test_each_alert_is_tested_both_ways() -> None:
    """That each is raised by something, and by a mirror that is well not."""
    well, *others = yaml.safe_load(RULES_TEST.read_text(encoding="utf-8"))["tests"]
    names = {rule["alert"] for rule in rules()}
    assert {one["alertname"] for one in well["alert_rule_test"]} == names
    raised = {one["alertname"] for other in others for one in other["alert_rule_test"] if one.get("exp_alerts")}
    assert raised == names


def promtool() -> str | None:
    return os.environ.get("PROMTOOL") or shutil.which("promtool")


@pytest.mark.parametrize(
    "words",
    [["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]],
    ids=" ".join,
)
def test_promtool_takes_the_rules_and_their_tests_pass(words: list[str]) -> None:
    program = promtool()
    if program is None:
        pytest.skip("no promtool on this machine (package prometheus, or PROMTOOL)")
    done = subprocess.run([program, *words], cwd=RULES.parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_has_a_place_for_every_panel() -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
