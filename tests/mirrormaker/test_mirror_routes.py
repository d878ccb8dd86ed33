"""Routes: whatever the runs of a set are, what reaches the target is exactly the wanted messages, in order."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import CorruptMessage
from kafkawire.formats import mixed
from kafkawire.formats.v01 import messages as v08
from kafkawire.model import MessageSet, Part, TopicPartition
from mirrormaker.encoding import PLAIN, Encoder, Encoders
from mirrormaker.partitioning import ChosenPartitioner, numbering
from mirrormaker.routes import AsConfigured, Route, RouteRules, SourceTopic, TopicRoute
from producer.conversion import Lists, MessageHandlerFailed, Place, Placed, Rows, by_columns, narrowed, pass_through
from producer.partitioners import murmur2_partitioner
from producer.steps import Step

LIMIT = 1000012
OLD, NEW, NEWEST = dialect("0.8.2"), dialect("0.10.1"), dialect("2.8")
TARGET = TopicPartition("orders", 3)
Pair = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class Stretch:
    """Neighbouring messages as a producer wrote them: plain entries, or one wrapper."""

    codec: int
    magic: int
    pairs: tuple[Pair, ...]


def log(stretches: Iterable[Stretch], base: int) -> tuple[bytes, list[tuple[int, Pair]]]:
    """The bytes as a broker keeps them, offsets from base on, and the messages in them."""
    stored, rows = bytearray(), []
    for stretch in stretches:
        offsets = range(base, base + len(stretch.pairs))
        entries = [(o, k, v, 1000 + o) for o, (k, v) in zip(offsets, stretch.pairs, strict=True)]
        stored += v08.encode(entries, codec=stretch.codec, magic=stretch.magic)
        rows += [(o, pair) for o, pair in zip(offsets, stretch.pairs, strict=True)]
        base += len(stretch.pairs)
    return bytes(stored), rows


def fetched(stretches: Iterable[Stretch], base: int = 100, start: int | None = None) -> MessageSet:
    stored, _ = log(stretches, base)
    message_set, scan = v08.message_set("orders", 3, base if start is None else start, memoryview(stored), 10**6)
    assert scan.damage is None
    return message_set


def decoded(part: Part) -> list[Pair]:
    """What the target's consumers will read of a part."""
    buffer = memoryview(bytes(part.entries))
    message_set, scan = mixed.message_set(part.tp.topic, part.tp.partition, 0, buffer, 0)
    assert scan.end == len(buffer)
    assert scan.damage is None
    return [(m.key, m.value) for m in replace(message_set, start=-1).messages()]


def arrived(steps: Iterable[Step]) -> list[Pair]:
    return [pair for step in steps for part in step.parts for pair in decoded(part)]


def well_formed(steps: Sequence[Step], of: MessageSet, to: Dialect) -> None:
    """What every route promises, whatever it does."""
    ends = [step.resume_at for step in steps]
    assert ends == sorted(set(ends))
    assert ends[-1] == of.resume_at
    for part in (part for step in steps for part in step.parts):
        message_set, _ = mixed.message_set("t", 0, 0, memoryview(bytes(part.entries)), 0)
        assert {(run.codec, run.magic) for run in message_set.runs} == {(part.codec, part.magic)}
        assert part.magic <= to.magic
        assert part.codec in to.codecs
        if part.codec and not part.record_batch:
            assert message_set.entries == 1
            assert part.count >= 1
        else:
            assert part.count == message_set.entries


texts = st.none() | st.binary(max_size=20)
pairs = st.lists(st.tuples(texts, texts), min_size=1, max_size=6).map(tuple)
stretches = st.lists(
    st.builds(Stretch, st.sampled_from([0, 0, 1, 2]), st.sampled_from([0, 1]), pairs), min_size=1, max_size=5
)


@settings(max_examples=150, deadline=None)
@given(stretches, st.integers(0, 12), st.sampled_from([OLD, NEW, NEWEST]), st.booleans())
def test_what_passes_through_is_exactly_what_was_wanted(
    found: list[Stretch], skipped: int, to: Dialect, tight: bool
) -> None:
    _, rows = log(found, 100)
    start = 100 + min(skipped, len(rows) - 1)
    message_set = fetched(found, start=start)
    limit = 200 if tight else LIMIT
    steps = list(pass_through(message_set, TARGET, to, limit))
    assert arrived(steps) == [pair for offset, pair in rows if offset >= start]
    well_formed(steps, message_set, to)
    assert {part.tp for step in steps for part in step.parts} == {TARGET}
    assert all(len(step.parts) <= 1 or to.measures_whole_set or tight for step in steps)


