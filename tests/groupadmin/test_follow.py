"""Groups that follow a mirror: what is written at the target, and what is left alone; a map that is read while it
grows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from groupadmin.follow import mapreader
from groupadmin.follow.decisions import Held, followed, record_of, refusal, stale
from groupadmin.follow.mapreader import MapFiles
from groupadmin.translation import Facts, Safe
from kafkawire.cluster.logreader import LogReader
from kafkawire.model import BrokerPartition, Message, TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.mirrored import LONGEST, Fed, Mirrored, mirrored_text, read_mirrored
from zkconsumer.offsetmap.records import Begun, Entry, Reached, Record, gathered
from zkconsumer.offsetmap.text import Header, header_line, line_of
from zkconsumer.offsetmap.topic import Slots, message_of
from zkconsumer.offsets.store import NONE, Unknown

S, T = TopicPartition("t", 0), TopicPartition("t", 1)
OURS = Mirrored("dc1", "billing", 1, 500, 7, 20, 0, (Fed(S, 40, 60, 60),))
WANTED = replace(OURS, at_ms=2, offset=520, version=None)
IN_KAFKA = replace(OURS, version=None)
WRITTEN = ""  # no refusal


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (Held(NONE), WRITTEN),
        (Held(NONE, None, replace(OURS, version=0)), WRITTEN),  # a mirror died between the record and the node
        (Held(500, 7, OURS), WRITTEN),
        (Held(480, 6, OURS), WRITTEN),  # it died between them again
        (Held(700, 7, replace(OURS, offset=700)), WRITTEN),  # the group was set back at the source
        (Held(500, None, IN_KAFKA), WRITTEN),
        (Held(500, 8, OURS), "zookeeper holds 500, which this mirror did not write"),
        (Held(480, 7, OURS), "zookeeper holds 480, which this mirror did not write"),
        (Held(480, 5, OURS), "zookeeper holds 480, which this mirror did not write"),
        (Held(500, 7, None), "zookeeper holds 500, which this mirror did not write"),
        (Held(510, None, IN_KAFKA), "zookeeper holds 510, which this mirror did not write"),
        (Held(Unknown("no answer")), "zookeeper: no answer"),
        (Held(500, 7, replace(OURS, source="dc2")), "which the mirror wrote for group billing of source dc2"),
        (Held(500, 7, replace(OURS, group="old")), "which the mirror wrote for group old of source dc1"),
    ],
)
def test_an_offset_is_written_over_nothing_but_what_the_mirror_itself_wrote(held: Held, why: str) -> None:
    said = refusal(WANTED, {"zookeeper": held})
    assert bool(said) == bool(why)
    assert why in said


def test_what_a_store_holds_already_is_not_written_again() -> None:
    same = replace(OURS, at_ms=9)
    assert stale(same, {"kafka": Held(500, None, OURS), "zookeeper": Held(500, 7, OURS)}) == []
    assert stale(same, {"kafka": Held(NONE), "zookeeper": Held(500, 7, OURS)}) == ["kafka"]
    assert stale(replace(same, repeats=21), {"zookeeper": Held(500, 7, OURS)}) == ["zookeeper"]


@pytest.mark.parametrize(
    "record",
    [
        OURS,
        replace(OURS, version=None, missing=None, read=(Fed(S, None, None, None),)),
        replace(OURS, read=(Fed(TopicPartition("t", BrokerPartition(1, 0)), 5, 6, 7),)),
    ],
)
def test_a_record_is_read_as_it_was_written(record: Mirrored) -> None:
    assert read_mirrored("here", mirrored_text(record)) == record


def test_a_record_that_brokers_would_not_take_has_no_rows() -> None:
    many = replace(OURS, read=tuple(Fed(TopicPartition("a.long.name.of.a.topic", n), n, n, n) for n in range(500)))
    assert len(mirrored_text(many)) <= LONGEST
    assert read_mirrored("here", mirrored_text(many)) == replace(many, read=())


@pytest.mark.parametrize("data", [b"", b"57000", b"{}", b'{"mirrored":"2"}', b"topic-czxid=1 topic-ctime-ms=2"])
def test_what_somebody_else_wrote_is_no_record(data: bytes) -> None:
    with pytest.raises(ConsumerError, match="here holds"):
        read_mirrored("here", data)


MAP: list[Record] = [Begun(S, 0, 1, True), Entry(S, T, 0, 100, 100), Reached(S, 50), Entry(S, T, 50, 150, 150)]


def test_the_record_says_what_the_group_had_read_and_what_the_target_did_not_have() -> None:
    offsets = gathered(MAP)
    facts = Facts({T: (0, 200)}, {S: (0, 80)}, {S: 40})
    found = record_of("dc1", "billing", 5, Safe(100, 40), [S], offsets=offsets, facts=facts)
    assert found == Mirrored("dc1", "billing", 5, 100, None, 40, 30, (Fed(S, 40, 80, 50),))
    unknown = record_of("dc1", "b", 5, Safe(100, 40), [S], offsets=offsets, facts=replace(facts, source={}))
    assert unknown.missing is None


def test_a_group_is_shown_with_the_worst_of_its_partitions() -> None:
    rows = [replace(OURS, at_ms=n, missing=missing) for n, missing in ((3, 2), (1, None))]
    assert followed("g", "g", rows[:1], "", "").state == "following"
    both = followed("g", "g", rows, "not copied yet", "")
    assert (both.state, both.reason, both.repeats, both.missing, both.at_ms) == (
        "waiting",
        "not copied yet",
        40,
        None,
        1,
    )
    assert followed("g", "g", [], "not copied yet", "has members").state == "left alone"


def test_a_map_that_grows_is_read_on_and_one_that_was_cut_is_read_again(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    reader = MapFiles(lambda: (path for path in files if path.exists()))
    assert not reader.read().periods
    lines = [header_line(Header("dc1", "mirror")), *map(line_of, MAP)]
    for count in range(1, len(lines) + 1):
        whole = "".join(lines[:count])
        files[0].write_text(whole + '["at", "t", 0')  # a line that is being written is not read yet
        assert reader.read() == gathered(MAP[: count - 1])
        files[0].write_text(whole)
    other = Begun(TopicPartition("t", 5), 0, 1, True)
    files[1].write_text("".join([lines[0], line_of(other)]))
    assert set(reader.read().periods) == {S, other.source}
    shorter = [MAP[0], MAP[3]]
    new = tmp_path / "new"
    new.write_text("".join([lines[0], *map(line_of, shorter)]))
    new.replace(files[0])
    assert reader.read().periods[S] == gathered(shorter).periods[S]


def test_records_of_a_topic_that_were_read_ahead_of_an_error_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots()
    log: list[Message] = []

    def write(record: Record) -> None:
        log.append(Message("map", 0, len(log), *message_of(record, slots), None, None, None, len(log) + 1))

    for record in MAP:
        write(record)
    breaks_at = [2]

    def messages(reader: object, tp: TopicPartition, start: int, pause: object) -> Iterator[Message]:
        for message in log[start:]:
            if breaks_at and message.offset == breaks_at[0]:
                del breaks_at[0]
                raise ConsumerError("no leader")
            yield message

    monkeypatch.setattr(mapreader, "messages_from", messages)
    monkeypatch.setattr(LogReader, "begin", lambda self, tp: 0)
    monkeypatch.setattr(LogReader, "end", lambda self, tp: len(log))
    reader = mapreader.MapTopic(None, "map")  # type: ignore[arg-type]
    with pytest.raises(ConsumerError, match="no leader"):
        reader.read()
    assert reader.read() == gathered(MAP)
    more = Reached(S, 60)
    write(more)
    assert reader.read() == gathered([*MAP, more])
