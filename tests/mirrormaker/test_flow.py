"""A flow: topics that are not ready wait beside the others, and a failure ends exactly before itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groundwork.tasks import TaskGroup, now, sleep, wait_any
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import dialect
from kafkawire.errors import LocalError
from kafkawire.formats.v01 import messages as v08
from kafkawire.model import Message, MessageSet, Part, TopicPartition
from mirrormaker.encoding import Encoder, Encoders
from mirrormaker.flow import PLAIN_DELIVERY, RETRY_MIN_S, Delivery, Flow, carry
from mirrormaker.handler import DROP, Handler, MessageHandler, Send
from mirrormaker.offsetmap.checkpoints import Checkpoint
from mirrormaker.offsetmap.file import FileStorage
from mirrormaker.offsetmap.recorder import MapRecorder
from mirrormaker.offsetmap.tickets import MapTickets
from mirrormaker.partitioning import HASHED, ChosenPartitioner
from mirrormaker.report import COPIED, ENCODED
from mirrormaker.routes import AsConfigured, RouteRules, SourceTopic
from mirrormaker.selection import Selection
from mirrormaker.sethandler import MessageColumns, SetHandler, SetHandlerFunction
from mirrormaker.topics import TopicMissing
from zkconsumer.errors import Closed
from zkconsumer.fetching.position import Reset
from zkconsumer.offsetmap.file import read_map
from zkconsumer.offsetmap.text import Header

SPEAKS = dialect("0.8.2")


def fetched(topic: str, partition: int, start: int, count: int = 2, value: bytes = b"v") -> MessageSet:
    rows = [(start + n, None, b"%s-%d" % (value, start + n), None) for n in range(count)]
    return v08.message_set(topic, partition, start, memoryview(v08.encode(rows)), 100)[0]


class Share:
    """Tickets as a cursor gives them: (resume_at, parts), and what each was told."""

    period = "one"
    topic: int | None = None
    reset: Reset | None = None

    def __init__(self) -> None:
        self.tickets: list[tuple[int, int]] = []
        self.told: list[tuple[object, ...]] = []

    @property
    def ended(self) -> Callable[[], bool]:
        return lambda: False

    def holding(self) -> Callable[[], bool]:
        return lambda: True

    def ticket(self, resume_at: int, parts: int = 1) -> Share:
        self.tickets.append((resume_at, parts))
        return self

    def may_send(self) -> bool:
        return True

    def reached(self, resume_at: int) -> None:
        self.told.append(("reached", resume_at))

    def done(self) -> None:
        self.told.append(("done",))

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self.told.append(("failed", str(reason), resume_at))


class Sends:
    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.tickets: list[Any] = []

    def submit(self, part: Part, ticket: object) -> None:
        self.parts.append(part)
        self.tickets.append(ticket)

    def values(self) -> list[tuple[TopicPartition, bytes | None]]:
        found = []
        for part in self.parts:
            message_set, _ = v08.message_set("t", 0, 0, memoryview(bytes(part.entries)), 0)
            found += [(part.tp, message.value) for message in message_set.messages()]
        return found


class Targets:
    """Counts by topic; a topic without one is missing."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts
        self.asked: list[str] = []

    def prepare(self, topic: str, source: SourceTopic) -> range:
        self.asked.append(topic)
        sleep(0)
        if topic not in self.counts:
            raise TopicMissing(f"target topic {topic} does not exist")
        return range(self.counts[topic])


def flow_of(
    tasks: TaskGroup,
    topics: Targets,
    sends: Sends,
    *,
    handler: Handler | None = None,
    set_handler: SetHandlerFunction | None = None,
    source_topic: Callable[[str], SourceTopic] = lambda name: SourceTopic(2, 1),
    delivery: Delivery = PLAIN_DELIVERY,
    name: str = "dc1",
    selection: Selection | None = None,
    in_target: bool = False,
    **rules: Any,
) -> Flow:
    rules = {"source": SPEAKS, "target": SPEAKS, "message_max_bytes": 1000012, **rules}
    given: MessageHandler | SetHandler | None = None
    if handler is not None:
        given = MessageHandler(handler, "a:b", "dc1", SPEAKS)
    elif set_handler is not None:
        given = SetHandler(set_handler, "a:b", "dc1", rules["target"])
    return Flow(
        SimpleNamespace(name=name, topic=source_topic, in_target=in_target, deleted={}),  # type: ignore[arg-type]
        SimpleNamespace(topics=topics, sender_of=lambda source: sends, writers={}),  # type: ignore[arg-type]
        RouteRules(
            handler="a:b" if handler is not None else "", set_handler="a:b" if set_handler is not None else "", **rules
        ),
        tasks,
        handler=given,
        delivery=delivery,
        selection=selection,
    )


