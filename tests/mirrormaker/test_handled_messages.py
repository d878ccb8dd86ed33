"""message.handler by columns against an obvious twin, which calls it message by message: keys, values, timestamps,
headers, partitions, order, what it drops, and where it stops when it fails."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groundwork.tasks import TaskGroup
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import LocalError
from kafkawire.formats import mixed
from kafkawire.formats.v2 import write as batches
from kafkawire.headers import packed, unpacked
from kafkawire.model import Message, MessageSet, TopicPartition
from mirrormaker.flow import Flow
from mirrormaker.handler import DROP, Handler, MessageHandler, Send
from mirrormaker.routes import RouteRules, SourceTopic, TopicRoute
from producer.conversion import FieldLost, MessageHandlerFailed
from producer.steps import Step
from tests.mirrormaker import test_mirror_routes as of_08
from tests.mirrormaker import test_mirror_routes07 as of_07

V07, V08, V010, NEWEST = dialect("0.7"), dialect("0.8.2"), dialect("0.10.1"), dialect("2.8")
LIMIT, PARTITIONS = 300, 3
Sent = tuple[bytes | None, bytes | None, int | None, Any]


def by_digest(message: Message) -> object:
    """Something of everything that a handler may do, by the message alone."""
    seen = zlib.crc32((message.value or b"") + (message.key or b"") + b"%d" % message.offset)
    data = b"" if message.value is None else message.value
    headers: Any = [("made", b"1")] if seen & 256 and message.headers is not None else None
    match seen % 11:
        case 0:
            return DROP
        case 1:
            return message
        case 2:
            return (message.key, data + b"!")
        case 3:
            return ("other", message.key, data)
        case 4:
            return Send(data, message.key, partition=seen // 11 % PARTITIONS)
        case 5:
            return [(message.key, data), message, Send(data, topic="other", timestamp_ms=7, headers=headers)]
        case 6:
            return []
        case 7:
            message.topic, message.value = "other", data[::-1]
            return message
        case 8:
            message.timestamp_ms = 5
            return (message.key, data)
        case 9:
            return replace(message, value=data + b"?", headers=headers)
        case _:
            return (message.key, data)


def of_0_7(handler: Handler) -> Handler:
    """The same without keys and nulls, which 0.7 has none of."""

    def without(message: Message) -> object:
        given = handler(message)
        if isinstance(given, list):
            return [replace(message, key=None, value=b"v")]
        return given if given is DROP else replace(message, key=None, value=message.value or b"")

    return without


def failing_at(handler: Handler, number: int, how: object) -> Handler:
    """Fails at the message of this number, in one of the ways there are."""
    left = number

    def fails(message: Message) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            if how is KeyError:
                raise KeyError(message.value)
            return how
        return handler(message)

    return fails


def flow_of(handler: Handler, source: Dialect, target: Dialect, codec: int | None) -> tuple[Flow, TopicRoute]:
    rules = RouteRules(
        source=source, target=target, message_max_bytes=LIMIT, handler="a:b", codec="gzip" if codec else "",
        partitioning="key", drop=frozenset({"headers", "timestamps"}),
    )  # fmt: skip
    flow = Flow(
        SimpleNamespace(name="dc1", in_target=False, deleted={}),  # type: ignore[arg-type]
        SimpleNamespace(  # type: ignore[arg-type]
            topics=SimpleNamespace(prepare=lambda topic, source: range(PARTITIONS)), sender_of=lambda source: None
        ),
        rules,
        TaskGroup(),
        handler=MessageHandler(handler, "a:b", "dc1", target),
    )
    return flow, TopicRoute("orders", SourceTopic(4, 1), range(PARTITIONS), rules)


def by_columns(
    message_set: MessageSet, handler: Handler, source: Dialect, to: Dialect, codec: int | None, skipped: int
) -> tuple[list[Step], str | None, int]:
    """Steps, the failure, and how many messages were dropped."""
    flow, route = flow_of(handler, source, to, codec)
    steps: list[Step] = []
    place = flow._handling(route, message_set.tp)
    failed = collected(route.steps(message_set, True, skipped, place=place), steps)
    return steps, failed, sum(flow.left_out.values())


def sends(handler: Handler, message: Message) -> list[Send]:
    """What a handler wants sent, with nothing left to default.  Raises MessageHandlerFailed."""
    try:
        given = handler(message)
    except KeyError as failed:
        raise MessageHandlerFailed("raised") from failed
    return [send_of(one, message) for one in (given if isinstance(given, list) else [given]) if one is not DROP]


def send_of(given: object, message: Message) -> Send:
    topic, stamp, headers = message.topic, message.timestamp_ms, message.headers
    match given:
        case Send(value, key, other, partition, time_ms, more):
            send = Send(value, key, other or topic, partition, time_ms or stamp, headers if more is None else more)
        case Message():
            send = Send(given.value, given.key, given.topic, None, given.timestamp_ms, given.headers)
        case (key, value):
            send = Send(value, key, topic, None, stamp, headers)
        case (other, key, value):
            send = Send(value, key, other, None, stamp, headers)
        case _:
            raise MessageHandlerFailed("no message")
    if not {type(send.key), type(send.value)} <= {bytes, type(None)}:
        raise MessageHandlerFailed("no bytes")
    return send


def one_by_one(
    message_set: MessageSet, handler: Handler, source: Dialect, to: Dialect, codec: int | None, skipped: int
) -> tuple[dict[TopicPartition, list[Sent]], int | None, str | None, int]:
    """The obvious twin: what arrives, where it ends, the failure, and how many messages were dropped."""
    dropped, left, end = 0, skipped, None
    _, orders = flow_of(handler, source, to, codec)
    other = TopicRoute("other", SourceTopic(4, 1), range(PARTITIONS), flow_of(handler, source, to, codec)[0]._rules)

    def outputs(message: Message) -> Iterable[tuple[TopicPartition, Sent]]:
        nonlocal dropped, left
        partition, topic = message.partition, message.topic
        if left:
            left -= 1
            return []
        found = sends(handler, message)
        dropped += not found
        made = []
        for sent in found:
            if not to.has_keys and (sent.key is not None or sent.value is None):
                raise MessageHandlerFailed("a key, or no value")
            there = orders.partitioner if sent.topic == topic or sent.topic == "orders" else other.partitioner
            tp = there.partition(partition, sent.key) if sent.partition is None else there.named(sent.partition)
            stamp = (-1 if sent.timestamp_ms is None else sent.timestamp_ms) if to.has_timestamps else None
            headers = tuple(sent.headers or ()) if to.record_batches else ()
            made.append((tp, (sent.key, sent.value, stamp, headers or None)))
        return made

    arrives, inside = defaultdict(list), list[tuple[TopicPartition, Sent]]()
    try:
        for message in message_set.messages():
            offset, resume_at = message.offset, message.resume_at
            inside += outputs(message)
            if resume_at > offset:  # else others share its offset: all of them are sent, or none
                for tp, sent in inside:
                    arrives[tp].append(sent)
                inside.clear()
                end = resume_at
    except MessageHandlerFailed as failed:
        return dict(arrives), end, str(failed), dropped
    return dict(arrives), message_set.resume_at, None, dropped


def collected(found: Iterator[Step], steps: list[Step]) -> str | None:
    try:
        for step in found:
            steps.append(step)
    except (MessageHandlerFailed, FieldLost) as failed:
        return str(failed)
    return None


def arrived(steps: Iterable[Step], to: Dialect) -> dict[TopicPartition, list[Sent]]:
    found = defaultdict(list)
    for part in (part for step in steps for part in step.parts):
        message_set, _ = to.messages.message_set("t", 0, 0, memoryview(bytes(part.entries)), 0)
        found[part.tp] += [
            (m.key, m.value, m.timestamp_ms, m.headers or None) for m in replace(message_set, start=-1).messages()
        ]
    return dict(found)


def agree(
    message_set: MessageSet,
    handler: Callable[[], Handler],
    source: Dialect,
    to: Dialect,
    codec: int | None,
    skipped: int,
) -> None:
    steps, failed, dropped = by_columns(message_set, handler(), source, to, codec, skipped)
    slowly, end, failed_slowly, dropped_slowly = one_by_one(message_set, handler(), source, to, codec, skipped)
    assert arrived(steps, to) == slowly
    assert (failed is None) == (failed_slowly is None)
    ends = [step.resume_at for step in steps]
    assert ends == sorted(set(ends))
    assert ends[-1:] == ([] if end is None else [end])
    if failed is None:
        assert dropped == dropped_slowly


FAILURES = st.sampled_from([None, None, KeyError, 7, b"v", [b"v"], ("a", "b"), None, (b"k", "text")])


@settings(max_examples=150, deadline=None)
@given(of_08.stretches, st.integers(0, 12), st.sampled_from([None, 1]), st.sampled_from([V08, V010, NEWEST]),
       st.integers(0, 3), st.none() | st.tuples(st.integers(0, 12), FAILURES))  # fmt: skip
def test_sets_of_0_8(
    found: list[of_08.Stretch],
    begin: int,
    codec: int | None,
    to: Dialect,
    skipped: int,
    fails: tuple[int, object] | None,
) -> None:
    _, rows = of_08.log(found, 100)
    message_set = of_08.fetched(found, start=100 + min(begin, len(rows) - 1))
    agree(message_set, lambda: by_digest if fails is None else failing_at(by_digest, *fails), V08, to, codec, skipped)


@settings(max_examples=100, deadline=None)
@given(of_07.stretches, st.sampled_from([None, 1]), st.sampled_from([V07, V08, V010]), st.integers(0, 3),
       st.none() | st.tuples(st.integers(0, 12), FAILURES))  # fmt: skip
@example([(0, [b""] * 4), (1, [b""]), (1, [b"", b""])], None, V08, 0, (6, None))  # the last of those that share it
def test_sets_of_0_7_where_messages_of_a_wrapper_share_their_offset(
    found: list[of_07.Stretch], codec: int | None, to: Dialect, skipped: int, fails: tuple[int, object] | None
) -> None:
    usual = by_digest if to.has_keys else of_0_7(by_digest)
    agree(of_07.fetched(found), lambda: usual if fails is None else failing_at(usual, *fails), V07, to, codec, skipped)


ROWS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=9),
        st.none() | st.binary(max_size=30),
        st.integers(-1, 9),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from([0, 1, 2]), st.sampled_from([NEWEST, V010]),
       st.none() | st.tuples(st.integers(0, 12), FAILURES))  # fmt: skip
def test_record_batches_with_headers(
    found: list[list[Any]], codec: int, to: Dialect, fails: tuple[int, object] | None
) -> None:
    stored, base = b"", 100
    for rows in found:
        entries = [(base + n, key, value, stamp) for n, (key, value, stamp, _) in enumerate(rows)]
        stored += batches.encode(entries, codec, [packed(headers) for *_, headers in rows])
        base += len(rows)
    message_set, _ = mixed.message_set("orders", 3, 100, memoryview(stored), 10**6)
    agree(message_set, lambda: by_digest if fails is None else failing_at(by_digest, *fails), NEWEST, to, None, 0)


def test_a_message_is_given_as_the_stream_of_a_consumer_gives_it() -> None:
    stretches = [of_08.Stretch(0, 0, ((b"k", b"v"), (None, None))), of_08.Stretch(1, 1, ((b"k", b"v"),))]
    for message_set, source in (
        (of_08.fetched(stretches), V08),
        (of_07.fetched([(0, [b"a"]), (1, [b"b", b"c"])]), V07),
    ):
        given: list[Message] = []
        by_columns(message_set, lambda message: given.append(message) or DROP, source, NEWEST, None, 0)  # noqa: B023
        assert given == list(message_set.messages())


def test_a_handler_that_is_refused_keeps_what_came_before_it_and_no_row_of_it() -> None:
    message_set = of_08.fetched([of_08.Stretch(0, 0, ((None, b"a"), (None, b"b"), (None, b"c")))])

    def twice(message: Message) -> object:
        return [message, (None, b"x") if message.value != b"b" else "nonsense"]

    steps, failed, _ = by_columns(message_set, twice, V08, V08, None, 0)
    assert failed == (
        "orders/3 at 101: message.handler a:b gave back a str, not the message, (key, value), (topic, key, value), a "
        "Send or a list of these, or DROP"
    )
    assert [row[1] for rows in arrived(steps, V08).values() for row in rows] == [b"a", b"x"]
    assert steps[-1].resume_at == 101


@pytest.mark.parametrize("stamp", ["17", 1.5])
def test_a_timestamp_that_is_no_number_is_refused_by_name(stamp: Any) -> None:
    message_set = of_08.fetched([of_08.Stretch(0, 1, ((None, b"a"),))])
    _, failed, _ = by_columns(message_set, lambda m: Send(b"x", timestamp_ms=stamp), V010, V010, None, 0)
    assert failed is not None
    assert "gave back a" in failed


def test_a_timestamp_that_no_format_has_room_for_is_a_sentence() -> None:
    stretches = [of_08.Stretch(0, 1, tuple((None, b"%d" % n) for n in range(200)))]
    for handler in (lambda m: Send(b"x", timestamp_ms=1 << 70), lambda m: m):
        flow, route = flow_of(handler, V010, V010, None)
        place = flow._handling(route, TopicPartition("orders", 3))
        found = route.steps(of_08.fetched(stretches), True, place=place)
        if handler(Message("orders", 3, 0, None, b"", 1, 0, None, 1)).timestamp_ms == 1:  # type: ignore[attr-defined]
            assert sum(part.count for step in found for part in step.parts) == 200
            continue
        with pytest.raises(LocalError, match="a message does not fit"):
            list(found)


def test_headers_of_messages_that_have_some_are_opened_for_the_handler() -> None:
    block = packed([("h", b"1")])
    message_set, _ = mixed.message_set(
        "orders", 3, 0, memoryview(batches.encode([(0, None, b"v", 1), (1, None, b"w", 1)], 0, [block, None])), 10
    )
    given: list[Any] = []
    by_columns(message_set, lambda message: given.append(message.headers) or DROP, NEWEST, NEWEST, None, 0)
    assert given == [unpacked(block), ()]
