"""Callback handlers and event handlers: the order of the hooks, what they change, and that nothing vanishes in them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from groundwork.options import OptionError, load
from groundwork.tasks import TaskGroup
from kafkawire.errors import LocalError
from producer.config import ProducerConfig
from producer.errors import Closed, HandlerFailed, NotSent, QueueFull, SendFailed
from producer.handlers import CallbackHandler, EventHandler, Item
from producer.messages import KeyedMessage
from producer.producer import Producer
from tests.fakes.broker import FakeCluster, Wait
from tests.producer.running import until

WAIT_S = 10.0


def config_of(cluster: FakeCluster, **options: Any) -> ProducerConfig:
    return ProducerConfig(brokers=tuple(cluster.bootstrap), **{"retry_backoff_ms": 5, **options})


class Noting(CallbackHandler):
    """Notes each call; None-calls of an idle queue are left out."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.threads: set[int] = set()

    def init(self, properties: Mapping[str, str]) -> None:
        self.calls.append(("init", dict(properties)))

    def before_enqueue(self, item: Item) -> Item:
        self.calls.append(("before_enqueue", item.value))
        return item

    def after_enqueue(self, item: Item, added: bool) -> None:
        self.calls.append(("after_enqueue", (item.value, added)))

    def after_dequeuing(self, item: Item | None) -> list[Item]:
        if item is None:
            return []
        self.threads.add(threading.get_ident())
        self.calls.append(("after_dequeuing", item.value))
        return [item]

    def before_sending(self, items: list[Item]) -> list[Item]:
        self.calls.append(("before_sending", [item.value for item in items]))
        return items

    def last_batch_before_close(self) -> list[Item]:
        self.calls.append(("last_batch_before_close", None))
        return [Item("t", "last")]

    def close(self) -> None:
        self.calls.append(("close", None))


class Noted(Noting):
    """Found by its name."""

    made: list[Noted] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)


def test_the_seven_hooks_are_called_in_the_order_of_0_7():
    handler = Noting()
    with FakeCluster({"t": 1}) as cluster:
        options = {"linger_ms": 60000, "callback_handler_props": {"a": "1"}}
        with Producer(config_of(cluster, **options), callback_handler=handler) as producer:
            sent = [producer.send("t", value) for value in ("a", "b")]
        assert cluster.values("t", 0) == [b"a", b"b", b"last"]
        assert [each.result(0).offset for each in sent] == [0, 1]
    names = [name for name, _ in handler.calls]
    assert handler.calls[0] == ("init", {"a": "1"})
    assert [call for call in handler.calls if call[0] == "before_sending"] == [("before_sending", ["a", "b", "last"])]
    assert names.index("close") < names.index("last_batch_before_close") < names.index("before_sending")
    for value in ("a", "b"):
        order = [name for name, told in handler.calls if told in (value, (value, True))]
        assert order[0] == "before_enqueue"
        assert sorted(order[1:]) == ["after_dequeuing", "after_enqueue"]  # of two threads
    assert threading.get_ident() not in handler.threads
    counts = producer.counts
    assert (counts.sent, counts.acked, counts.failed, counts.pending) == (3, 3, 0, 0)


def test_a_handler_may_be_named_in_the_configuration():
    with FakeCluster({"t": 1}) as cluster:
        values = {
            "metadata.broker.list": ",".join(f"{h}:{p}" for h, p in cluster.bootstrap),
            "callback.handler": f"{__name__}:Noted",
            "callback.handler.props": "x=1, y=two",
        }
        with Producer(load(ProducerConfig, values, "p.properties", jvm=True)) as producer:
            producer.send("t", "v")
        assert Noted.made[-1].calls[0] == ("init", {"x": "1", "y": "two"})
        assert cluster.values("t", 0) == [b"v", b"last"]