def until(condition: object) -> None:
    assert callable(condition)
    for _ in range(500):
        if condition():
            return
        sleep(0.01)
    raise AssertionError("waited 5 s in vain")


def test_a_topic_that_is_not_ready_waits_and_its_neighbours_flow(tasks: TaskGroup) -> None:
    targets, sends = Targets(there=2), Sends()
    flow = flow_of(tasks, targets, sends)
    sets = [fetched("missing", 0, 0), fetched("there", 0, 0), fetched("missing", 0, 2), fetched("there", 1, 0)]
    carry(((one, Share()) for one in sets), flow.take)
    until(lambda: len(sends.parts) == 2 and flow.waiting)
    assert {part.tp.topic for part in sends.parts} == {"there"}
    assert flow.waiting == {"missing": "target topic missing does not exist"}
    targets.counts["missing"] = 2
    until(lambda: len(sends.parts) == 4)
    assert [value for tp, value in sends.values() if tp.topic == "missing"] == [b"v-0", b"v-1", b"v-2", b"v-3"]
    assert flow.waiting == {}
    assert RETRY_MIN_S < 5


def test_what_comes_while_a_topic_is_made_ready_keeps_its_order(tasks: TaskGroup) -> None:
    sends = Sends()
    flow = flow_of(tasks, Targets(t=2), sends)
    for start in range(0, 20, 2):
        flow.take(fetched("t", 0, start), Share())
        sleep(0)
    until(lambda: len(sends.parts) == 10)
    assert [value for _, value in sends.values()] == [b"v-%d" % n for n in range(20)]


def test_a_new_source_partition_has_its_topic_looked_at_again(tasks: TaskGroup) -> None:
    targets, sends = Targets(t=2), Sends()
    grown = {"t": 2}
    flow = flow_of(tasks, targets, sends, source_topic=lambda name: SourceTopic(grown[name], 1))
    flow.take(fetched("t", 1, 0), Share())
    until(lambda: sends.parts)
    grown["t"] = 3
    flow.take(fetched("t", 2, 0), Share())
    until(lambda: len(sends.parts) == 2 and "t" in flow.topics)
    assert flow.topics["t"].route.partitioning == "key"
    assert targets.asked == ["t", "t"]
    assert sends.parts[1].tp.partition == 0  # no key: source partition 2 of 2 target partitions


def test_a_partition_that_the_target_does_not_have_fails_with_the_cure(tasks: TaskGroup) -> None:
    share, sends = Share(), Sends()
    flow = flow_of(tasks, Targets(t=1), sends, partitioning="identity")
    flow.take(fetched("t", 1, 7), share)
    until(lambda: share.told)
    [(what, reason, position)] = share.told
    assert (what, position) == ("failed", 7)
    assert reason == (
        "t/1: the target topic has 1 partition and mirror.partitioning is identity: "
        "add partitions to it (by hand, or mirror.target.grow.partitions: true), or set mirror.partitioning to auto "
        "or key"
    )
    assert sends.parts == []


def test_a_failing_handler_ends_its_set_exactly_before_its_message(tasks: TaskGroup) -> None:
    def picky(message: Message) -> object:
        if message.offset == 8:
            raise ValueError("no")
        return DROP if message.offset == 5 else message

    share, sends = Share(), Sends()
    flow = flow_of(tasks, Targets(t=2), sends, handler=picky)
    flow.take(fetched("t", 0, 5, count=6), share)
    until(lambda: share.told)
    assert [value for _, value in sends.values()] == [b"v-6", b"v-7"]
    assert share.tickets == [(8, 1), (11, 1)]
    assert share.told == [("failed", "t/0 at 8: message.handler a:b raised ValueError: no", 8)]
    assert flow.left_out == {("t", "message.handler"): 1}


def test_a_slow_handler_leaves_turns_to_other_tasks_inside_of_a_set(tasks: TaskGroup) -> None:
    seen: list[int] = []
    turns: list[int] = []  # how many messages were handled when another task ran

    def slow(message: Message) -> object:
        seen.append(message.offset)
        busy_until = now() + 0.005
        while now() < busy_until:
            pass
        return message

    def other() -> None:
        while True:
            turns.append(len(seen))
            sleep(0)

    sends = Sends()
    flow = flow_of(tasks, Targets(t=1), sends, handler=slow)
    flow.take(fetched("t", 0, 0, count=1), Share())
    until(lambda: sends.parts)
    tasks.spawn("other", other)
    flow.take(fetched("t", 0, 1, count=40), Share())
    until(lambda: len(seen) == 41)
    assert len({count for count in turns if 1 < count < 41}) >= 10


