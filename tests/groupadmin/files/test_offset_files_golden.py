"""A file of every form that tools write is told apart, read as expected.jsonl says, and survives our own forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groupadmin.files.model import OffsetsFile, SavedRow
from groupadmin.files.read import read_offsets
from groupadmin.files.write import unsayable, write_offsets

FOLDER = Path(__file__).parents[2] / "vectors" / "offsetfiles"
EXPECTED = FOLDER / "expected.jsonl"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.name not in ("README.md", EXPECTED.name))


def read(name: str) -> OffsetsFile:
    return read_offsets((FOLDER / name).read_bytes().decode())


def row(row: SavedRow) -> list[object]:
    return [row.group, row.topic, str(row.partition), row.position, row.log_start, row.log_end]


def expectation(name: str) -> dict[str, object]:
    file = read(name)
    return {"file": name, "kind": file.kind, "rows": [row(r) for r in file.rows], "warnings": list(file.warnings)}


def expected() -> dict[str, dict[str, object]]:
    found = [json.loads(line) for line in EXPECTED.read_text(encoding="utf-8").splitlines()]
    return {entry["file"]: entry for entry in found}


def test_expectations_are_rewritten_on_request(pytestconfig: pytest.Config):
    if pytestconfig.getoption("--rewrite"):
        EXPECTED.write_text("".join(f"{json.dumps(expectation(name))}\n" for name in FILES), encoding="utf-8")
    assert sorted(expected()) == FILES


@pytest.mark.parametrize("name", FILES)
def test_the_file_of_a_tool_is_read_as_expected(name: str):
    assert expectation(name) == expected()[name]


@pytest.mark.parametrize("name", FILES)
def test_windows_line_ends_a_mark_and_empty_lines_change_nothing(name: str):
    text = (FOLDER / name).read_bytes().decode().replace("\r\n", "\n")
    changed = "\ufeff" + text.replace("\n", "\r\n") + "\r\n\r\n"
    assert [row(r) for r in read_offsets(changed).rows] == expected()[name]["rows"]


@pytest.mark.parametrize("name", FILES)
def test_every_file_survives_our_json(name: str):
    file = read(name)
    again = read_offsets(write_offsets(file, "json"))
    assert (again.kind, again.rows) == ("json", file.rows)
    assert (again.cluster, again.exported_at_ms, again.source) == (file.cluster, file.exported_at_ms, file.source)


@pytest.mark.parametrize("name", ["ours.json", "ours-groups.json"])
def test_our_own_file_is_written_back_byte_for_byte(name: str):
    assert write_offsets(read(name), "json") == (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["csv-one-2.8.2.csv", "csv-many-3.9.1.csv"])
def test_csv_is_written_byte_for_byte_as_kafka_consumer_groups_does(name: str):
    assert write_offsets(read(name), "csv").encode() == (FOLDER / name).read_bytes()


def test_an_export_of_zookeeper_is_written_byte_for_byte_as_the_jvm_does():
    name = "zk-export-0.8.2.2.txt"
    assert write_offsets(read(name), "zk-export").encode() == (FOLDER / name).read_bytes()


def test_a_form_that_cannot_say_none_leaves_those_rows_out_and_names_them():
    long = "a-topic-whose-name-is-longer-than-24"
    file = read_offsets(f"billing,{long},0,12345\nbilling,orders,0,3\nbilling,orders,1,0\nbilling,orders,2,unknown\n")
    assert write_offsets(file, "csv") == f'"{long}",0,12345\norders,0,3\norders,1,0\n\n'
    lines = [f"{long}/0:12345", "orders/0:3", "orders/1:0"]
    assert write_offsets(file, "zk-export") == "".join(f"/consumers/billing/offsets/{line}\n" for line in lines)
    assert [str(row.tp) for row in unsayable(file, "csv")] == ["orders/2"]
    assert unsayable(file, "json") == []