def test_hooks_may_change_split_drop_and_add_messages_and_everybody_is_told():
    class Changing(CallbackHandler):
        def before_enqueue(self, item: Item) -> Item:
            return replace(item, value=item.value.upper())

        def after_dequeuing(self, item: Item | None) -> list[Item]:
            if item is None or item.value == "DROP":
                return []
            return [item, replace(item, value=item.value + "2")] if item.value == "TWICE" else [item]

        def before_sending(self, items: list[Item]) -> list[Item]:
            return [Item("t", "new"), *(item for item in items if item.value != "LATE DROP")]

    heard: list[tuple[str, bool]] = []
    with FakeCluster({"t": 1}) as cluster:
        config = config_of(cluster, linger_ms=60000)
        with Producer(config, callback_handler=Changing()) as producer:
            sent = {
                value: producer.send("t", value, on_delivery=lambda d, v=value: heard.append((v, d.error is None)))
                for value in ("a", "drop", "twice", "late drop")
            }
            with pytest.raises(SendFailed, match=r"2 messages were not stored.*after_dequeuing removed it"):
                producer.flush(WAIT_S)
            assert cluster.values("t", 0) == [b"new", b"A", b"TWICE", b"TWICE2"]
            assert sent["twice"].result(0).offset == 2
            for dropped, hook in (("drop", "after_dequeuing"), ("late drop", "before_sending")):
                with pytest.raises(HandlerFailed, match=f"callback.handler: {hook} removed it"):
                    sent[dropped].result(0)
            until(lambda: len(heard) == 4)
            assert sorted(heard) == [("a", True), ("drop", False), ("late drop", False), ("twice", True)]
            counts = producer.counts
            assert (counts.sent, counts.acked, counts.failed, counts.pending) == (6, 4, 2, 0)


@pytest.mark.parametrize("hook", ["after_dequeuing", "before_sending"])
@pytest.mark.parametrize("fault", ["raises", "nonsense"])
def test_a_hook_that_fails_costs_its_own_batch_and_says_so(hook: str, fault: str):
    broken = [True]

    def fail(self: object, given: Any) -> Any:
        if given is None or not broken[0]:
            return [] if given is None else given if isinstance(given, list) else [given]
        if fault == "raises":
            raise ValueError("no")
        return "nonsense"

    handler = type("Broken", (CallbackHandler,), {hook: fail})()
    with FakeCluster({"t": 1}) as cluster:
        with Producer(config_of(cluster), callback_handler=handler) as producer:
            bad = producer.send("t", "bad")
            says = f"callback.handler: {hook} " + (
                "raised ValueError: no" if fault == "raises" else "did not return a list"
            )
            with pytest.raises(HandlerFailed, match=says):
                bad.result(WAIT_S)
            broken[0] = False
            assert producer.send("t", "good").result(WAIT_S).offset == 0
            with pytest.raises(SendFailed):
                producer.flush(WAIT_S)
        assert cluster.values("t", 0) == [b"good"]


def test_before_enqueue_raises_to_the_sender_and_a_full_queue_is_told_to_the_handler():
    class Picky(Noting):
        def before_enqueue(self, item: Item) -> Item:
            if item.value == "no":
                raise ValueError("not this")
            return super().before_enqueue(item)

    handler, release = Picky(), threading.Event()
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("produce", Wait(release))
        options = {"queue_messages": 2, "batch_messages": 2, "enqueue_timeout_ms": 0, "linger_ms": 60000}
        with Producer(config_of(cluster, **options), callback_handler=handler) as producer:
            with pytest.raises(HandlerFailed, match="before_enqueue raised ValueError: not this"):
                producer.send("t", "no")
            with pytest.raises(QueueFull, match="t: 2 messages are in the queue"):
                producer.send_many("t", map(str, range(100)))
            assert handler.calls[-1][1][1] is False
            release.set()
    counts = producer.counts
    assert counts.sent == counts.acked
    assert counts.failed == 0


def test_an_event_handler_deals_with_batches_itself():
    class Sending(EventHandler):
        def __init__(self) -> None:
            self.batches: list[list[Any]] = []
            self.closed = False

        def handle(self, items: list[Item], sending: Any, encoder: Any) -> None:
            self.batches.append([item.value for item in items])
            if any(item.value == "bad" for item in items):
                raise ValueError("bad batch")
            sending.send("u", b"+".join(encoder(item.value) for item in items))

        def close(self) -> None:
            self.closed = True

    handler = Sending()
    with FakeCluster({"t": 1, "u": 1}) as cluster:
        with Producer(config_of(cluster, linger_ms=60000, batch_messages=3), event_handler=handler) as producer:
            good = [producer.send("t", value) for value in ("a", "b", "c")]
            assert [each.result(WAIT_S).offset for each in good] == [None] * 3
            bad = producer.send(KeyedMessage("t", "bad"))[0]
            with pytest.raises(SendFailed, match=r"event.handler: handle raised ValueError: bad batch"):
                producer.flush(WAIT_S)
            assert isinstance(bad.error, HandlerFailed)
            many = producer.send_many("t", ["d", "e"])
        assert handler.closed
        assert handler.batches == [["a", "b", "c"], ["bad"], ["d", "e"]]
        assert cluster.values("u", 0) == [b"a+b+c", b"d+e"]
        assert cluster.values("t", 0) == []
        assert all(each.done for each in many)


