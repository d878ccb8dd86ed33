"""What is written is what the JVM's tools write; what a form cannot say is refused or named, never bent."""

from __future__ import annotations

import pytest

from groupadmin.files.model import OffsetsFile, SavedRow
from groupadmin.files.write import unsayable, write_offsets
from kafkawire.model import BrokerPartition
from zkconsumer.errors import ConsumerError


def file(*rows: SavedRow) -> OffsetsFile:
    return OffsetsFile("json", rows)


@pytest.mark.parametrize(
    ("group", "written"),  # as jackson-dataformat-csv 2.10.5 and 2.16.2 wrote them
    [
        ("g", "g"),
        ("a b", '"a b"'),
        ("a-b", "a-b"),
        ("a/b", "a/b"),
        ("a+b", '"a+b"'),
        ("#x", '"#x"'),
        ("x,y", '"x,y"'),
        ('q"q', '"q""q"'),
        ("l\nm", '"l\nm"'),
        ("a\\b", '"a\\b"'),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{LATIN SMALL LETTER E WITH ACUTE}"),
        ("1" * 24, "1" * 24),
        ("1" * 25, f'"{"1" * 25}"'),
        ("\N{SNAKE}" * 12, "\N{SNAKE}" * 12),
        ("\N{SNAKE}" * 13, f'"{chr(0x1F40D) * 13}"'),
    ],
)
def test_csv_quotes_what_the_jvm_quotes(group: str, written: str):
    rows = SavedRow(group, "t", 0, 5), SavedRow("other", "t", 0, 6)
    assert write_offsets(file(*rows), "csv") == f"{written},t,0,5\nother,t,0,6\n\n"


def test_csv_of_one_group_names_no_group():
    assert write_offsets(file(SavedRow("g", "t", 0, 5)), "csv") == "t,0,5\n\n"
    assert write_offsets(file(SavedRow(None, "t", 0, 5)), "csv") == "t,0,5\n\n"


@pytest.mark.parametrize(
    ("rows", "kind", "says"),
    [
        ([SavedRow("g", "t", 0, 5), SavedRow(None, "t", 0, 5)], "csv", "one CSV cannot have rows"),
        ([SavedRow("g", "t", BrokerPartition(0, 1), 5)], "csv", "t/0-1: kafka-consumer-groups knows no partitions of"),
        ([SavedRow(None, "t", 0, 5)], "zk-export", "names a group in each line"),
    ],
)
def test_what_a_form_cannot_say_is_refused(rows: list[SavedRow], kind: str, says: str):
    with pytest.raises(ConsumerError, match=says):
        write_offsets(file(*rows), kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a:b", "a\nb", "a/b"])
def test_a_name_that_importzkoffsets_would_cut_is_left_out_of_its_form_alone(name: str):
    """One group of such a name made every export in that form empty."""
    rows = file(SavedRow(name, "t", 0, 5), SavedRow("g", "t", 0, 7), SavedRow("g", name, 0, 9))
    assert write_offsets(rows, "zk-export") == "/consumers/g/offsets/t/0:7\n"
    assert unsayable(rows, "zk-export") == [rows.rows[0], rows.rows[2]]
    assert unsayable(rows, "json") == unsayable(rows, "csv") == []


@pytest.mark.parametrize("kind", ["json", "csv", "zk-export"])
def test_no_file_says_two_things_or_a_negative_position(kind: str):
    with pytest.raises(ValueError, match="twice"):
        write_offsets(file(SavedRow("g", "t", 0, 5), SavedRow("g", "t", 0, 5)), kind)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="t/0 has the position -1; none is None"):
        write_offsets(file(SavedRow("g", "t", 0, -1)), kind)  # type: ignore[arg-type]


def test_an_unknown_kind_is_the_callers_mistake():
    with pytest.raises(ValueError, match="not as 'yaml'"):
        write_offsets(file(), "yaml")  # type: ignore[arg-type]


def test_our_json_has_one_partition_a_line():
    text = write_offsets(file(*(SavedRow("g", "t", p, p) for p in range(3))), "json")
    assert [line.count('"topic"') for line in text.splitlines()] == [0, 0, 1, 1, 1, 0]
