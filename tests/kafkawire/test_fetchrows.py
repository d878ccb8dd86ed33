"""Fetch rows: encoded as the schema has them, and passed over in replies that say the same again."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkawire.dialects import dialect
from kafkawire.errors import LocalError
from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.protocol import apis, requests07, requests08
from kafkawire.protocol.fetchrows import QuietRows, encode_rows, joined
from kafkawire.protocol.request import FetchedPartition

D08 = dialect("0.8.2.2")
WANTED = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "bb", "ö"]), st.integers(0, 9)),
    st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 20)),
    min_size=1,
    max_size=12,
)


class Speaks:
    """A dialect of one version of Fetch."""

    release = "test"

    def __init__(self, version: int) -> None:
        self.version = version

    def speaks(self, api_key: int, store: str = "kafka") -> int:
        return self.version


def by_schema(version: int, wanted: Mapping[TopicPartition, tuple[int, int]], committed: bool) -> bytes:
    """The same request, slow and obvious."""
    topics: dict[str, list[dict[str, int]]] = {}
    for tp, (at, size) in wanted.items():
        row = {"partition": tp.partition, "fetch_offset": at, "max_bytes": size}
        row |= {"log_start_offset": -1, "current_leader_epoch": -1}
        topics.setdefault(tp.topic, []).append(row)
    fields = {
        "replica_id": -1,
        "max_wait_ms": 100,
        "min_bytes": 1,
        "max_bytes": sum(size for _, size in wanted.values()),
        "isolation_level": int(committed),
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": name, "partitions": rows} for name, rows in topics.items()],
        "forgotten_topics": [],
        "rack_id": "",
    }
    known = {name: value for name, value in fields.items() if name in _names(version)}
    for topic in known["topics"]:
        for row in topic["partitions"]:
            for name, since in (("log_start_offset", 5), ("current_leader_epoch", 9)):
                if version < since:
                    del row[name]
    return apis.FETCH.encode_request(version, known)


def _names(version: int) -> set[str]:
    since = {"max_bytes": 3, "isolation_level": 4, "session_id": 7, "session_epoch": 7}
    since |= {"forgotten_topics": 7, "rack_id": 11}
    always = {"replica_id", "max_wait_ms", "min_bytes", "topics"}
    return always | {name for name, first in since.items() if version >= first}


@settings(max_examples=40)
@given(st.integers(0, requests08.LEADERS_FETCH), WANTED, st.booleans())
def test_a_fetch_has_the_bytes_of_its_schema(version: int, wanted, committed: bool):
    asked = [(tp, at, size) for tp, (at, size) in wanted.items()]
    request = requests08.fetch(Speaks(version), 100, 1, asked, committed=committed)
    assert b"".join(request.buffers) == by_schema(version, wanted, committed)


@settings(max_examples=40)
@given(st.integers(0, requests08.LEADERS_FETCH), WANTED)
def test_rows_that_are_encoded_once_stand_behind_the_others(version: int, wanted):
    asked = [(tp, at, size) for tp, (at, size) in wanted.items()]
    rows = encode_rows(version, asked)
    other = (TopicPartition("other", 0), 7, 8)
    request = requests08.fetch(Speaks(version), 100, 1, [other], rows=[rows])
    assert b"".join(request.buffers) == by_schema(version, {other[0]: (7, 8)} | wanted, True)
    alone = requests08.fetch(Speaks(version), 100, 1, [], rows=[rows])
    assert b"".join(alone.buffers) == by_schema(version, wanted, True)


def test_rows_name_what_cannot_be_asked_for():
    with pytest.raises(LocalError, match="t/3 twice"):
        encode_rows(0, [(TopicPartition("t", 3), 0, 1), (TopicPartition("t", 3), 5, 1)])
    with pytest.raises(LocalError, match="0-1 is a partition of"):
        encode_rows(0, [(TopicPartition("t", BrokerPartition(0, 1)), 0, 1)])
    with pytest.raises(LocalError, match="does not wait for data"):
        requests07.fetch(dialect("0.7.2"), 0, 0, [], rows=[encode_rows(0, [])])


@settings(max_examples=20)
@given(st.integers(0, requests08.LEADERS_FETCH), WANTED)
def test_rows_by_topic_are_joined_to_those_of_all(version: int, wanted):
    asked = sorted((tp, at, size) for tp, (at, size) in wanted.items())
    topics = sorted({tp.topic for tp, _, _ in asked})
    parts = [encode_rows(version, [row for row in asked if row[0].topic == topic]) for topic in topics]
    assert joined(parts) == encode_rows(version, asked)


# ---- replies --------------------------------------------------------------------------------------------------------

Logs = dict[str, dict[int, tuple[int, int, bytes]]]  # error, high watermark, set by partition


def reply(version: int, logs: Logs) -> bytes:
    """The body of a Fetch reply."""
    out = b"" if version == 0 else struct.pack(">i", 0)
    out += struct.pack(">hi", 0, 0) if version >= 7 else b""
    out += struct.pack(">i", len(logs))
    for topic, partitions in logs.items():
        name = topic.encode()
        out += struct.pack(">h", len(name)) + name + struct.pack(">i", len(partitions))
        for number, (error, end, data) in partitions.items():
            out += struct.pack(">ihq", number, error, end)
            out += struct.pack(">q", end) if version >= 4 else b""
            out += struct.pack(">q", 0) if version >= 5 else b""
            out += struct.pack(">i", -1) if version >= 4 else b""
            out += struct.pack(">i", -1) if version >= 11 else b""
            out += struct.pack(">i", len(data)) + data
    return out


def parsed(version: int, body: bytes, quiet: QuietRows | None, cut: int) -> list[FetchedPartition]:
    """What a parser makes of it that gets `cut` bytes at a time."""
    parser = requests08.FetchReplyParser(version, len(body), quiet=quiet)
    for at in range(0, len(body), cut):
        assert parser.feed(memoryview(body)[at : at + cut]) == len(body[at : at + cut])
    assert parser.complete
    return parser.result()


LOGS = st.dictionaries(
    st.sampled_from(["a", "bb", "ö", "dddd"]),
    st.dictionaries(
        st.integers(0, 3),
        st.tuples(st.sampled_from([0, 0, 0, 6]), st.integers(0, 2), st.sampled_from([b"", b"", b"set"])),
        min_size=1,
    ),
)


@example(
    version=0,
    cut=64,
    replies=[{"t": {1: (0, 1, b"")}}, {"t": {0: (0, 0, b""), 1: (0, 0, b"")}}, {"t": {1: (0, 1, b"")}}],
)
@settings(max_examples=40)
@given(st.sampled_from([0, 1, 4, 5, 7, 11]), st.lists(LOGS, min_size=1, max_size=4), st.sampled_from([1, 7, 64, 9999]))
def test_what_is_passed_over_is_what_the_replies_before_said_without_messages(version: int, replies, cut: int):
    quiet, before = QuietRows(), {}
    for logs in replies:
        body = reply(version, logs)
        everything = parsed(version, body, None, 9999)
        found = parsed(version, body, quiet, cut)
        passed = quiet.passed
        assert found == [each for each in everything if each.tp.topic not in passed]
        for each in everything:
            if each.tp.topic in passed:
                assert not each.error
                assert not len(each.buffer)
                assert before[each.tp] == each
        before |= {each.tp: each for each in everything}


@pytest.mark.parametrize("cut", [1, 100, 1 << 20])  # a broker sends the rows of a partition or two at a time
def test_a_reply_that_says_the_same_again_costs_no_row(cut: int):
    logs: Logs = {f"topic{n}": dict.fromkeys(range(10), (0, 5, b"")) for n in range(200)}
    quiet = QuietRows()
    assert len(parsed(0, reply(0, logs), quiet, cut)) == 2000
    assert parsed(0, reply(0, logs), quiet, cut) == []
    assert len(quiet.passed) == len(quiet) == 200
    logs["topic7"][3] = (0, 6, b"set")
    found = parsed(0, reply(0, logs), quiet, cut)
    assert [each.tp.partition for each in found if len(each.buffer)] == [3]
    assert len(found) == 10  # of its topic alone
    quiet.clear()
    assert len(parsed(0, reply(0, logs), quiet, cut)) == 2000
