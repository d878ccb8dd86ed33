"""Pure parts of a backfill: plans and marks as texts, sets cut to a range, tails compared, logs that come to rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkawire.dialects import dialect
from kafkawire.errors import SetTooLarge
from kafkawire.formats.v01 import columns as v01
from kafkawire.formats.v2 import columns as v2
from kafkawire.headers import packed
from kafkawire.model import MessageSet, TopicPartition
from sparkpipeline.backfill import stableends as module
from sparkpipeline.backfill.backfilljob import Backfill, bound
from sparkpipeline.backfill.backfillplan import (
    BackfillPlan,
    Chunk,
    Copied,
    Done,
    Lane,
    Request,
    check,
    differences,
    unconfirmed,
)
from sparkpipeline.backfill.chunkcopy import Reached, compare
from sparkpipeline.backfill.folder import BackfillFolder
from sparkpipeline.backfill.parts import indexed, parts
from sparkpipeline.backfill.stableends import End, stable_ends
from sparkpipeline.errors import CorruptData, LedgerDamaged, OptionRefused, Refused
from sparkpipeline.ledger.local import LocalFiles
from sparkpipeline.ranges import OffsetRange
from tests.cases import each

REQUEST = Request(
    source={"kafka.bootstrap.servers": "old:9092", "subscribe": "orders", "zookeeper.connect": "zk:2181",
     "zookeeper.auth": "digest:me:secret"},
    target={"kafka.bootstrap.servers": "new:9092"}, group="mirror",
)  # fmt: skip
LANES = (Lane(0, "orders", 0, 10, 35, 100), Lane(1, "orders", 1, 0, 0, 0), Lane(2, "orders", 2, 5, 8, 7))
PLAN = BackfillPlan(
    created_ms=1_400_000_000_000,
    request=REQUEST,
    source_release="0.8.2",
    target_release="0.10.0",
    lanes=LANES,
    version="1.0",
)


# plans and marks


def test_a_plan_reads_as_it_was_written_but_for_secrets():
    text = PLAN.text()
    assert "secret" not in text
    assert BackfillPlan.of(text, "plan.json") == replace(PLAN, request=REQUEST.without_secrets())
    for damaged in ("", "[]", '{"format": 1}', text.replace('"format": 1', '"format": 9')):
        with pytest.raises(LedgerDamaged, match=r"file=plan\.json"):
            BackfillPlan.of(damaged, "plan.json")


def test_a_secret_is_one_in_any_case():
    shouted = replace(REQUEST, source={"ZooKeeper.Auth": "digest:me:secret"})
    assert shouted.without_secrets().source == {}
    assert "secret" not in replace(PLAN, request=shouted).text()


def test_the_same_request_again_differs_in_nothing_and_another_is_told():
    planned = BackfillPlan.of(PLAN.text(), "").request
    assert differences(planned, REQUEST) == []
    [sentence] = differences(planned, replace(REQUEST, chunk=7))
    assert sentence == "chunk 7 is requested, 500000 was planned"


SECRET = {"kafka.sasl.password": "hush"}
LOGIN = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.hosts": "old"}


@each(
    "written",
    [
        {"kafka.bootstrap.servers": "evil:9092"},
        {"kafka.metadata.broker.list": "evil:9092"},
        {"Kafka.Bootstrap.Servers": "evil:9092"},
        {"zookeeper.connect": "evil:2181"},
        {"kafka.broker.list": "0:evil:9092"},
        {"kafka.security.protocol": "SASL_PLAINTEXT"},
        {"kafka.ssl.ca.location": "/folder/evil.pem"},
        {"kafka.ssl.endpoint.identification.algorithm": "none"},
        {"kafka.sasl.hosts": "evil"},
        {"zookeeper.ssl.verify": "false"},
    ],
)
@each("side", ["source", "target"])
def test_a_secret_is_told_to_nobody_whom_only_the_folder_names(side: str, written: dict[str, str]) -> None:
    reached = {"kafka.bootstrap.servers": "old:9092", **LOGIN}
    both = Request(source={**reached, "subscribe": "t"}, target=reached)
    changed = replace(both, **{side: {**getattr(both, side), **written}})
    for given in (SECRET, {"Kafka.Sasl.OAuthBearer.Callback": "module:name"}):
        nothing = Request(source={}, target={})
        assert unconfirmed(both, replace(nothing, **{side: {**reached, **given}})) == []
        assert unconfirmed(changed, replace(nothing, **{side: {**reached, **given}}))
        assert unconfirmed(both, replace(nothing, **{side: given}))
    assert unconfirmed(changed, nothing) == []  # the folder alone: there is nothing to tell


def test_a_backfill_is_not_opened_where_a_secret_would_be_told_to_whom_the_folder_names(tmp_path: Path) -> None:
    BackfillFolder(LocalFiles(), str(tmp_path / "b")).put_plan(PLAN)
    nothing = Request(source={}, target={})
    with pytest.raises(Refused, match='servers of the target: nothing in the command, "new:9092" in'):
        Backfill.open(LocalFiles(), str(tmp_path / "b"), None, replace(nothing, target=SECRET))
    with pytest.raises(Refused, match='target: "other:9092" in the command, "new:9092" in the plan'):
        Backfill.open(
            LocalFiles(), str(tmp_path / "b"), None, replace(nothing, target={"kafka.bootstrap.servers": "other:9092"})
        )


def test_a_hand_over_needs_the_zookeeper_that_shows_who_is_at_work():
    with pytest.raises(OptionRefused, match="--source-zookeeper"):
        check(replace(REQUEST, source={"kafka.bootstrap.servers": "old:9092"}))


def test_what_is_missing_is_told_by_the_options_of_the_command():
    check(REQUEST)
    brokers = {"kafka.bootstrap.servers": "old:9092"}
    for source, says in (
        (brokers, "option=--topics: give exactly one of --topics, .*: none is given"),
        ({**brokers, "subscribe": "a", "Assign": "{}"}, "option=--topics: .*: several are given"),
        ({"subscribe": "a"}, "option=--source-brokers: or --source-zookeeper is needed"),
    ):
        with pytest.raises(OptionRefused, match=says):
            check(replace(REQUEST, source=source, group=None))
    with pytest.raises(OptionRefused, match="option=--target-brokers: or --target-zookeeper"):
        check(replace(REQUEST, target={}))


def test_chunks_cover_a_lane_and_go_on_behind_a_mark():
    assert [(c.start, c.until) for c in LANES[0].chunks(10)] == [(10, 20), (20, 30), (30, 35)]
    assert list(LANES[0].chunks(10, Done.after(None, Chunk(0, 1, 20, 30), Copied(10, 10), 0))) == [Chunk(0, 2, 30, 35)]
    assert list(LANES[1].chunks(10)) == []


def test_the_bound_is_a_chunk_for_each_task_and_nothing_where_the_target_is_ours():
    keyed = replace(PLAN, request=replace(REQUEST, partitioning="key", chunk=10))
    assert (bound(keyed, 1), bound(keyed, 2), bound(keyed, 9)) == (10, 13, 13)
    assert bound(PLAN, 9) == 0
    assert bound(replace(PLAN, request=replace(REQUEST, shared=True, chunk=10)), 1) == 10


def test_marks_add_up_and_only_the_newest_of_a_lane_counts(tmp_path: Path):
    state = BackfillFolder(LocalFiles(), str(tmp_path / "b"))
    assert (state.plan(), state.last_done(), state.handed_over()) == (None, {}, None)
    state.put_plan(PLAN)
    first, second, _ = LANES[0].chunks(10)
    one = Done.after(None, first, Copied(10, 1000, 3, 2, 1, 110), 1)
    two = Done.after(one, second, Copied(10, 500, 0, 1, 0, 120), 2)
    for done in (one, two):
        state.put_done(done)
    assert state.last_done() == {0: two}
    assert (two.total_messages, two.total_bytes, two.total_kept, two.total_may_repeat) == (20, 1500, 3, 3)
    assert BackfillFolder(LocalFiles(), str(tmp_path / "b")).plan() == replace(PLAN, request=REQUEST.without_secrets())


def test_of_two_drivers_one_is_refused(tmp_path: Path):
    state, other = (BackfillFolder(LocalFiles(), str(tmp_path / "b")) for _ in range(2))
    state.put_plan(PLAN)
    with pytest.raises(Refused, match="another run has just planned"):
        other.put_plan(PLAN)
    assert not state.began()
    assert (state.begin_run("a", 1), other.begin_run("b", 2)) == (0, 1)
    done = Done.after(None, Chunk(0, 0, 10, 20), Copied(10, 1), 1)
    state.put_done(done)
    with pytest.raises(Refused, match="only one may be at work"):
        other.put_done(done)


# cutting

OLD = dialect("0.8.2")
TARGET = TopicPartition("t", 0)


def fetched(*stretches: tuple[int, int, int], start: int | None = None) -> MessageSet:
    """Stretches of (first offset, count, codec): plain entries or one wrapper each."""
    data = b"".join(
        OLD.messages.encode([(n, b"k", b"%d" % n, None) for n in range(first, first + count)], codec, 0)
        for first, count, codec in stretches
    )
    found, _ = OLD.messages.message_set("t", 0, stretches[0][0] if start is None else start, memoryview(data), 999)
    assert isinstance(found, MessageSet)
    return found


def content(given: Iterable[Any]) -> list[int]:
    found = []
    for part in given:
        again, _ = OLD.messages.message_set("t", 0, 0, memoryview(bytes(part.entries)), 999)
        values = [int(message.value) for message in again.messages()]
        assert len(values) == part.count
        found += values
    return found


@each("start", [10, 13, 20, 24, 30, 33])
@each("until", [34, 40, 41, 45, 50, 99])
@each("codec", [None, 0, 1])
def test_a_cut_set_holds_exactly_the_range(start, until, codec):
    message_set = fetched((10, 10, 0), (20, 10, 1), (30, 10, 0), (40, 10, 2), start=start)
    made = parts(message_set, message_set.index(), until, TARGET, dialect=OLD, message_max_bytes=1000012, codec=codec)
    assert content(made) == list(range(start, min(until, 50)))


@pytest.mark.parametrize("codec", [None, 0, 2])
def test_headers_are_copied_with_any_codec(codec):
    spoken = dialect("3.9")
    block = packed([("h", b"1")])
    data = spoken.messages.encode([(n, b"k", b"v", 7) for n in range(4)], 1, 2, [block, None, block, block])
    found, _ = spoken.messages.message_set("t", 0, 0, memoryview(data), 99)
    made = parts(found, found.index(), 3, TARGET, dialect=spoken, message_max_bytes=1000012, codec=codec)
    sets = [spoken.messages.message_set("t", 0, 0, memoryview(part.entries), 99)[0] for part in made]
    assert [message.headers for one in sets for message in one.messages()] == [(("h", b"1"),), (), (("h", b"1"),)]


@pytest.mark.parametrize("codec", [None, 0, 1])
def test_damage_behind_the_range_does_not_stop_its_copy(codec):
    message_set = fetched((10, 5, 1), (15, 5, 0), (20, 10, 1))
    damaged = bytearray(message_set.buffer)
    damaged[-1] ^= 1
    message_set, _ = OLD.messages.message_set("t", 0, 10, memoryview(bytes(damaged)), 999)
    columns = message_set.index()
    made = parts(message_set, columns, 20, TARGET, dialect=OLD, message_max_bytes=1000012, codec=codec)
    assert content(made) == list(range(10, 20))
    with pytest.raises(CorruptData, match="the messages before it are copied"):
        list(parts(message_set, columns, 25, TARGET, dialect=OLD, message_max_bytes=1000012, codec=codec))


def test_whole_runs_are_not_copied():
    message_set = fetched((0, 10, 1), (10, 10, 0), (20, 10, 1))
    made = list(
        parts(
            message_set,
            message_set.index(),
            25,
            TARGET,
            dialect=OLD,
            message_max_bytes=1000012,
            codec=None,
            aligned=True,
        )
    )
    assert [isinstance(part.entries, memoryview) for part in made] == [True, True, False]
    assert [part.count for part in made] == [10, 10, 5]


# tails

CHUNK = OffsetRange("t", 0, 50, 60)
SOURCE = [(offset, b"k", b"v%d" % offset) for offset in (50, 51, 53, 54, 58)]  # two gaps


def there(*offsets: int, first: int = 7) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(first + n, *SOURCE[n][1:]) for n in offsets]


@pytest.mark.parametrize(
    ("stored", "end", "reached"),
    [
        ([], 7, Reached(50, 0, 0)),
        (there(0), 8, Reached(51, 1, 4)),
        (there(0, 1), 9, Reached(53, 2, 8)),
        (there(0, 1, 2, 3), 11, Reached(58, 4, 16)),
        (there(0, 1, 2, 3, 4), 12, Reached(60, 5, 20)),
        (there(0, 3), 11, Reached(58, 4, 16)),  # the target is compacted
        (there(3), 11, Reached(58, 4, 16)),
    ],
)
def test_a_tail_tells_where_to_go_on(stored, end, reached):
    assert compare(SOURCE, stored, target_start=7, end=end, chunk=CHUNK) == reached


@pytest.mark.parametrize(
    ("stored", "end", "sentence"),
    [
        ([(7, b"k", b"x")], 8, "target_offset=7: the target's message is not the message at 50"),
        ([(7, None, b"v50")], 8, "target_offset=7"),
        ([*there(0), (8, *SOURCE[2][1:])], 9, "target_offset=8: the target's message is not the message at 51"),
        ([*there(0, 1, 2, 3, 4), (12, b"k", b"more")], 13, "target_offset=12: the target's message is after all"),
    ],
)
def test_a_tail_of_somebody_else_is_told(stored, end, sentence):
    with pytest.raises(Refused, match=sentence):
        compare(SOURCE, stored, target_start=7, end=end, chunk=CHUNK)


# rest

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Clock:
    """Time passes in sleeps; the ends at each look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: dict[TopicPartition, End]) -> None:
        self.at, self.looks = 0.0, list(looks)
        monkeypatch.setattr(
            module, "ends", lambda brokers, tps: self.looks[0] if len(self.looks) == 1 else self.looks.pop(0)
        )

    def sleep(self, seconds: float) -> None:
        self.at += seconds

    def stable(self, still_s: float) -> dict[TopicPartition, int]:
        return stable_ends(None, [A, B], still_s, 60, now=lambda: self.at, sleep=self.sleep)  # type: ignore[arg-type]