@settings(max_examples=150, deadline=None)
@given(stretches, st.integers(0, 12), st.sampled_from([None, 0, 1, 2]), st.sampled_from([OLD, NEW, NEWEST]))
def test_what_is_encoded_again_keeps_the_order_of_each_target_partition(
    found: list[Stretch], skipped: int, codec: int | None, to: Dialect
) -> None:
    _, rows = log(found, 100)
    start = 100 + min(skipped, len(rows) - 1)
    message_set = fetched(found, start=start)
    steps = list(by_columns(message_set, by_key, to, 300, codec))
    well_formed(steps, message_set, to)
    wanted, got = defaultdict(list), defaultdict(list)
    for offset, (key, value) in rows:
        if offset >= start:
            wanted[len(key or b"") % 3].append((key, value))
    for part in (part for step in steps for part in step.parts):
        got[part.tp.partition].extend(decoded(part))
        if codec is not None:
            assert part.codec == codec
    assert got == wanted


def by_key(rows: Rows) -> Iterator[Placed]:
    into: dict[TopicPartition, Lists] = {}
    for key, value, stamp in zip(rows.keys, rows.values, rows.timestamps_ms, strict=True):
        lists = into.setdefault(TopicPartition("orders", len(key or b"") % 3), Lists([], [], []))
        lists.keys.append(key)
        lists.values.append(value)
        lists.timestamps_ms.append(stamp)
    yield Placed(into, rows.resume_at)


def plain(*values: bytes, magic: int = 0) -> Stretch:
    return Stretch(0, magic, tuple((None, value) for value in values))


def gzip(*values: bytes, magic: int = 0) -> Stretch:
    return Stretch(1, magic, tuple((None, value) for value in values))


def test_plain_entries_travel_as_the_very_bytes_that_were_fetched() -> None:
    message_set = fetched([plain(b"a", b"b", b"c")])
    [step] = pass_through(message_set, TARGET, OLD, LIMIT)
    [part] = step.parts
    assert part.entries == message_set.buffer
    assert isinstance(part.entries, memoryview)
    assert (part.count, part.resume_at, step.resume_at) == (3, 103, 103)


def test_each_wrapper_travels_by_itself_because_the_target_would_merge_them() -> None:
    steps = list(pass_through(fetched([gzip(b"a", b"b"), plain(b"c"), gzip(b"d"), gzip(b"e")]), TARGET, OLD, LIMIT))
    assert [(p.codec, p.resume_at) for s in steps for p in s.parts] == [(1, 102), (0, 103), (1, 104), (1, 105)]


def test_of_a_wrapper_that_begins_before_the_wanted_position_only_the_wanted_part_is_sent() -> None:
    message_set = fetched([gzip(b"a", b"b", b"c"), gzip(b"d")], start=102)
    assert arrived(pass_through(message_set, TARGET, OLD, LIMIT)) == [(None, b"c"), (None, b"d")]


def test_a_set_that_follows_the_one_before_is_not_opened_to_look() -> None:
    whole = bytearray(log([gzip(b"a", b"b")], 100)[0])
    whole[-12] ^= 0xFF  # inside the compressed bytes: opening it would fail
    message_set, _ = v08.message_set("orders", 3, 100, memoryview(bytes(whole)), 200)
    [step] = pass_through(message_set, TARGET, OLD, LIMIT, aligned=True)
    assert step.parts[0].entries == message_set.buffer
    with pytest.raises(CorruptMessage):
        list(pass_through(message_set, TARGET, OLD, LIMIT))


def test_format_v1_never_reaches_a_target_that_would_store_it_as_poison() -> None:
    steps = list(pass_through(fetched([plain(b"a", magic=1), gzip(b"b", magic=1)]), TARGET, OLD, LIMIT))
    assert {part.magic for step in steps for part in step.parts} == {0}
    assert arrived(steps) == [(None, b"a"), (None, b"b")]


