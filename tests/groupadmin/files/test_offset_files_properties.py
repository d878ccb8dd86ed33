"""Whatever is written is read back the same; whatever is read raises nothing but FileUnclear; large files are quick."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groupadmin.files.model import FileUnclear, KafkaState, OffsetsFile, SavedRow, ZnodeState
from groupadmin.files.read import read_offsets
from groupadmin.files.write import write_offsets
from kafkawire.model import BrokerPartition

FOLDER = Path(__file__).parents[2] / "vectors" / "offsetfiles"
TEXTS = [path.read_bytes().decode() for path in sorted(FOLDER.iterdir()) if path.suffix in (".txt", ".csv", ".json")]
MANY = 100_000

offsets = st.integers(0, (1 << 63) - 1) | st.integers(0, 3)
partitions = st.integers(0, (1 << 31) - 1) | st.integers(0, 3)
broker_partitions = st.builds(BrokerPartition, st.integers(0, 99), st.integers(0, 99))
topics = st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True)
anything = st.text(min_size=1, max_size=40)
path_parts = st.from_regex(r"[^/:\r\n]{1,30}", fullmatch=True)
times = st.none() | st.integers(-(1 << 50), 1 << 50)
numbers = st.none() | st.integers(-1, (1 << 63) - 1)
states = st.none() | st.builds(ZnodeState, st.none() | offsets, numbers, numbers, times)
kafka_states = st.none() | st.builds(KafkaState, st.none() | offsets, st.none() | st.text(max_size=10))
SLOW = settings(max_examples=60, deadline=None)


def distinct(rows: st.SearchStrategy[SavedRow]) -> st.SearchStrategy[list[SavedRow]]:
    return st.lists(rows, min_size=1, max_size=8, unique_by=lambda row: (row.group, row.topic, row.partition))


ours = st.builds(
    SavedRow,
    st.none() | anything,
    topics,
    partitions | broker_partitions,
    st.none() | offsets,
    metadata=st.none() | st.text(max_size=10),
    zookeeper=states,
    kafka=kafka_states,
    log_start=st.none() | offsets,
    log_end=st.none() | offsets,
)


@SLOW
@given(distinct(ours), st.none() | anything, times, st.sampled_from([None, "zookeeper", "kafka", "dual"]))
def test_our_json_gives_back_every_value(rows, cluster, exported_at_ms, source):
    file = OffsetsFile("json", tuple(rows), warnings=(), cluster=cluster, exported_at_ms=exported_at_ms, source=source)
    assert read_offsets(write_offsets(file, "json")) == file


@SLOW
@given(distinct(st.builds(SavedRow, anything, topics, partitions, offsets)))
@example([SavedRow("#comment", "t", 0, 0), SavedRow("Error: x", "t", 0, 0)])
@example([SavedRow("[x]", "t", 0, 0), SavedRow('{"a":', "t", 0, 0)])
@example([SavedRow("a\r\nb", "t", 0, 0), SavedRow('"', "t", 0, 0)])
@example([SavedRow("topic", "partition", 0, 0), SavedRow("2015-06-01 12:00:00", "t", 0, 0)])
def test_csv_gives_back_groups_of_any_name(rows):
    several = len({row.group for row in rows}) > 1
    expected = tuple(row if several else SavedRow(None, row.topic, row.partition, row.position) for row in rows)
    read = read_offsets(write_offsets(OffsetsFile("json", rows), "csv"))
    assert (read.kind, read.rows, read.warnings) == ("csv", expected, ())


def printable(text: str) -> str:
    return "".join(each if each.isprintable() else "x" for each in text)


@SLOW
@given(distinct(st.builds(SavedRow, path_parts, path_parts.map(printable), partitions | broker_partitions, offsets)))
def test_lines_of_an_export_give_back_every_row(rows):
    read = read_offsets(write_offsets(OffsetsFile("json", rows), "zk-export"))
    assert (read.kind, read.rows, read.warnings) == ("zk-export", tuple(rows), ())


@st.composite
def torn(draw: st.DrawFn) -> str:
    """The text of a tool with pieces of others in it, and pieces of its own missing."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        other = draw(st.sampled_from(TEXTS))
        begin = draw(st.integers(0, len(other)))
        piece = draw(
            st.sampled_from(["", '"', "{", "]", "\n", "\r", ",", ":", "-1", "null", "&a", "\x00", "\ud800", "9" * 30])
        )
        text = (
            text[:at] + piece + other[begin : begin + draw(st.integers(0, 30))] + text[at + draw(st.integers(0, 20)) :]
        )
    return text


@settings(max_examples=200, deadline=None)
@given(torn() | st.text(), st.booleans())
@example("[" * 100_000, False)
@example('{"a":' * 100_000, False)
@example('{"groupid": "g", "offsets": {"t": {"0":' + "9" * 5000 + "}}}", False)
@example("topics: \ud800", False)
@example('"' * 200_001, False)
def test_any_text_is_read_or_unclear_and_never_a_negative_position(text, zero_means_missing):
    outcome = read_or_unclear(text, zero_means_missing)
    if isinstance(outcome, FileUnclear):
        assert outcome.line is None or 1 <= outcome.line <= text.count("\n") + 1
        return
    assert all(row.position is None or row.position >= 0 for row in outcome.rows)
    assert len({(row.group, row.topic, row.partition) for row in outcome.rows}) == len(outcome.rows)


def read_or_unclear(text: str, zero_means_missing: bool) -> OffsetsFile | FileUnclear:
    try:
        return read_offsets(text, zero_means_missing)
    except FileUnclear as unclear:
        return unclear


def large(kind: str) -> str:
    rows = [SavedRow(f"g{i // 1000}", f"topic-{i % 1000 // 10}", i % 10, i, log_end=i) for i in range(MANY)]
    return write_offsets(OffsetsFile("json", rows), kind)  # type: ignore[arg-type]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_hundred_thousand_rows_take_about_a_second_of_work(kind: str):
    text = large(kind)
    began = time.process_time()
    assert len(read_offsets(text).rows) == MANY
    assert time.process_time() - began < 10  # measured 1 to 2.4 on a busy machine; a square of the rows takes minutes