def test_a_set_that_a_handler_drops_whole_is_done_at_once(tasks: TaskGroup) -> None:
    share, sends = Share(), Sends()
    flow = flow_of(tasks, Targets(t=2), sends, handler=lambda message: DROP)
    flow.take(fetched("t", 0, 5), share)
    until(lambda: share.told)
    assert (share.tickets, share.told, sends.parts) == ([(7, 1)], [("done",)], [])


def test_a_handler_that_sends_to_a_topic_which_nobody_creates_fails(tasks: TaskGroup) -> None:
    share = Share()
    flow = flow_of(tasks, Targets(t=2), Sends(), handler=lambda m: ("gone", m.key, m.value))
    flow.take(fetched("t", 0, 5), share)
    until(lambda: share.told)
    sentence = "message.handler sent a message of t to gone: target topic gone does not exist"
    assert share.told == [("failed", sentence, 5)]


def test_a_handler_chooses_a_partition_and_one_that_is_not_there_parks(tasks: TaskGroup) -> None:
    def picks(message: Message) -> object:
        assert message.value is not None
        return Send(message.value, partition=message.offset - 5)

    share, sends = Share(), Sends()
    flow = flow_of(tasks, Targets(t=2), sends, handler=picks)
    flow.take(fetched("t", 0, 5, count=4), share)
    until(lambda: share.told)
    assert sends.values() == [(TopicPartition("t", 0), b"v-5"), (TopicPartition("t", 1), b"v-6")]
    assert share.told == [("failed", "t/0 at 7: message.handler: topic t has no partition 2; it has 0, 1", 7)]


def test_a_set_handler_drops_changes_and_routes_rows(tasks: TaskGroup) -> None:
    def columns(messages: MessageColumns) -> MessageColumns:
        messages.keep(offset != 6 for offset in messages.offsets)
        messages.values = [b"new " + value for value in messages.values if value is not None]
        messages.topics = ["other" if offset == 8 else None for offset in messages.offsets]
        messages.partitions = [1 if offset == 7 else None for offset in messages.offsets]
        return messages

    share, sends = Share(), Sends()
    flow = flow_of(tasks, Targets(t=2, other=1), sends, set_handler=columns)
    flow.take(fetched("t", 0, 5, count=5), share)
    until(lambda: len(sends.parts) == 3)
    assert sorted(sends.values()) == [
        (TopicPartition("other", 0), b"new v-8"),
        (TopicPartition("t", 0), b"new v-5"),
        (TopicPartition("t", 0), b"new v-9"),
        (TopicPartition("t", 1), b"new v-7"),
    ]
    assert (share.tickets, flow.left_out) == ([(10, 3)], {("t", "message.set.handler"): 1})


def test_what_a_set_handler_gives_back_is_counted_as_copied_or_as_encoded_again(tasks: TaskGroup) -> None:
    def columns(messages: MessageColumns) -> MessageColumns:
        if messages.partition:
            messages.keys = [b"k"] * len(messages)
        return messages.keep(not value.endswith(b"1") for value in messages.values if value)

    sends = Sends()
    flow = flow_of(tasks, Targets(t=2), sends, set_handler=columns)
    flow.take(fetched("t", 0, 0, 5), Share())
    flow.take(fetched("t", 1, 0, 3), Share())
    until(lambda: len(sends.parts) == 2)
    assert flow.handled == {("t", COPIED): 4, ("t", ENCODED): 2}