def test_the_log_append_time_bit_is_taken_off_because_brokers_refuse_it() -> None:
    stored = bytearray(log([plain(b"a", b"b", magic=1)], 100)[0])
    second = 12 + int.from_bytes(stored[8:12], "big")
    stored[second + 17] |= v08.LOG_APPEND_TIME
    stored[second + 12 : second + 16] = pack(">I", zlib.crc32(bytes(stored[second + 16 :])))
    message_set, _ = v08.message_set("orders", 3, 100, memoryview(bytes(stored)), 200)
    steps = list(pass_through(message_set, TARGET, NEW, LIMIT))
    assert arrived(steps) == [(None, b"a"), (None, b"b")]
    read = [v08.message_set("t", 0, 0, memoryview(bytes(p.entries)), 0)[0] for s in steps for p in s.parts]
    assert {message.timestamp_type for each in read for message in each.messages()} == {0}


def test_lz4_is_written_as_something_that_an_older_target_reads() -> None:
    found = Stretch(3, 0, ((b"k", b"v" * 100),))
    steps = list(pass_through(fetched([found]), TARGET, dialect("0.8.1"), LIMIT))
    assert [part.codec in dialect("0.8.1").codecs for step in steps for part in step.parts] == [True]
    assert arrived(steps) == [(b"k", b"v" * 100)]


def test_a_target_that_measures_the_whole_set_gets_pieces_below_its_limit() -> None:
    message_set = fetched([plain(*(b"x" * 100 for _ in range(50)))])
    steps = list(pass_through(message_set, TARGET, NEWEST, 1100))
    assert all(len(part.entries) <= 1100 - 61 for step in steps for part in step.parts)
    assert len(steps) > 5
    assert [step.resume_at for step in steps][-1] == 150
    assert len(list(pass_through(message_set, TARGET, OLD, 1100))) == 1  # that one measures each entry


def test_a_message_larger_than_the_limit_goes_alone_so_that_only_it_is_refused() -> None:
    message_set = fetched([plain(b"a", b"x" * 2000, b"b")])
    counts = [part.count for step in pass_through(message_set, TARGET, NEWEST, 1100) for part in step.parts]
    assert counts == [1, 1, 1]


def test_a_damaged_message_is_named_after_everything_before_it_was_yielded() -> None:
    stored = bytearray(log([plain(b"a", b"b", b"c")], 100)[0])
    stored[-1] ^= 0xFF
    message_set, _ = v08.message_set("orders", 3, 100, memoryview(bytes(stored)), 200)
    steps: list[Step] = []
    with pytest.raises(CorruptMessage) as damaged:
        steps.extend(collected(by_columns(message_set, by_key, OLD, LIMIT), steps))
    assert damaged.value.offset == 102
    assert arrived(steps) == [(None, b"a"), (None, b"b")]
    assert steps[-1].resume_at == 102


def collected(found: Iterator[Step], into: list[Step]) -> Iterator[Step]:
    for step in found:
        into.append(step)
    yield from ()


def test_a_failing_handler_stops_exactly_before_its_message() -> None:
    def picky(rows: Rows) -> Placed:
        if b"c" in rows.values:
            raise MessageHandlerFailed("orders/3 at 102: message.handler raised ValueError: c")
        (placed,) = by_key(rows)
        return placed

    steps: list[Step] = []
    with pytest.raises(MessageHandlerFailed, match="orders/3 at 102"):
        list(collected(by_columns(fetched([gzip(b"a", b"b", b"c", b"d")]), narrowed(picky), OLD, LIMIT), steps))
    assert arrived(steps) == [(None, b"a"), (None, b"b")]
    assert steps[-1].resume_at == 102


def test_what_a_handler_drops_still_moves_the_position_on() -> None:
    message_set = fetched([plain(b"a", b"b"), gzip(b"c")])
    steps = list(by_columns(message_set, lambda rows: [Placed({}, rows.resume_at)], OLD, LIMIT))
    assert [step.parts for step in steps] == [() for _ in steps]
    assert steps[-1].resume_at == message_set.resume_at


def placed(route: TopicRoute) -> Place:
    """What a handler makes of messages that gives them back as they are."""

    def place(rows: Rows) -> Iterator[Placed]:
        into: dict[TopicPartition, Lists] = {}
        route.place(TopicPartition("orders", 3), rows, into)
        yield Placed(into, rows.resume_at)

    return place


