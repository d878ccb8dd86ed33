"""README.md is one screen and true: its commands and flags exist, its figures are measured, its links are packed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import fields

import pytest

from kafkawire.dialects import DIALECTS
from localkafka import demo
from tests.docpages import ROOT, blocks, text_of
from tests.fakes.helppages import code_of_help

README, SUPPORT, COMPARISON = text_of("/README.md"), text_of("support.md"), text_of("comparison.md")
RESULTS = (ROOT / "benchmarks" / "results" / "README.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"(make|mirrormaker|sparkpipeline|zkconsumer|zkproducer|python -m \w+)(\s.*)?", re.DOTALL)


def commands() -> list[str]:
    """Return every command in the text of README and of the index, and every `make` line of README, without comments.

    Commands in other blocks are held by tests/test_docs_blocks.py.
    """
    lines = [line.partition(" #")[0] for block in blocks("/README.md") for line in block.text.splitlines()]
    spans = [line for line in lines if line.startswith("make ")]
    for page in (README, text_of("README.md")):
        spans += re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    return sorted({" ".join(span.split()) for span in spans if COMMAND.fullmatch(span.strip())})


def test_commands_are_found():
    assert {"make demo", "make test"} <= set(commands())
    assert {"zkconsumer consume", "mirrormaker verify", "zkproducer"} <= set(commands())


def test_the_readme_is_one_screen_and_shows_the_demo_soon():
    lines = README.splitlines()
    assert len(lines) <= 90
    (clone,) = (number for number, line in enumerate(lines) if line.startswith("git clone"))
    (nothing_lost,) = (number for number, line in enumerate(lines) if re.match(r"\d+ messages: lost 0", line))
    assert 0 < nothing_lost - clone < 20


def test_the_table_of_the_demo_is_what_it_prints(capsys: pytest.CaptureFixture[str]):
    """The demo judges and prints the rows that README shows, and one row that stands for those it leaves out."""
    (shown,) = (block.text for block in blocks("/README.md") if block.language == "text")
    table, end = (part.splitlines() for part in shown.split("...\n"))
    messages, _, duplicates = map(int, re.findall(r"\d+", end[0]))
    rows = [compared(*line.split()) for line in table[1:]]
    rest = messages - sum(row.source for row in rows), duplicates - sum(row.duplicates for row in rows)
    assert demo.verdict([*rows, compared("payments", 0, rest[0], sum(rest), 0, rest[1])]) == 0
    assert {*table, *end} <= set(capsys.readouterr().out.splitlines())
    assert messages == demo.COUNT * len(demo.TOPICS) + demo.COUNT // 3
    assert [row.target - row.source for row in rows] == [row.duplicates for row in rows]


def compared(topic: str, *numbers: str | int) -> demo.Comparison:
    """Return a row of the demo's table by its columns."""
    none = {field.name: 0 for field in fields(demo.Comparison)}
    given = dict(zip(demo.COMPARED[1:], map(int, numbers), strict=True))
    return demo.Comparison(**{**none, **given, "topic": topic, "examples": ()})  # type: ignore[arg-type]


@pytest.mark.parametrize("command", commands())
def test_every_command_of_readme_and_index_exists_with_its_flags(
    command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(ROOT)
    words = shlex.split(command)
    if words[0] == "make":
        make = shutil.which("make")
        assert make is not None
        code = subprocess.run([make, "-n", *words[1:], "--help"], timeout=60, check=False).returncode
    else:
        code = code_of_help(words)
    assert code == 0, capfd.readouterr().err


def test_the_releases_of_the_support_matrix_are_those_of_the_code():
    first, *_, last = DIALECTS
    assert (first, last) == ("0.7.0", "4.3")
    assert f"| brokers | {first} – " in SUPPORT
    assert " – 3.9 with ZooKeeper |" in SUPPORT  # the last release that has it
    assert f"| oldest brokers | **{first.removesuffix('.0')}** |" in README
    assert f" – {last.partition('.')[0]}.x with KRaft |" in SUPPORT
    tested = re.findall(
        r"\d+\.\d+[.\d]*", SUPPORT.partition("Tested against real brokers")[2].partition("Releases between")[0]
    )
    there = {path.stem for path in (ROOT / "localkafka" / "poms").glob("[0-9]*.xml")}
    assert {"0.7.2", *there} == {release.rstrip(".") for release in tested}


def test_what_the_readme_links_to_is_in_a_source_distribution():
    """A reader of the distribution finds the pages beside README.md."""
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()]
    files = {name for verb, *names in lines if verb == "include" for name in names}
    folders = {name for verb, *names in lines if verb == "graft" for name in names}
    links = re.findall(r"\]\(([^)#\s]+)|src(?:set)?=\"([^\"]+)\"", README)
    linked = {"".join(link) for link in links if not "".join(link).startswith("http")}
    assert len(linked) > 15
    assert [link for link in linked if link not in files and link.partition("/")[0] not in folders] == []


def measured(section: str, work: str, who: str, beside: str) -> float:
    """Return a ratio of messages per CPU second in benchmarks/results/README.md."""
    page = RESULTS.partition(f"## {section}")[2].partition("\n## ")[0]
    row = rf"^\| {re.escape(work)} \| {re.escape(who)} \| ([\d.]+) × {re.escape(beside)} \| messages per CPU second \|"
    found = re.search(row, page, re.MULTILINE)
    assert found is not None, (work, who, beside)
    return float(found[1])


MIRROR, MODERN, PRODUCER = "A mirror against the JVM's MirrorMaker 0.8.2.2", "Into and between clusters", "Producer"
RATIOS = {  # what the comparison calls it -> where it was measured
    "mirror 0.8.2.2 to 0.8.2.2, plain, 100 B": (MIRROR, "plain, 100 B", "ours", "jvm"),
    "the same, 1 KB": (MIRROR, "plain, 1 KB", "ours", "jvm"),
    "the same, keys choose the partition, 100 B": (MIRROR, "keyed, 10,000 keys, 100 B", "ours", "jvm"),
    "the same without the extra `fast`": (MIRROR, "keyed, 10,000 keys, 100 B", "ours, pure", "jvm"),
    "mirror 3.9.1 to 3.9.1, 100 B": (MODERN, "3.9.1 to 3.9.1, 100 B", "ours", "MirrorMaker 2"),
    "the same, exactly once": (MODERN, "3.9.1 to 3.9.1, 100 B", "ours, exactly once", "MirrorMaker 2"),
    "`send`, 100 B": (PRODUCER, "100 B", "send", "kafka-python"),
    "`send_many`, 100 B": (PRODUCER, "100 B", "send_many", "confluent-kafka"),
}


@pytest.mark.parametrize("work", RATIOS)
def test_figures_beside_other_tools_are_those_that_were_measured(work: str):
    shown = re.search(rf"^\| {re.escape(work)} \| ([\d.]+) \|", COMPARISON, re.MULTILINE)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(measured(*RATIOS[work]), rel=0.02)


def test_figures_of_the_readme_are_those_that_were_measured():
    row = README.partition("| messages per CPU second of this mirror, with `fast`, ")[2].partition("\n")[0]
    _, _, old, new, *_ = (cell.strip(" *") for cell in row.split("|"))
    plain = [measured(*RATIOS[work]) for work in list(RATIOS)[:2]]
    assert old == f"{min(plain):.0f} to {max(plain):.0f}"
    assert new == f"{measured(*RATIOS['mirror 3.9.1 to 3.9.1, 100 B']):.0f}"