def test_a_topic_whose_messages_are_looked_at_waits_for_the_kernels_and_one_that_passes_does_not(
    tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, asked = [True], []
    monkeypatch.setattr("mirrormaker.flow.kernels.loading", lambda: loading[0])
    monkeypatch.setattr("mirrormaker.flow.kernels.compiled", lambda: asked.append(True))
    sends = Sends()
    flow = flow_of(tasks, Targets(few=1, t=2), sends)
    sets = [fetched("few", 0, 0), fetched("t", 0, 0), fetched("few", 1, 0), fetched("t", 1, 0)]
    carry(((one, Share()) for one in sets), flow.take)
    until(lambda: len(sends.parts) == 2 and asked)
    assert {part.tp.topic for part in sends.parts} == {"t"}
    loading[0] = False
    until(lambda: len(sends.parts) == 4)
    assert [value for tp, value in sends.values() if tp.topic == "few"] == [b"v-0", b"v-1", b"v-0", b"v-1"]
    assert len(asked) == 1


def test_kernels_that_take_long_are_not_waited_for_and_ones_that_are_not_there_are_named(
    tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise LocalError("KAFKAWIRE_KERNELS=numba: numba is not installed")

    monkeypatch.setattr("mirrormaker.flow.KERNELS_S", 0.05)
    monkeypatch.setattr("mirrormaker.flow.kernels.loading", lambda: True)
    monkeypatch.setattr("mirrormaker.flow.kernels.compiled", lambda: None)
    sends, share = Sends(), Share()
    flow = flow_of(tasks, Targets(few=1, more=1), sends)
    flow.take(fetched("few", 0, 0), Share())
    until(lambda: len(sends.parts) == 1)
    monkeypatch.setattr("mirrormaker.flow.kernels.compiled", missing)
    flow.take(fetched("more", 0, 0), share)
    until(lambda: share.told)
    assert share.told == [("failed", "KAFKAWIRE_KERNELS=numba: numba is not installed", 0)]


def test_a_failing_set_handler_parks_at_its_message_counts_each_drop_once_and_logs_one_traceback(
    tasks: TaskGroup, caplog: pytest.LogCaptureFixture
) -> None:
    def columns(messages: MessageColumns) -> MessageColumns:
        if b"v-11" in messages.values:
            raise ValueError("no")
        return messages.keep(offset % 2 for offset in messages.offsets)

    share, sends = Share(), Sends()
    flow = flow_of(tasks, Targets(t=2), sends, set_handler=columns)
    flow.take(fetched("t", 0, 5, count=9), share)
    until(lambda: share.told)
    assert [value for _, value in sends.values()] == [b"v-5", b"v-7", b"v-9"]
    assert share.told == [("failed", "t/0 at 11: message.set.handler a:b raised ValueError: no", 11)]
    assert flow.left_out == {("t", "message.set.handler"): 3}
    assert sum(hasattr(record, "below") for record in caplog.records) == 1  # where it was raised


def test_a_set_handler_that_sends_to_a_topic_which_nobody_creates_fails(tasks: TaskGroup) -> None:
    def columns(messages: MessageColumns) -> MessageColumns:
        messages.topics = ["gone"] * len(messages)
        return messages

    share = Share()
    flow = flow_of(tasks, Targets(t=2), Sends(), set_handler=columns)
    flow.take(fetched("t", 0, 5), share)
    until(lambda: share.told)
    sentence = "message.set.handler sent a message of t to gone: target topic gone does not exist"
    assert share.told == [("failed", sentence, 5)]


def test_an_encoder_and_a_partitioner_of_a_program_park_where_they_fail(tasks: TaskGroup) -> None:
    def encode(data: bytes | None) -> bytes | None:
        assert data is not None
        return data.replace(b"v-6", b"").upper() or None

    def third(key: bytes, partitions: int) -> int:
        return 1 if key == b"V-5" else partitions

    keyed = fetched_with_keys("t", 0, 5, count=4)
    for failing, sentence in (
        (third, "t/0 at 6: partitioner.class a:third gave back 2 for 2 partitions: 0 to 1 are there"),
        (None, "t/0 at 7: serializer.class a:encode raised ValueError: 7"),
    ):
        encoders = Encoders(
            Encoder("serializer.class", "a:encode", encode if failing else fails_at(b"v-7")),
            Encoder("key.serializer.class", "a:upper", bytes.upper),
        )
        chosen = ChosenPartitioner("a:third", failing) if failing else HASHED
        share, sends = Share(), Sends()
        flow = flow_of(tasks, Targets(t=2), sends, encoders=encoders, partitioner=lambda topic, one=chosen: one)
        flow.take(keyed, share)
        until(lambda share=share: share.told)
        assert share.told == [("failed", sentence, int(sentence.split()[2].rstrip(":")))]
        assert sends.values()[0] == (TopicPartition("t", 1 if failing else 0), b"V-5" if failing else b"v-5")


def fails_at(value: bytes) -> Callable[[bytes | None], bytes | None]:
    def encode(data: bytes | None) -> bytes | None:
        if data == value:
            raise ValueError(value[-1:].decode())
        return data

    return encode


def fetched_with_keys(topic: str, partition: int, start: int, count: int) -> MessageSet:
    rows = [(start + n, b"v-%d" % (start + n), b"v-%d" % (start + n), None) for n in range(count)]
    return v08.message_set(topic, partition, start, memoryview(v08.encode(rows)), 100)[0]


def test_a_codec_is_asked_for_only_of_its_topics(tasks: TaskGroup) -> None:
    sends = Sends()
    flow = flow_of(tasks, Targets(packed=2, loose=2), sends, codec="gzip", compressed_topics=("packed",))
    for topic in ("packed", "loose"):
        flow.take(fetched(topic, 0, 0), Share())
    until(lambda: len(sends.parts) == 2)
    assert {part.tp.topic: part.codec for part in sends.parts} == {"packed": 1, "loose": 0}
    assert wait_any([tasks.dead], 0) == []


def test_a_topic_that_is_forgotten_is_looked_at_again_unless_keys_choose_its_partitions(tasks: TaskGroup) -> None:
    targets, sends, share = Targets(t=1, k=1), Sends(), Share()
    flow = flow_of(tasks, targets, sends, partitioning="identity")
    flow.take(fetched("t", 1, 7), share)
    until(lambda: share.told)
    targets.counts["t"] = 2
    flow.forget_route("t")
    flow.take(fetched("t", 1, 7), Share())
    until(lambda: sends.parts)
    assert sends.parts[0].tp == TopicPartition("t", 1)
    by_key = flow_of(tasks, targets, sends)
    by_key.take(fetched("k", 1, 0), Share())
    until(lambda: "k" in by_key.topics)
    by_key.forget_route("k")
    assert "k" in by_key.topics


def test_a_stop_does_not_hide_why_a_topic_waits(tasks: TaskGroup) -> None:
    looks: list[str] = []

    def source_topic(topic: str) -> SourceTopic:
        looks.append(topic)
        if len(looks) > 1:
            raise Closed("the connector was shut down")
        return SourceTopic(1, 1)

    flow = flow_of(tasks, Targets(), Sends(), source_topic=source_topic)
    flow.take(fetched("brandnew", 0, 0), Share())
    until(lambda: len(looks) == 2)
    sleep(0)
    assert flow.waiting == {"brandnew": "target topic brandnew does not exist"}


# ---- what a flow is given --------------------------------------------------------------------------------------


def test_the_tickets_of_an_offset_map_record_where_parts_were_stored(tmp_path: Path, tasks: TaskGroup) -> None:
    recorder = MapRecorder(FileStorage(tmp_path / "m", Header("dc1", "g"), 1 << 20), 1)
    sends, share, tp = Sends(), Share(), TopicPartition("t", 1)
    flow = flow_of(tasks, Targets(t=2), sends, delivery=Delivery(tickets=MapTickets(recorder)))
    flow.take(fetched("t", 1, 7), share)
    until(lambda: sends.tickets)
    [ticket] = sends.tickets
    ticket.placed(2, 500, True)
    ticket.done()
    recorder.before_commit({tp: 9})
    recorder.close()
    assert share.told == [("done",)]
    assert recorder.checkpoint(tp, tp) == Checkpoint(9, 502)


def test_a_gate_decides_when_a_set_goes_on_and_its_reasons_are_shown(tasks: TaskGroup) -> None:
    held: list[Callable[[], object]] = []
    delivery = Delivery(
        admit=lambda fetched, share, topic, forward: held.append(lambda: forward(topic, fetched, share, 1)),
        waiting={"t/0": "resume: not read yet"},
    )
    sends = Sends()
    flow = flow_of(tasks, Targets(t=2), sends, delivery=delivery)
    flow.take(fetched("t", 0, 0), Share())
    until(lambda: held)
    assert (flow.waiting, sends.parts) == ({"t/0": "resume: not read yet"}, [])
    held.pop()()
    assert sends.values() == [(TopicPartition("t", 0), b"v-1")]  # the first one was in the target


def test_flows_of_two_sources_share_a_target_and_wait_by_themselves(tasks: TaskGroup) -> None:
    targets, sends = Targets(t=2), Sends()
    near, far = (flow_of(tasks, targets, sends, name=name) for name in ("near", "far"))
    far.take(fetched("missing", 0, 0), Share())
    near.take(fetched("t", 0, 0, value=b"near"), Share())
    far.take(fetched("t", 0, 0, value=b"far"), Share())
    until(lambda: len(sends.parts) == 2 and far.waiting)
    assert sorted(value for _, value in sends.values()) == [b"far-0", b"far-1", b"near-0", b"near-1"]
    assert (near.waiting, list(far.waiting)) == ({}, ["missing"])


# ---- a target topic that is deleted ----------------------------------------------------------------------------


class Deleted(Targets):
    """view() says what is there; prepare() creates once it may."""

    def __init__(self, **counts: int) -> None:
        super().__init__(**counts)
        self.creates: dict[str, int] = {}

    def view(self) -> ClusterView:
        return ClusterView({}, {topic: dict.fromkeys(range(n), PartitionView(0)) for topic, n in self.counts.items()})

    def prepare(self, topic: str, source: SourceTopic) -> range:
        if topic in self.creates:
            self.counts[topic] = self.creates[topic]
        return super().prepare(topic, source)


def flowing(tasks: TaskGroup, targets: Targets) -> Flow:
    sends = Sends()
    flow = flow_of(tasks, targets, sends)
    carry([(fetched("t", 0, 0), Share())], flow.take)  # type: ignore[list-item]
    until(lambda: sends.parts)
    return flow


def test_a_target_topic_that_is_gone_is_created_again_and_waits_meanwhile(
    tasks: TaskGroup, caplog: pytest.LogCaptureFixture
) -> None:
    targets = Deleted(t=2)
    flow = flowing(tasks, targets)
    assert not flow.target_is_gone("other")  # nothing is sent there from here
    del targets.counts["t"]
    assert flow.target_is_gone("t")
    assert flow.target_is_gone("t")  # it is seen to already
    until(lambda: "does not exist" in flow.waiting.get("t", ""))
    targets.creates["t"] = 2
    until(lambda: not flow.waiting)
    assert list(flow.topics) == ["t"]
    assert sum("target topic t is gone" in record.getMessage() for record in caplog.records) == 1


def test_a_topic_that_a_broker_does_not_know_yet_is_not_gone(
    tasks: TaskGroup, caplog: pytest.LogCaptureFixture
) -> None:
    targets = Deleted(t=2)
    flow = flowing(tasks, targets)
    for _ in range(100):
        assert flow.target_is_gone("t")  # a hundred partitions, and brokers that are told one after the other
    sleep(RETRY_MIN_S / 2)
    assert flow.waiting == {}
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_topic_that_comes_back_with_other_partitions_gets_another_route(tasks: TaskGroup) -> None:
    targets = Deleted(t=2)
    flow = flowing(tasks, targets)
    del targets.counts["t"]
    targets.creates["t"] = 1
    assert flow.target_is_gone("t")
    until(lambda: "t" not in flow.topics)
    carry([(fetched("t", 0, 2), Share())], flow.take)  # type: ignore[list-item]
    until(lambda: "t" in flow.topics)
    assert flow.topics["t"].route.partitioning == "key"


# ---- names in the target -----------------------------------------------------------------------------------------


class Growing(Targets):
    """grow() adds partitions."""

    def grow(self, topic: str, partitions: int) -> range:
        self.counts[topic] = partitions
        return range(partitions)


def test_a_topic_goes_to_its_name_in_the_target_and_what_a_handler_says_is_literal(tasks: TaskGroup) -> None:
    sends, targets = Sends(), Targets(**{"dc1.t": 2, "there": 2, "t": 2})
    flow = flow_of(
        tasks, targets, sends,
        handler=lambda m: [m, (m.key, b"pair"), ("there", m.key, b"other")],
        selection=Selection(source="dc1", whitelist=".*", prefix="dc1."),
    )  # fmt: skip
    flow.take(fetched("t", 1, 0, count=1), Share())
    until(lambda: len(sends.parts) == 2)
    assert sorted(sends.values()) == [
        (TopicPartition("dc1.t", 1), b"pair"),
        (TopicPartition("dc1.t", 1), b"v-0"),
        (TopicPartition("there", 1), b"other"),
    ]
    assert "t" not in targets.asked
    assert not flow.target_is_gone("t")


def test_a_deleted_source_topic_waits_as_long_as_it_is_selected(tasks: TaskGroup) -> None:
    flow = flow_of(tasks, Targets(), Sends(), selection=Selection(source="dc1", whitelist="t|u"))
    flow.source.deleted.update(t="topic t was deleted", left="topic left was deleted")  # type: ignore[attr-defined]
    assert flow.waiting == {"t": "topic t was deleted"}


def test_a_renamed_target_topic_that_is_gone_is_created_again(tasks: TaskGroup) -> None:
    targets, sends = Deleted(both=2), Sends()
    names = Selection(source="dc1", whitelist=".*", rename={"a": "both", "b": "both"})
    flow = flow_of(tasks, targets, sends, selection=names)
    for topic in ("a", "b"):
        flow.take(fetched(topic, 0, 0), Share())
    until(lambda: len(flow.topics) == 2)
    del targets.counts["both"]
    assert flow.target_is_gone("both")
    until(lambda: any("does not exist" in why for why in flow.waiting.values()))  # of the topic that came first
    targets.creates["both"] = 1
    until(lambda: not flow.topics and not flow.waiting)  # both are looked at again


def test_a_topic_that_would_feed_itself_is_parked_until_it_does_not(tasks: TaskGroup) -> None:
    sends, refused, share = Sends(), Share(), Share()
    names = Selection(source="dc1", whitelist="a|b|copy.b", prefix="copy.")
    flow = flow_of(tasks, Targets(**{"copy.a": 2, "copy.b": 2}), sends, selection=names, in_target=True)
    flow.take(fetched("b", 0, 5), refused)
    flow.take(fetched("a", 0, 0), share)
    until(lambda: refused.told and sends.parts)
    assert {part.tp.topic for part in sends.parts} == {"copy.a"}
    [(what, reason, position)] = refused.told
    assert (what, position, "it would feed itself" in str(reason)) == ("failed", 5, True)
    assert flow.waiting == {"b": reason}
    flow.selection = Selection(source="dc1", whitelist="a|b", prefix="copy.")
    flow.take(fetched("b", 0, 5), share)  # a retry
    until(lambda: "b" in flow.topics)
    assert flow.waiting == {}


def test_a_topic_of_an_internal_name_is_parked_and_the_target_is_not_asked_for_it(tasks: TaskGroup) -> None:
    targets, sends, refused = Targets(__transaction_state=50, t=2), Sends(), [Share(), Share()]
    names = Selection(source="dc1", whitelist=".*", exclude_internal=False, rename={"b": "__share_group_state"})
    flow = flow_of(tasks, targets, sends, selection=names)
    flow.take(fetched("__transaction_state", 0, 5), refused[0])
    flow.take(fetched("b", 0, 7), refused[1])
    flow.take(fetched("t", 0, 0), Share())
    until(lambda: all(share.told for share in refused) and sends.parts)
    assert targets.asked == ["t"]
    assert [(share.told[0][0], share.told[0][2]) for share in refused] == [("failed", 5), ("failed", 7)]
    assert set(flow.waiting) == {"__transaction_state", "b"}
    assert "b would be written to __share_group_state, which is internal" in flow.waiting["b"]


def test_no_message_of_a_source_gets_into_the_offset_map_or_among_the_dead_letters(tasks: TaskGroup) -> None:
    """A keyed message of the source's topic mirror.map moved a translated offset from 0 to 60."""
    own = {"mirror.map": "offset.map.topic", "dead": "dead.letter.topic"}
    targets, refused = Targets(**{"mirror.map": 1, "dead": 1}), [Share(), Share(), Share()]
    names = Selection(source="dc1", whitelist=".*", own=own)
    flow = flow_of(tasks, targets, Sends(), selection=names, handler=lambda m: ("dead", m.key, m.value))
    targets.counts["t"] = 1
    for topic, share in zip(("mirror.map", "dead", "t"), refused, strict=True):
        flow.take(fetched(topic, 0, 5), share)
    until(lambda: all(share.told for share in refused))
    assert targets.asked == ["t"]
    assert {share.told[0][0] for share in refused} == {"failed"}
    assert "mirror.map would be written to mirror.map, which the mirror itself writes (offset.map.topic)" in str(
        refused[0].told
    )
    assert "message.handler sent a message of t to dead, which the mirror itself writes (dead.letter.topic)" in str(
        refused[2].told
    )


def test_no_message_of_a_source_gets_into_what_another_mirror_writes_for_itself(tasks: TaskGroup) -> None:
    """Two mirrors into one target: a stranger's source of the second forged the offset map of the first."""
    targets, refused = Targets(**{"eu.map": 1, "eu.map.dc1": 1, "dead": 1, "eu.t": 1}), [Share() for _ in range(4)]
    names = Selection(source="dc2", whitelist=".*", prefix="eu.", rename={"a": "dead"}, reserved=r"eu\.map(\..*)?,dead")
    flow = flow_of(tasks, targets, Sends(), selection=names, handler=lambda m: ("eu.map", m.key, m.value))
    for topic, share in zip(("map", "map.dc1", "a", "t"), refused, strict=True):
        flow.take(fetched(topic, 0, 5), share)
    until(lambda: all(share.told for share in refused))
    assert targets.asked == ["eu.t"]
    assert {share.told[0][0] for share in refused} == {"failed"}
    assert "would be written to eu.map, which reserved.topics 'eu" in str(refused[0].told)
    assert "message.handler sent a message of t to eu.map, which reserved.topics" in str(refused[3].told)


def test_a_handler_sends_nothing_to_an_internal_name(tasks: TaskGroup) -> None:
    share, targets = Share(), Targets(a=2, __transaction_state=50)
    flow = flow_of(tasks, targets, Sends(), handler=lambda m: ("__transaction_state", m.key, m.value))
    flow.take(fetched("a", 0, 5), share)
    until(lambda: share.told)
    assert "message.handler sent a message of a to __transaction_state, which is internal" in str(share.told)
    assert targets.asked == ["a"]


def test_a_handler_may_not_send_where_its_flow_reads(tasks: TaskGroup) -> None:
    share = Share()
    names = Selection(source="dc1", whitelist="a|b", rename={"a": "x", "b": "y"})
    flow = flow_of(
        tasks, Targets(x=2, b=2), Sends(), selection=names, in_target=True, handler=lambda m: ("b", m.key, m.value)
    )
    flow.take(fetched("a", 0, 5), share)
    until(lambda: share.told)
    [(what, reason, _)] = share.told
    assert what == "failed"
    assert "message.handler sent a message of a to b: topic a goes to b in the cluster that it comes from" in str(
        reason
    )


def test_where_a_target_topic_may_have_one_writer_only_the_second_is_refused(tasks: TaskGroup) -> None:
    share, sends = Share(), Sends()
    names = Selection(source="dc1", whitelist=".*", rename={"a": "one", "b": "one"})
    flow = flow_of(tasks, Targets(one=2), sends, selection=names, delivery=Delivery(alone=True))
    flow.take(fetched("a", 0, 0), Share())
    until(lambda: sends.parts)
    flow.take(fetched("b", 0, 0), share)
    until(lambda: share.told)
    assert "target topic one is fed by dc1/a and dc1/b: their messages are merged" in str(share.told)
    assert len(sends.parts) == 1


def test_a_target_topic_grows_with_its_source_unless_keys_choose(tasks: TaskGroup) -> None:
    grown, sends = {"t": 2, "k": 2}, Sends()
    targets = Growing(t=2, k=2)

    def of_topic(topic: str) -> AsConfigured:
        return AsConfigured(partitioning="key" if topic == "k" else "identity")

    flow = flow_of(
        tasks, targets, sends, source_topic=lambda name: SourceTopic(grown[name], 1), grow=True, of_topic=of_topic
    )
    for topic in grown:
        flow.take(fetched(topic, 1, 0), Share())
    until(lambda: len(sends.parts) == 2)
    grown.update(t=4, k=4)
    for topic in grown:
        flow.take(fetched(topic, 3, 0), Share())
    until(lambda: len(sends.parts) == 4)
    assert targets.counts == {"t": 4, "k": 2}
    assert [part.tp for part in sends.parts if part.tp.topic == "t"] == [TopicPartition("t", 1), TopicPartition("t", 3)]


@pytest.mark.parametrize("why", [TopicMissing, Unreachable])
def test_growth_that_cannot_be_holds_back_only_the_partitions_that_the_target_does_not_have(
    why: type[Exception], tasks: TaskGroup
) -> None:
    class Limited(Growing):
        most = 2

        def grow(self, topic: str, partitions: int) -> range:
            if partitions > self.most:
                raise why(f"target topic {topic} gets no partitions: it would have {partitions}")
            return super().grow(topic, partitions)

    targets, sends, beyond = Limited(t=2), Sends(), Share()
    flow = flow_of(tasks, targets, sends, source_topic=lambda name: SourceTopic(4, 1), grow=True)
    for partition, share in ((1, Share()), (3, beyond), (0, Share())):
        flow.take(fetched("t", partition, 7), share)
    until(lambda: len(sends.parts) == 2 and beyond.told)
    assert [part.tp.partition for part in sends.parts] == [1, 0]  # as they were numbered: keys choose no others
    assert beyond.told == [("failed", "t/3: target topic t gets no partitions: it would have 4", 7)]
    assert flow.waiting == {}
    targets.most = 4
    flow.forget_route("t")  # what each retry of a parked partition does
    flow.take(fetched("t", 3, 7), Share())
    until(lambda: len(sends.parts) == 3)
    assert sends.parts[2].tp == TopicPartition("t", 3)


def test_a_map_knows_a_topic_by_its_name_in_the_target(tmp_path: Path, tasks: TaskGroup) -> None:
    names = Selection(source="dc1", whitelist=".*", prefix="dc1.")
    recorder = MapRecorder(FileStorage(tmp_path / "m", Header("dc1", "g"), 1 << 20), 1, names.target)
    sends, share, here, there = Sends(), Share(), TopicPartition("t", 1), TopicPartition("dc1.t", 1)
    delivery = Delivery(tickets=MapTickets(recorder))
    flow = flow_of(tasks, Targets(**{"dc1.t": 2}), sends, delivery=delivery, selection=names, partitioning="key")
    flow.take(fetched("t", 1, 7), share)
    until(lambda: sends.tickets)
    for ticket in sends.tickets:
        ticket.placed(2, 500, True)
        ticket.done()
    recorder.before_commit({here: 9, TopicPartition("idle", 0): 3})
    recorder.close()
    assert recorder.checkpoint(here, there) == Checkpoint(9, 502)
    text = (tmp_path / "m").read_text()
    assert '["begin","t",1,7,"keys",' in text
    assert ',null,"dc1.t"]' in text
    assert ',null,"dc1.idle"]' in text
    assert read_map(tmp_path / "m").map.names("t") == {"dc1.t"}