@pytest.mark.parametrize("more", [{}, {"handler": "m:f"}, {"partitioning": "key"}, {"codec": "gzip"}])
def test_the_end_of_a_set_is_reached_where_no_message_is_left_as_behind_a_transaction(more: dict[str, Any]) -> None:
    rules = RouteRules(message_max_bytes=LIMIT, **SAME, **more)
    route = TopicRoute("orders", SourceTopic(1, 1), range(4), rules)
    message_set = replace(fetched([plain(b"a", b"b"), gzip(b"c")]), resume_at=105)
    steps = list(route.steps(message_set, aligned=True, place=placed(route) if "handler" in more else None))
    well_formed(steps, message_set, OLD)
    assert arrived(steps) == [(None, b"a"), (None, b"b"), (None, b"c")]
    empty = replace(message_set, start=103, buffer=memoryview(b""), runs=())
    assert list(route.steps(empty, aligned=True)) == [Step(105, ())]


SAME, BY_BROKER = {"source": OLD, "target": OLD}, {"source": dialect("0.7"), "target": OLD}


def route(here: int, there: int, rules: dict[str, Any]) -> Route:
    return RouteRules(message_max_bytes=LIMIT, **rules).choose("t", here, there)


@pytest.mark.parametrize(
    ("here", "there", "rules", "sentence", "partitioning"),
    [
        (4, 4, SAME, "pass-through: same format, partition kept", "identity"),
        (4, 8, SAME, "pass-through: same format, partition kept", "identity"),
        (4, 2, SAME, "re-encode: partition chosen by key, as the target has 2 partitions, the source 4", "key"),
        (4, 2, {**SAME, "partitioning": "identity"}, "pass-through: same format, partition kept", "identity"),
        (4, 4, {**SAME, "partitioning": "key"}, "re-encode: partitioning key is configured", "key"),
        (4, 4, {**SAME, "handler": "a:b"}, "re-encode: message.handler a:b sees every message", "identity"),
        (4, 4, {**SAME, "codec": "gzip"}, "re-encode: compression.codec gzip is configured", "identity"),
        (
            4,
            4,
            {**SAME, "codec": "gzip", "compressed_topics": ("other",)},
            "pass-through: same format, partition kept",
            "identity",
        ),
        (
            4,
            4,
            BY_BROKER,
            "re-encode: source and target do not share a message format; all of a source partition goes to one "
            "partition, which follows from its name",
            "source",
        ),
        (
            5,
            5,
            {**BY_BROKER, "numbering": numbering("0:2,1:3")},
            "re-encode: source and target do not share a message format; partitions are numbered by "
            "broker.partitions 0:2,1:3",
            "identity",
        ),
        (
            5,
            5,
            {**BY_BROKER, "handler": "a:b", "partitioning": "key"},
            "re-encode: message.handler a:b sees every message; a key decides where message.handler makes one, else "
            "all of a source partition goes to one partition",
            "key",
        ),
        (
            5,
            9,
            {"source": dialect("0.7"), "target": dialect("0.7")},
            "pass-through: same format; all of a source partition goes to one partition, which follows from its name",
            "source",
        ),
    ],
)
def test_the_route_of_a_topic_and_why(
    here: int, there: int, rules: dict[str, Any], sentence: str, partitioning: str
) -> None:
    chosen = route(here, there, rules)
    assert (str(chosen), chosen.partitioning) == (sentence, partitioning)


def test_what_is_different_for_a_topic_decides_about_its_route() -> None:
    def of_topic(topic: str) -> AsConfigured:
        return {"zipped": AsConfigured(codec="snappy"), "plain": AsConfigured(codec="none")}.get(
            topic, AsConfigured(partitioning="key")
        )

    rules = RouteRules(message_max_bytes=LIMIT, source=OLD, target=OLD, codec="gzip", of_topic=of_topic, grow=True)
    assert str(rules.choose("zipped", 4, 4)) == "re-encode: compression.codec snappy is configured"
    assert str(rules.choose("plain", 4, 4)) == "pass-through: same format, partition kept"
    keyed = "re-encode: compression.codec gzip is configured"
    assert (str(rules.choose("keyed", 4, 4)), rules.choose("keyed", 4, 4).partitioning) == (keyed, "key")
    assert [rules.grows(topic) for topic in ("zipped", "keyed")] == [True, False]
    unnumbered = {"target": OLD, "message_max_bytes": LIMIT, "grow": True}
    assert not RouteRules(**unnumbered, source=dialect("0.7")).grows("t")
    assert RouteRules(**unnumbered, source=dialect("0.7"), numbering=numbering("0:2")).grows("t")
    as_it_is = RouteRules(message_max_bytes=LIMIT, source=OLD, target=OLD, of_topic=of_topic, grow=True)
    assert str(as_it_is.choose("keyed", 4, 2)) == (
        "re-encode: partitioning key is configured, so the target is not grown"
    )


