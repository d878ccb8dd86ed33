"""Names of strangers (topics, groups, clients, sources) as paths, log lines, labels, pages and table cells."""

from __future__ import annotations

import json
import logging
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from groundwork.logs import LineFormatter
from groundwork.options import OptionError
from groundwork.output import write
from groundwork.sentences import printable
from groupadmin.files.read import read_offsets
from groupadmin.migrate.rules.states import StepName
from groupadmin.migrate.undofolder import UndoFolder
from mirrormaker.attention import view
from mirrormaker.commands.status import shown
from mirrormaker.config import from_yaml
from mirrormaker.http.metrics import MirrorMetrics
from mirrormaker.http.server import page
from mirrormaker.offsetmap.file import FileStorage, MapUnwritable, file_of
from mirrormaker.status import StatusLine
from sparkpipeline.paths import FinalName, Hour, StagedName
from tests.cases import each
from tests.fakes.reports import happening, partition, report, source
from zkconsumer.offsetmap.text import Header

HOSTILE = (
    "..", ".", "../../etc/passwd", "/etc/passwd", "a/b", "a\0b", "a\nb", "a\r\nSet-Cookie: x", "a" * 249, "a" * 5000,
    "\x1b[2J\x1b[31mred", "\x9b2J", "\u202eevil", "<script>alert(1)</script>", '"><img src=x>', "'; DROP TABLE t; --",
    'a="b" level=error', "a\\", "%2e%2e%2f", "é\u0301", "\ud800", " ", "",
)  # fmt: skip


# ---- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_an_undo_file_stays_in_its_folder(name: str, tmp_path: Path) -> None:
    folder = UndoFolder(tmp_path / "undo")
    try:
        path = folder.file(name, StepName.COPY)
    except UnicodeEncodeError:
        assert name == "\ud800"  # no group of a cluster: names are UTF-8
        return
    assert path.parent == tmp_path / "undo"
    assert len(path.name.encode()) <= 255
    assert folder.keep(name, StepName.COPY, read_offsets("/consumers/g/offsets/orders/0:17\n")) == path
    assert [each.name for each in (tmp_path / "undo").iterdir()] == [path.name]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["undo"]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_the_name_of_a_source_is_no_path(name: str, tmp_path: Path) -> None:
    """What a configuration takes as a name makes a file in the folder, or is refused in a sentence."""
    file = tmp_path / "m.yaml"
    section = {"name": name, "zookeeper.connect": "zk1:2181/src", "group.id": "g"}
    document = {
        "sources": [section],
        "target": {"metadata.broker.list": "k:9092", "target.zookeeper.connect": "zk1:2181/dst"},
        "mirror": {"whitelist": "a.*"},
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    if not name.isprintable() or len(name) > 100:
        with pytest.raises(OptionError, match="printable text of at most 100 characters") as refused:
            from_yaml(file)
        assert all(sentence.isprintable() for sentence in refused.value.problems)
        return
    (taken,) = from_yaml(file).sources
    folder = tmp_path / "maps"
    folder.mkdir()
    path = file_of(folder, taken.name)
    assert path.parent == folder
    FileStorage(path, Header(taken.name, "g"), 1 << 20).close()
    assert sorted(each.name for each in folder.iterdir()) == [path.name, f"{path.name}.lock"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.yaml", "maps"]


def test_a_name_too_long_for_a_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MapUnwritable, match="cannot be opened: File name too long"):
        FileStorage(file_of(tmp_path, "a" * 300), Header("a", "g"), 1 << 20)


@given(name=st.text(min_size=1, max_size=30))
def test_folders_of_a_load_are_below_its_base(name: str) -> None:
    """topic=NAME is one folder, whatever the name: Kafka's names have no slash, and Spark escapes the rest."""
    hour = Hour(name, "2014-03-07", "09")
    if "/" not in name:
        assert hour.folder.split("/")[:2] == ["data", f"topic={name}"]
    staged = StagedName.of(f"topic={name}/p=0/date=2014-03-07/hour=09/part-00000-x.c000.snappy.parquet")
    if "/" in name:
        assert staged is None or staged.hour.topic == name
    for path in (f"data/topic={name}/../../x", f"../data/topic={name}", f"/topic={name}"):
        assert FinalName.of(path) is None
        assert StagedName.of(path) is None


# ---- lines, cells and labels -----------------------------------------------------------------------------------------


def line_with(name: str, form: str) -> str:
    record = logging.makeLogRecord(
        {"name": "at", "levelno": 30, "levelname": "WARNING", "msg": "topic %s", "args": (name,), "topic": name}
    )
    record.below = [f"  {name}/0 reading"]
    return LineFormatter(form).format(record)


@each("name", HOSTILE)
def test_a_log_line_stays_a_line(name: str) -> None:
    lines = line_with(name, "logfmt").split("\n")
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    assert " level=warning" in lines[0].partition("msg=")[0]
    (line,) = line_with(name, "json").split("\n")
    assert json.loads(line)["topic"] == name


@given(st.text())
def test_what_is_printed_is_printable_and_nothing_else_is_changed(text: str) -> None:
    assert printable(text, keep="").isprintable()
    if text.isprintable():
        assert printable(text) == text


@each("name", HOSTILE)
def test_tables_and_status_lines_obey_nobody(name: str) -> None:
    out = StringIO()
    write([(name, 5)], ["group", "lag"], out=out)
    assert len(out.getvalue().split("\n")) == 3
    assert all(line.isprintable() for line in out.getvalue().split("\n"))
    hostile = view(
        report(
            sources=(source(name=name, reason=name),),
            partitions=(partition(topic=name, reason=name, state="parked"),),
            happenings=(happening(name),),
            not_ready=(name,),
            target=name,
        )
    )
    for columns in (None, 80):
        assert all(line.isprintable() for line in shown(json.loads(json.dumps(hostile)), columns))
    terminal = StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    terminal.fileno = lambda: 1  # type: ignore[method-assign]
    StatusLine(terminal).show(f"parked 1: {name}")
    assert terminal.getvalue().removeprefix("\r\x1b[K").isprintable()


@each("name", [name for name in HOSTILE if name != "\ud800"])
def test_prometheus_reads_back_the_name_that_was_given(name: str) -> None:
    made = report(partitions=(partition(topic=name),))
    text, _ = MirrorMetrics(lambda: made, lambda: 0.0).exposition("")
    found = {
        sample.labels["topic"]
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name == "mirrormaker_committed_offset"
    }
    assert found == {name}


def test_the_page_makes_no_markup_of_what_it_is_told() -> None:
    """tests/mirrormaker/test_status_page.py and test_mirror_views.py look at it in a browser; this, at its text."""
    text = page().body.decode()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"):
        assert way not in text
    policy = page().headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
