"""What message.set.handler gets, what it may give back, and where it fails: of whole sets, without message objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundwork.tasks import TaskGroup
from kafkawire.dialects import dialect
from kafkawire.errors import CorruptMessage
from kafkawire.model import BrokerPartition, MessageSet, TopicPartition
from mirrormaker.flow import Flow
from mirrormaker.handler import DROP
from mirrormaker.routes import Route, RouteRules, SourceTopic, TopicRoute
from mirrormaker.sethandler import MessageColumns, SetHandler, SetHandlerFunction
from producer.conversion import Lists, MessageHandlerFailed, Placed, Rows, Step, by_columns, narrowed
from tests.mirrormaker import test_reslice as logs

V07, V08, V010 = dialect("0.7"), dialect("0.8.2"), dialect("0.10.1")
SOURCE = TopicPartition("orders", 3)
LIMIT = 1000012
Pair = tuple[bytes | None, bytes | None]


def handler_of(function: SetHandlerFunction, target: Any = V08) -> SetHandler:
    return SetHandler(function, "a:b", "dc1", target)


def rows(*values: bytes | None, first: int = 100) -> Rows:
    offsets = list(range(first, first + len(values)))
    keys: list[bytes | None] = [b"k%d" % offset for offset in offsets]
    return Rows(offsets, keys, list(values), [None] * len(values), first + len(values))


def given_back(function: SetHandlerFunction, of: Rows) -> tuple[list[Any], SetHandler]:
    """Rows that it gave back: target topic, partition, offset, key, value; and the handler, which counted."""
    handler = handler_of(function)
    columns = handler.handled(SOURCE, of)
    found = []
    for topic, these, partitions in columns.outputs(of).by_topic(SOURCE.topic):
        chosen = partitions or [None] * len(these.offsets)
        found += [
            (topic, partition, offset, key, value)
            for offset, key, value, partition in zip(these.offsets, these.keys, these.values, chosen, strict=True)
        ]
    handler.count_dropped(SOURCE, of, columns)
    return found, handler


def test_it_gets_lists_of_equal_length_and_where_they_come_from() -> None:
    seen: list[Any] = []

    def looks(messages: MessageColumns) -> MessageColumns:
        seen.append((messages.topic, messages.partition, messages.offsets, messages.keys, messages.values))
        seen.append((messages.timestamps_ms, messages.topics, messages.partitions, len(messages)))
        return messages

    found, handler = given_back(looks, Rows(range(7, 9), [None, b"k"], [b"v", None], [17, -1], 9))
    assert seen == [("orders", 3, [7, 8], [None, b"k"], [b"v", None]), ([17, None], None, None, 2)]
    assert found == [(None, None, 7, None, b"v"), (None, None, 8, b"k", None)]
    assert handler.dropped == {}


def test_rows_are_dropped_changed_and_routed_and_what_is_dropped_is_counted() -> None:
    def handler(messages: MessageColumns) -> MessageColumns:
        messages.keep(value != b"test" for value in messages.values)
        messages.keys = [value and value[:1] for value in messages.values]
        messages.topics = ["errors" if value == b"error" else None for value in messages.values]
        messages.partitions = [0 if value == b"first" else None for value in messages.values]
        return messages

    found, counted = given_back(handler, rows(b"test", b"first", b"error", b"test", b"x"))
    assert found == [
        (None, 0, 101, b"f", b"first"),
        (None, None, 104, b"x", b"x"),
        ("errors", None, 102, b"e", b"error"),
    ]
    assert counted.dropped == {"orders": 2}


def test_a_message_may_become_several(caplog: pytest.LogCaptureFixture) -> None:
    def doubled(messages: MessageColumns) -> MessageColumns:
        return MessageColumns(
            messages.topic, messages.partition, [o for o in messages.offsets for _ in "12"],
            keys=[None] * 4, values=[b"1", b"2", b"3", b"4"], timestamps_ms=[5] * 4,
        )  # fmt: skip

    found, counted = given_back(doubled, rows(b"a", b"b"))
    assert [(offset, value) for _, _, offset, _, value in found] == [
        (100, b"1"), (100, b"2"), (101, b"3"), (101, b"4")
    ]  # fmt: skip
    assert counted.dropped == {}


def test_rows_that_name_the_source_topic_keep_their_order_among_those_that_name_none() -> None:
    def named(messages: MessageColumns) -> MessageColumns:
        messages.topics = [None, "orders", None, "other", "orders"]
        return messages

    found, _ = given_back(named, rows(b"a", b"b", b"c", b"d", b"e"))
    assert [(topic, value) for topic, _, _, _, value in found] == [
        (None, b"a"), (None, b"b"), (None, b"c"), (None, b"e"), ("other", b"d")
    ]  # fmt: skip


def test_drop_drops_all_of_a_set() -> None:
    found, counted = given_back(lambda messages: DROP, rows(b"a", b"b", b"c"))
    assert (found, counted.dropped) == ([], {"orders": 3})


def test_keep_wants_a_value_for_each_row() -> None:
    with pytest.raises(MessageHandlerFailed, match=r"raised ValueError: keep\(\) got 1 values for 2 rows"):
        given_back(lambda messages: messages.keep([True]), rows(b"a", b"b"))


def changed(**columns: Any) -> Callable[[MessageColumns], MessageColumns]:
    def handler(messages: MessageColumns) -> MessageColumns:
        for name, column in columns.items():
            setattr(messages, name, column)
        return messages

    return handler


@pytest.mark.parametrize(
    ("function", "why", "offset"),
    [
        (
            lambda messages: None,
            "gave back a NoneType, not the columns it was given, other MessageColumns, or DROP",
            None,
        ),
        (lambda messages: [messages], "gave back a list, not the columns it was given", None),
        (lambda messages: {}["k"], "raised KeyError: 'k'", None),
        (
            changed(values=[b"1"]),
            "gave back columns of different lengths: 3 offsets, 3 keys, 1 values",
            None,
        ),
        (changed(topics=["t"]), "gave back columns of different lengths: ", None),
        (changed(offsets=[102, 101, 100]), "gave back offsets that do not ascend, or that it was not given", None),
        (changed(offsets=[100, 101, 103]), "gave back offsets that do not ascend, or that it was not given", None),
        (changed(values=[b"1", "2", b"3"]), "gave back a str in values, not bytes or None", 101),
        (changed(keys=[b"1", None, 3]), "gave back a int in keys, not bytes or None", 102),
        (changed(timestamps_ms=[1, 2.5, 3]), "gave back a float in timestamps_ms, not int or None", 101),
        (changed(topics=[None, None, b"t"]), "gave back a bytes in topics, not str or None", 102),
    ],
)
def test_what_it_must_not_give_back(function: Any, why: str, offset: int | None) -> None:
    with pytest.raises(MessageHandlerFailed) as failed:
        handler_of(function).handled(SOURCE, rows(b"a", b"b", b"c"))
    where = f"at {offset}" if offset else "at 100 to 102"
    assert str(failed.value).startswith(f"orders/3 {where}: message.set.handler a:b {why}")
    assert failed.value.offset == offset


@pytest.mark.parametrize(("key", "value", "what"), [(b"k", b"v", "a key"), (None, None, "no value")])
def test_a_target_of_0_7_takes_neither_keys_nor_nulls(key: bytes | None, value: bytes | None, what: str) -> None:
    handler = handler_of(changed(keys=[None, key], values=[b"x", value]), V07)
    with pytest.raises(MessageHandlerFailed, match=f"orders/3 at 101: message.set.handler a:b gave back {what}: "):
        handler.handled(SOURCE, Rows([100, 101], [None, None], [b"a", b"b"], [None, None], 102))


# ---- in the flow of sets ----------------------------------------------------------------------------------------


def kept(found: Iterable[Step], steps: list[Step]) -> None:
    """Into steps as they come: a failure loses none that came before."""
    for step in found:
        steps.append(step)


def arrived(steps: Iterable[Step], speaks: Any = V08) -> list[bytes | None]:
    found = []
    for part in (part for step in steps for part in step.parts):
        message_set, _ = speaks.messages.message_set("t", 0, 0, memoryview(bytes(part.entries)), None)
        found += [message.value for message in message_set.messages()]
    return found


def handled_set(
    message_set: MessageSet, function: SetHandlerFunction, steps: list[Step], target: Any = V08
) -> SetHandler:
    """Into steps what a handler makes of a set, all for one partition."""
    handler = handler_of(function, target)

    def place(of: Rows) -> Placed:
        given = handler.handled(message_set.tp, of)
        handler.count_dropped(message_set.tp, of, given)
        columns = given.columns
        lists = Lists(list(columns.keys), list(columns.values), list(columns.timestamps_ms))
        return Placed({TopicPartition("t", 0): lists} if len(columns) else {}, of.resume_at)

    kept(by_columns(message_set, narrowed(place), target, LIMIT, least_bytes=8 << 20), steps)
    return handler


def set_08(stretches: list[tuple[int, list[bytes]]]) -> MessageSet:
    stored, base = b"", 100
    for codec, values in stretches:
        stored += V08.messages.encode([(base + n, None, v, None) for n, v in enumerate(values)], codec=codec, magic=0)
        base += len(values)
    return V08.messages.message_set("orders", 3, 100, memoryview(stored), None)[0]  # type: ignore[no-any-return]


def set_07(stretches: list[tuple[int, list[bytes]]]) -> MessageSet:
    stored = b"".join(
        V07.messages.encode([(0, None, value, None) for value in values], codec=codec, magic=-1)
        for codec, values in stretches
    )
    source = BrokerPartition(3, 1)
    return V07.messages.message_set("orders", source, 1000, memoryview(stored), None)[0]  # type: ignore[no-any-return]


def test_wrappers_of_one_codec_come_in_one_call_and_keep_it() -> None:
    calls: list[list[bytes | None]] = []

    def handler(messages: MessageColumns) -> MessageColumns:
        calls.append(list(messages.values))
        return messages

    steps: list[Step] = []
    handled_set(set_08([(1, [b"a", b"b"]), (1, [b"c"]), (0, [b"d", b"e"]), (2, [b"f"])]), handler, steps)
    assert calls == [[b"a", b"b", b"c"], [b"d", b"e"], [b"f"]]
    assert arrived(steps) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert [part.codec for step in steps for part in step.parts] == [1, 0, 2]


stretches = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 2]), st.lists(st.binary(max_size=20), min_size=1, max_size=7)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(stretches, st.integers(0, 40), st.booleans())
def test_everything_before_the_message_that_fails_is_sent_and_nothing_behind_it(
    found: list[tuple[int, list[bytes]]], bad: int, seven: bool
) -> None:
    """Of 0.7 the messages of an entry share its offset: all of them are sent, or none."""
    message_set = set_07(found) if seven else set_08(found)
    messages = list(message_set.messages())
    bad %= len(messages)
    offset = messages[bad].offset

    def fails(columns: MessageColumns) -> MessageColumns:
        if offset in list(columns.offsets):
            raise ValueError("no")
        return columns

    steps: list[Step] = []
    with pytest.raises(MessageHandlerFailed) as failed:
        handled_set(message_set, fails, steps)
    assert f" at {offset}: message.set.handler a:b raised ValueError: no" in str(failed.value)
    assert failed.value.offset == offset
    assert arrived(steps) == [message.value for message in messages if message.offset < offset]
    if steps:
        assert steps[-1].resume_at == offset
    ends = [step.resume_at for step in steps]
    assert ends == sorted(set(ends))


def test_damage_behind_good_messages_is_raised_behind_them() -> None:
    stored = bytearray(bytes(set_08([(0, [b"a" * 20, b"b" * 20, b"c" * 20])]).buffer))
    stored[-1] ^= 1
    message_set, _ = V08.messages.message_set("orders", 3, 100, memoryview(bytes(stored)), None)
    steps: list[Step] = []
    with pytest.raises(CorruptMessage):
        handled_set(message_set, lambda columns: columns, steps)
    assert arrived(steps) == [b"a" * 20, b"b" * 20]
    assert steps[-1].resume_at == 102


# ---- the routes -------------------------------------------------------------------------------------------------


def test_a_set_handler_decodes_and_is_named_by_the_route() -> None:
    rules = RouteRules(source=V08, target=V08, message_max_bytes=LIMIT, set_handler="a:b")
    chosen: Route = rules.choose("t", 4, 4)
    assert str(chosen) == "re-encode: message.set.handler a:b sees every set"
    assert (chosen.single_target, chosen.by_message) == (False, False)


def test_a_partition_that_the_target_lacks_names_the_message() -> None:
    route = TopicRoute(
        "orders", SourceTopic(4, 1), range(2), RouteRules(source=V08, target=V08, message_max_bytes=LIMIT)
    )
    with pytest.raises(MessageHandlerFailed) as failed:
        route.place(SOURCE, rows(b"a", b"b", b"c"), {}, [0, 1, 2])
    assert str(failed.value) == "orders/3 at 102: message.set.handler: topic orders has no partition 2; it has 0, 1"
    assert failed.value.offset == 102


# ---- rows that come back as they were ---------------------------------------------------------------------------


def by_flow(
    message_set: MessageSet, function: SetHandlerFunction, to: Any, partitioning: str, steps: list[Step]
) -> tuple[Flow, list[list[bool]], str | None]:
    """Into steps what a flow makes of a set; with which rows it copied as they were, and how it failed."""
    rules = RouteRules(
        source=logs.V39, target=to, message_max_bytes=LIMIT, set_handler="a:b", partitioning=partitioning,  # type: ignore[arg-type]
        drop=frozenset({"headers", "timestamps"}),
    )  # fmt: skip
    flow = Flow(
        SimpleNamespace(name="dc1", in_target=False, deleted={}),  # type: ignore[arg-type]
        SimpleNamespace(sender_of=lambda source: None),  # type: ignore[arg-type]
        rules,
        TaskGroup(),
        handler=handler_of(function, to),
    )
    route = TopicRoute("t", SourceTopic(3, 1), range(3), rules)
    copied: list[list[bool]] = []
    shares = route.shares

    def spied(source: TopicPartition, stretches: Any, those: list[bool]) -> Any:
        copied.append(those)
        return shares(source, stretches, those)

    route.shares = spied  # type: ignore[method-assign]
    failed: str | None = None
    try:
        for step in route.steps(message_set, True, place=flow._handling(route, message_set.tp)):
            steps.append(step)
    except MessageHandlerFailed as refused:
        failed = str(refused)
    return flow, copied, failed


@settings(max_examples=80, deadline=None)
@given(
    logs.STRETCHES, st.sampled_from([V08, V010, logs.V39]), st.sampled_from(["key", "identity"]), st.integers(1, 5),
    st.booleans(), st.none() | st.integers(0, 99),
)  # fmt: skip
def test_messages_that_come_back_as_they_were_arrive_as_those_that_are_written_again(
    stretches: Any, to: Any, partitioning: str, dropped: int, compiled: bool, bad: int | None
) -> None:
    """The twin gives back the same rows with a column more, which has each of them written again."""
    message_set = logs.fetched(logs.log(stretches, 0))

    def wanted(messages: MessageColumns) -> MessageColumns:
        if bad is not None and 100 + bad in messages.offsets:
            raise KeyError("bad")
        return messages.keep(offset % dropped or dropped == 1 for offset in messages.offsets)

    def again(messages: MessageColumns) -> MessageColumns:
        found = wanted(messages)
        found.topics = [None] * len(found)
        return found

    with pytest.MonkeyPatch.context() as monkeypatch:
        if not compiled:
            logs.in_python(monkeypatch)
        steps: list[Step] = []
        slowly: list[Step] = []
        flow, copied, failed = by_flow(message_set, wanted, to, partitioning, steps)
        twin, nothing, failed_too = by_flow(message_set, again, to, partitioning, slowly)
    assert logs.read(steps) == logs.read(slowly)
    assert (failed, flow.left_out, flow.dropped_fields) == (failed_too, twin.left_out, twin.dropped_fields)
    assert [step.resume_at for step in steps][-1:] == [step.resume_at for step in slowly][-1:]
    assert nothing == []
    assert copied or failed is not None


def in_place(messages: MessageColumns) -> MessageColumns:
    messages.values[1] = b"other"  # type: ignore[index]
    return messages


def shortened(messages: MessageColumns) -> MessageColumns:
    messages.keep([True, False])
    messages.keys = [b"new"]
    return messages


@pytest.mark.parametrize(
    ("function", "copied", "values"),
    [
        (lambda messages: messages, [[True, True]], [b"a", b"b"]),
        (lambda messages: messages.keep([False, True]), [[False, True]], [b"b"]),
        (lambda messages: DROP, [[False, False]], []),
        (in_place, [], [b"a", b"other"]),
        (shortened, [], [b"a"]),
        (changed(timestamps_ms=[5, 5]), [], [b"a", b"b"]),
        (changed(partitions=[2, None]), [], [b"a", b"b"]),
        (changed(headers=[(), (("h", b"1"),)]), [], [b"a", b"b"]),
    ],
)
def test_only_rows_of_which_nothing_was_changed_are_copied(
    function: Any, copied: list[list[bool]], values: list[bytes]
) -> None:
    steps: list[Step] = []
    messages = [(b"k", value, 7, None) for value in (b"a", b"b")]
    found = by_flow(logs.fetched(logs.log([(2, 0, False, messages)], 0)), function, logs.V39, "identity", steps)
    assert found[1:] == (copied, None)
    assert [row[1] for rows in logs.read(steps).values() for row in rows] == values
    assert steps[-1].resume_at == 102