def test_a_renamed_topic_has_its_partitions_and_its_codec_by_its_name_in_the_target() -> None:
    rules = RouteRules(message_max_bytes=LIMIT, **SAME, codec="gzip", compressed_topics=("dc1.t",))
    topic = TopicRoute("t", SourceTopic(2, 1), range(2), rules, target="dc1.t")
    assert (topic.target, str(topic.route)) == ("dc1.t", "re-encode: compression.codec gzip is configured")
    assert topic.partitioner.of_source(1) == TopicPartition("dc1.t", 1)
    assert TopicRoute("dc1.t", SourceTopic(2, 1), range(2), rules).route.kind == "re-encode"
    assert TopicRoute("t", SourceTopic(2, 1), range(2), rules).route.kind == "pass-through"


@settings(max_examples=150, deadline=None)
@given(stretches, st.integers(0, 12), st.sampled_from([None, 1]), st.sampled_from([OLD, NEW, NEWEST]), st.booleans())
def test_a_partitioner_by_columns_sends_what_it_sends_message_by_message(
    found: list[Stretch], skipped: int, codec: int | None, to: Dialect, encodes: bool
) -> None:
    _, rows = log(found, 100)
    message_set = fetched(found, start=100 + min(skipped, len(rows) - 1))
    encoders = Encoders(Encoder("serializer.class", "a:b", lambda data: b"<%b>" % (data or b"null")))
    rules = RouteRules(
        source=OLD,
        target=to,
        message_max_bytes=300,
        codec="gzip" if codec else "",
        partitioner=lambda topic: ChosenPartitioner("murmur2", murmur2_partitioner),
        encoders=encoders if encodes else PLAIN,
    )
    route = TopicRoute("orders", SourceTopic(4, 1), range(3), rules)
    steps = list(route.steps(message_set, aligned=False))

    one_by_one = defaultdict(list)
    for message in message_set.messages():
        (value,) = rules.encoders.values(message_set.tp, [message.offset], [message.value])
        one_by_one[route.partitioner.partition(message.partition, message.key)].append((message.key, value))
    well_formed(steps, message_set, to)
    assert by_partition(steps) == one_by_one
    if codec is not None:
        assert {part.codec for step in steps for part in step.parts} <= {codec}


def by_partition(steps: Iterable[Step]) -> dict[TopicPartition, list[Pair]]:
    found = defaultdict(list)
    for part in (part for step in steps for part in step.parts):
        found[part.tp] += decoded(part)
    return dict(found)


def test_the_named_partitioner_is_in_the_route() -> None:
    murmur2 = ChosenPartitioner("murmur2", murmur2_partitioner)
    chooses = "partitioner.class murmur2 chooses the partition by key"
    for rules, sentence in (
        ({}, f"re-encode: {chooses}"),
        ({"partitioning": "key"}, f"re-encode: {chooses}"),
        ({"partitioning": "identity"}, "pass-through: same format, partition kept"),
        ({"handler": "a:b"}, f"re-encode: message.handler a:b sees every message; {chooses}"),
        (
            {"encoders": Encoders(None, Encoder("key.serializer.class", "a:b", bytes.upper))},
            f"re-encode: key.serializer.class a:b encodes every message; {chooses}",
        ),
        (
            {"source": dialect("0.7")},
            "re-encode: source and target do not share a message format; all of a source partition goes to one "
            "partition, which follows from its name",
        ),
        (
            {"source": dialect("0.7"), "set_handler": "a:b"},
            f"re-encode: message.set.handler a:b sees every set; {chooses}; a key decides where message.set.handler "
            "makes one, else all of a source partition goes to one partition",
        ),
    ):
        assert str(route(4, 4, {**SAME, "partitioner": lambda topic: murmur2, **rules})) == sentence


def test_messages_are_looked_at_one_by_one_for_a_handler_only() -> None:
    found = {
        name: route(4, there, {**SAME, **more})
        for name, there, more in (
            ("kept", 4, {}),
            ("packed", 4, {"codec": "gzip"}),
            ("by key", 2, {}),
            ("handled", 4, {"handler": "a:b"}),
            ("handled by sets", 4, {"set_handler": "a:b"}),
        )
    }
    assert [name for name, one in found.items() if one.by_message] == ["handled"]
    assert [name for name, one in found.items() if one.single_target] == ["kept", "packed"]
