"""None is never 0, nothing is guessed, and an unclear file is refused with the line and what helps."""

from __future__ import annotations

import pytest

from groupadmin.files.model import FileUnclear, KafkaState, SavedRow, ZnodeState
from groupadmin.files.read import read_offsets
from kafkawire.model import BrokerPartition

OURS = '{"format": "zkconsumer.offsets/1", "source": "%s", "group": "g",\n"partitions": [\n%s\n]}'


def positions(text: str, **options: object) -> list[tuple[str | None, str, str, int | None]]:
    file = read_offsets(text, **options)  # type: ignore[arg-type]
    return [(row.group, row.topic, str(row.partition), row.position) for row in file.rows]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", None, "the file is empty"),
        ("\n\r\n", None, "the file is empty"),
        ("Error: Consumer group 'g' does not exist.\n", None, "the file has no rows; it begins with"),
        (
            "TOPIC PARTITION CURRENT-OFFSET LAG\nt 0 5 0\n",
            2,
            "is not a row of any known form; known are our JSON, lines ",
        ),
        ("topic,partition,offset\nt,0,5\n", 1, "'partition' is not a partition"),
        ("hello world", 1, "'hello world' is not a row of any known form; known are our JSON, lines"),
        ("orders 0 5\norders 1 6\n", 1, "'orders 0 5' is not a row of any known form"),
        ("orders,0,12\norders,1,12x\n", 2, "offset '12x' is not a number"),
        ("orders,0,12\norders,1,\n", 2, "offset '' is not a number"),
        ("orders,0,-2\n", 1, "offset -2 is negative; offsets begin at 0"),
        ("orders,0,9223372036854775808\n", 1, "is larger than any offset"),
        ("orders,-1,5\n", 1, "'-1' is not a partition"),
        ("orders,2147483648,5\n", 1, "is not a partition"),
        ("orders,\N{SUPERSCRIPT TWO},5\n", 1, "is not a partition"),
        ("orders,0,\N{ARABIC-INDIC DIGIT FIVE}\n", 1, "is not a number"),
        ("orders,0,1e3\n", 1, "is not a number"),
        ("a/b,0,5\n", 1, "'a/b' is not a topic"),
        ("orders,0,5\ng,orders,1,5\n", 2, "has 4 columns instead of 3"),
        ("orders,0\n", 1, "is not a row of any known form"),
        ('"orders,0,5\n', 1, "this is not CSV"),
        ("orders,0,5\norders,1,6\norders,0,7\n", 3, "orders/0 is given twice here, now with 7; line 1 says 5"),
        ("g,orders,0,5\ng,orders,0,-\n", 2, "of group 'g' is given twice here, now with none; line 1 says 5"),
        ("/consumers/g/offsets/t/0:5\n/consumers/g/offsets/t/x:5\n", 2, "'x' is not a partition"),
        ("/consumers/g/offsets/t/0:5\n/consumers/g/owners/t/0:me\n", 2, "is not an offset; a line is /consumers/GROUP"),
        ("0:5,1:6", 1, "is not a row of any known form"),
        (
            '{"0": 5}',
            1,
            "this JSON is of no known form; known are zkconsumer.offsets/1 and the offset_save of kafka-utils",
        ),
        ("g,orders,0,5\ng,orders,1,\n", 2, "offset '' is not a number"),
        ('{"groupid": "g",\n "offsets": {"t": {"0": 5,\n "x": 6}}}', 3, "'x' is not a partition"),
        ('{"groupid": "g",\n "offsets": {"t": {"0": 5,\n "1": true}}}', 3, "offset True is not a number"),
        ('{"groupid": "g",\n "offsets": {"t": {"0": 5,\n "1": 1.0}}}', 3, "offset 1.0 is not a number"),
        (
            '{"groupid": "g",\n "offsets": {"t": {"0": 5,\n "0": 6}}}',
            3,
            "'0' is given twice here with different values",
        ),
        ('{"groupid": "g",\n "offsets": {"t": [5]}}', 2, "a list is given where an object is expected"),
        ('{"groupid": "g",\n "offsets": {"t": {"0": {"offset": 5}}}}', 2, "offset a map is not a number"),
        ('{"groupid": 5, "offsets": {}}', 1, "5 is not a group"),
        ('{"a": 1}', 1, "this JSON is of no known form; known are"),
        ('{"topic": "t",\n"partition": 0', 2, "this is not JSON"),
        (r'{"groupid": "\ud800g", "offsets": {}}', 1, r"this JSON cannot be read: it has half a character, '\ud800'"),
        ("[5]", 1, "this JSON is of no known form"),
        ('{"topic": "t", "partition": 0, "offset": 1}\n{"topic": "t"}', 1, "of no known form"),
        ("5:", 1, "is not a row of any known form"),
        ("group:\n  name: g\n", 1, "is not a row of any known form"),
        ('{"format": "zkconsumer.offsets/2"}', 1, "this release reads zkconsumer.offsets/1"),
        (
            '{"format": "zkconsumer.offsets/1",\n"groups": "g"}',
            2,
            "'groups' is not a key of zkconsumer.offsets/1; known",
        ),
        (OURS % ("kafka", '{"topic": "t", "partition": 0, "postion": 5}'), 3, "'postion' is not a key"),
        (OURS % ("kafka", '{"topic": "t", "partition": 0}'), 3, "the partition has no position; write"),
        (OURS % ("dual", '{"topic": "t", "partition": 0, "kafka": {"offset": 5}}'), 3, "the partition has no position"),
        (OURS % ("kafka", '{"topic": "t", "partition": 0, "position": -1}'), 3, "offset -1 is negative"),
        (OURS % ("kafka", '{"topic": "t", "partition": 0, "zk": {}, "position": 1}'), 3, "is not a state of a store"),
        (OURS % ("disk", ""), 1, "source 'disk' is not a store"),
        (
            OURS % ("kafka", '{"topic": "t", "partition": 0, "position": 1, "zk": {"offset": 1, "mtime": "x"}}'),
            3,
            "time",
        ),
    ],
)
def test_an_unclear_file_names_the_line_and_what_is_wrong(text: str, line: int | None, says: str):
    with pytest.raises(FileUnclear) as refused:
        read_offsets(text)
    assert refused.value.line == line
    assert says in str(refused.value)
    assert refused.value.helps