def test_a_log_is_settled_once_it_is_replicated_and_still(monkeypatch):
    quiet = {A: End(5, 5), B: End(0, 0)}
    clock = Clock(monkeypatch, {A: End(3, 4), B: End(0, 0)}, {A: End(4, 4), B: End(0, 0)}, quiet)
    assert clock.stable(10.0) == {A: 5, B: 0}
    assert 10.0 <= clock.at <= 12.0


def test_without_an_earlier_try_only_the_replicas_are_waited_for(monkeypatch):
    clock = Clock(monkeypatch, {A: End(3, 4), B: End(0, 0)}, {A: End(4, 4), B: End(0, 0)})
    assert clock.stable(0.0) == {A: 4, B: 0}
    assert clock.at < 1.0


def test_a_log_that_moves_on_is_somebody_elses(monkeypatch):
    clock = Clock(monkeypatch, *({A: End(n, n), B: End(0, 0)} for n in range(1000)))
    with pytest.raises(Refused, match="have been moving for 60 s: another run of this backfill"):
        clock.stable(10.0)


def test_a_replica_that_is_behind_for_long_is_named(monkeypatch):
    clock = Clock(monkeypatch, {A: End(3, 4), B: End(0, 0)})
    with pytest.raises(Refused, match="topic=t partition=0 visible=3 stored=4: the leader has 1 messages that"):
        clock.stable(0.0)