def test_a_full_batch_waits_for_nobody_behind_the_queue_either():
    with FakeCluster({"t": 2}) as cluster:
        options = config_of(cluster, linger_ms=3_600_000, batch_messages=2)
        with Producer(options, callback_handler=CallbackHandler()) as producer:
            sent = [producer.send("t", b"v", partition=p) for p in range(2)]  # alone in their buckets
            assert [each.result(WAIT_S).tp.partition for each in sent] == [0, 1]


def test_a_gevent_program_has_its_handlers_in_its_hub():
    handler = Noting()
    with FakeCluster({"t": 1}) as cluster:
        tasks = TaskGroup()

        def program() -> None:
            with Producer(config_of(cluster), hub="caller", callback_handler=handler) as producer:
                assert producer.send("t", "v").result(WAIT_S).offset == 0
            tasks._stopped.set()

        tasks.spawn("program", program)
        assert tasks.wait(WAIT_S)
        tasks.stop(WAIT_S)
        assert cluster.values("t", 0) == [b"v", b"last"]
    assert handler.threads == {threading.get_ident()}


def test_what_is_queued_when_the_time_of_a_close_is_over_fails():
    release = threading.Event()
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("produce", Wait(release))
        options = {"queue_messages": 4, "batch_messages": 1}
        producer = Producer(config_of(cluster, **options), callback_handler=CallbackHandler())
        sent = [producer.send("t", str(n)) for n in range(4)]
        with pytest.raises(SendFailed):
            producer.close(0.2)
        for each in sent:
            with pytest.raises(Closed):
                each.result(1.0)
        counts = producer.counts
        assert (counts.failed, counts.pending) == (4, 0)
        release.set()


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("nowhere", "callback.handler 'nowhere' is neither package.module:function nor an entry point of the group"),
        ("json:nothing", "callback.handler 'json:nothing': json has no nothing"),
        ("json:JSONDecoder", "callback.handler 'json:JSONDecoder' is not a producer.handlers.CallbackHandler"),
    ],
)
def test_a_handler_that_cannot_be_had_is_one_sentence(named: str, says: str):
    with pytest.raises(LocalError) as refused:
        Producer({"metadata.broker.list": "h:1", "callback.handler": named})
    assert str(refused.value).startswith(says)


def test_handlers_of_a_synchronous_producer_and_jvm_classes_are_refused():
    with pytest.raises(OptionError, match=r"producer\.type must be async"):
        load(ProducerConfig, {"metadata.broker.list": "h:1", "callback.handler": "a:B", "producer.type": "sync"}, "x")
    with pytest.raises(LocalError, match=r"producer\.type must be async"):
        Producer({"metadata.broker.list": "h:1", "producer.type": "sync"}, callback_handler=CallbackHandler())
    with pytest.raises(OptionError, match=r"callback\.handler' is 'com\.acme\.Mine'"):
        load(ProducerConfig, {"metadata.broker.list": "h:1", "callback.handler": "com.acme.Mine"}, "x", jvm=True)
    with pytest.raises(OptionError, match=r"k=v,k=v"):
        load(ProducerConfig, {"metadata.broker.list": "h:1", "callback.handler.props": "novalue"}, "x", jvm=True)


def test_send_many_through_handlers_refuses_too_few_keys_and_tells_what_was_taken():
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster), callback_handler=CallbackHandler()) as producer:
        with pytest.raises(NotSent, match="topic t: there are fewer keys than values") as refused:
            producer.send_many("t", map(str, range(700)), keys=map(str, range(600)))
        assert len(refused.value.deliveries) == 500  # type: ignore[attr-defined]
        producer.flush(WAIT_S)
        assert len(cluster.values("t", 0)) == 500
        assert producer.counts.sent == 500


def test_what_handlers_still_hold_when_the_program_ends_is_told():
    program = """
        from producer.handlers import CallbackHandler
        from producer.producer import Producer
        producer = Producer({"metadata.broker.list": "ADDRESS", "queue.buffering.max.ms": 60000}, hub="own",
                            callback_handler=CallbackHandler())
        for n in range(3):
            producer.send("t", str(n))
    """
    with FakeCluster({"t": 1}) as cluster:
        host, port = cluster.bootstrap[0]
        text = textwrap.dedent(program).replace("ADDRESS", f"{host}:{port}")
        ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert "the program ended without Producer.close(): 3 messages are lost" in ended.stderr, ended