def test_what_tools_print_beside_their_data_is_left_out_and_told():
    text = (
        "SLF4J: Class path contains multiple SLF4J bindings.\n"
        "[2015-06-01 12:00:00,123] WARN something (kafka.admin)\n"
        "Some tool says this in front of its rows\n"
        "orders,0,5\n"
        "Warning: Consumer group 'g' is rebalancing.\n"
        "# a comment\n"
        "orders,1,6\n"
    )
    file = read_offsets(text)
    assert [row.position for row in file.rows] == [5, 6]
    assert file.warnings == (
        "lines 1, 2, 3, 5: no row of the file, skipped",
        "line 6: a comment (#), skipped",
    )


@pytest.mark.parametrize("front", ["", "WARN: something\n", "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n\n"])
def test_documents_may_have_lines_in_front_and_errors_still_name_the_right_line(front: str):
    assert positions(front + '{"groupid": "G", "offsets": {"T": {"0": 5}}}') == [("G", "T", "0", 5)]
    with pytest.raises(FileUnclear) as refused:
        read_offsets(front + '{"groupid": "G",\n"offsets": {"T": {"0": "x"}}}')
    assert refused.value.line == 2 + front.count("\n")


@pytest.mark.parametrize("group", ["Error:", "Warning: x", "2015-06-01 12:00:00 nightly", "my own group of six words"])
def test_a_row_is_never_taken_for_something_said(group: str):
    assert positions(f"{group},orders,0,5\n") == [(group, "orders", "0", 5)]
    assert positions(f"/consumers/{group}/offsets/orders/0:5\n") == [(group, "orders", "0", 5)]


def test_signs_for_none_are_none_in_every_form():
    assert positions("orders,0,-\norders,1,unknown\n") == [(None, "orders", "0", None), (None, "orders", "1", None)]
    file = read_offsets("orders,0,-1\n")
    assert [row.position for row in file.rows] == [None]
    assert file.warnings == ("line 1: -1 is taken as none; no position is negative",)
    text = '{"groupid": "G", "offsets": {"T": {"0": null, "1": -1}}}'
    assert positions(text) == [("G", "T", "0", None), ("G", "T", "1", None)]


def test_zero_stays_zero_unless_the_caller_says_it_means_missing():
    text = '{"groupid": "G", "offsets": {"T": {"0": 0, "1": 7}}}'
    assert positions(text) == [("G", "T", "0", 0), ("G", "T", "1", 7)]
    assert "kafka-utils also writes" in read_offsets(text).warnings[0]
    missing = read_offsets(text, zero_means_missing=True)
    assert [row.position for row in missing.rows] == [None, 7]
    assert "a position of 0 is taken as none" in " ".join(missing.warnings)


def test_a_row_said_twice_alike_counts_once_and_is_told():
    file = read_offsets("orders,0,5\norders,1,6\norders,0,5\n")
    assert [row.position for row in file.rows] == [5, 6]
    assert file.warnings == ("line 3: repeats an earlier line; it counts once",)
    file = read_offsets('{"groupid": "G", "offsets": {"T": {"0": 5,\n"0": 5}}}')
    assert [row.position for row in file.rows] == [5]
    assert file.warnings == ("line 2: repeats an earlier line; it counts once",)


def test_both_folders_chroots_and_colons_in_names_of_zookeeper_are_read():
    text = "/kafka/consumers/a:b/offset/t/0:5\n/consumers/g/offsets/x:y/3-0: 81920\n"
    assert positions(text) == [("a:b", "t", "0", 5), ("g", "x:y", "3-0", 81920)]
    assert read_offsets(text).rows[1].partition == BrokerPartition(3, 0)


def test_our_json_without_positions_says_them_by_its_source():
    row = '{"topic": "t", "partition": 0, "zk": {"offset": 5}, "kafka": {"offset": %s}}'
    assert positions(OURS % ("zookeeper", row % 9)) == [("g", "t", "0", 5)]
    assert positions(OURS % ("kafka", row % "null")) == [("g", "t", "0", None)]
    assert positions(OURS % ("dual", row % 9)) == [("g", "t", "0", 9)]
    assert positions(OURS % ("dual", row % "null")) == [("g", "t", "0", 5)]


def test_what_each_store_held_is_kept_and_not_looked_at_is_not_none():
    entry = '{"topic": "t", "partition": "3-0", "position": null, "zk": {"offset": null, "version": 2}, "log_end": 4}'
    (row,) = read_offsets(OURS % ("zookeeper", entry)).rows
    assert row == SavedRow("g", "t", BrokerPartition(3, 0), None, zookeeper=ZnodeState(None, version=2), log_end=4)
    (row,) = read_offsets(
        OURS % ("kafka", entry.replace("zk", "kafka").replace("version", "metadata").replace("2", '"m"'))
    ).rows
    assert row.zookeeper is None
    assert row.kafka == KafkaState(None, "m")