# sets that open to more than a set may


def limited(found: MessageSet, limit: int) -> MessageSet:
    """The set, whose columns may have so many opened bytes."""
    index = {0: v01.index, 1: v01.index, 2: v2.index}[found.format]
    return replace(found, reader=replace(found.reader, index=partial(index, limit=limit)))


@pytest.mark.parametrize(("release", "magic"), [("0.8.2", 0), ("0.10.2", 1), ("3.9", 2)])
@pytest.mark.parametrize("until", [9, 7, 4])
@pytest.mark.parametrize("codec", [None, 1])
def test_a_set_that_opens_to_more_than_a_set_may_is_copied_entry_by_entry(release, magic, until, codec):
    spoken = dialect(release)
    entries = []
    for first in (0, 3, 6):
        rows = [(first + n, b"%d" % (first + n), bytes(50_000), None) for n in range(3)]
        entry = bytes(spoken.messages.encode(rows, codec=1, magic=magic))
        entries.append(first.to_bytes(8, "big") + entry[8:] if magic == 2 else entry)
    found, _ = spoken.messages.message_set("orders", 3, 0, memoryview(b"".join(entries)), 100)
    with pytest.raises(SetTooLarge):
        limited(found, 200_000).index()
    target = TopicPartition("orders", 3)

    def copied(fetched: MessageSet) -> tuple[list[bytes | None], int]:
        keys: list[bytes | None] = []
        counted = 0
        for number, (alone, columns) in enumerate(indexed(fetched, until, True)):
            some = parts(
                alone, columns, until, target, dialect=spoken, message_max_bytes=1 << 20, codec=codec,
                aligned=number > 0,
            )  # fmt: skip
            for part in some:
                counted += part.count
                there, _ = spoken.messages.message_set("orders", 3, 0, memoryview(part.entries), 100)
                keys += [message.key for message in there.messages()]
        return keys, counted

    assert copied(limited(found, 200_000)) == copied(found) == ([b"%d" % n for n in range(until)], until)
