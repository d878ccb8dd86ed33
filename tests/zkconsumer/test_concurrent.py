"""process() without brokers: real streams and cursors on a hub, in every mixture of hubs and workers."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from groundwork.hub import Hub, pick_hub
from groundwork.tasks import sleep
from kafkawire.formats.v01 import messages
from kafkawire.model import Message, MessageSet, TopicPartition
from localkafka.waiting import wait_until
from zkconsumer.concurrent.handlers import Outcome, Retry, process
from zkconsumer.errors import ConsumerError
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.listeners import ConsumerListener
from zkconsumer.session.lease import Lease
from zkconsumer.streams.stream import ON_ACK, Stream

MIXTURES = [("own", "threads"), ("own", "greenlets"), ("caller", "greenlets"), ("caller", "threads")]
everywhere = pytest.mark.parametrize(("hub", "kind"), MIXTURES, ids=lambda one: one)


def a_set(tp: TopicPartition, start: int, count: int) -> MessageSet:
    data = messages.encode([(start + i, b"key %d" % (i % 3), b"value %d" % i, None) for i in range(count)])
    fetched, _ = messages.message_set(tp.topic, tp.partition, start, memoryview(data), 1000)
    return fetched


class FakeConnector:
    """One stream over partitions of so many messages each; what a fetcher does is done when somebody wakes it."""

    def __init__(self, hub: Any, ends: Mapping[int, int]) -> None:
        self.config = SimpleNamespace(delivery=ON_ACK)
        self._hub: Hub = pick_hub(hub)
        self._ends = {TopicPartition("t", partition): end for partition, end in ends.items()}
        self._listener = ConsumerListener()
        self.own = hub == "own"
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.paused: Counter[TopicPartition] = Counter()
        self.begun = threading.Event()
        self.closed = False

    def listen(self, listener: ConsumerListener) -> ConsumerListener:
        before, self._listener = self._listener, listener
        return before

    def create_message_streams(self, topics: Mapping[str, int]) -> dict[str, list[Stream]]:
        self._hub.start()
        stream = self._hub.call(self._begin)
        self.begun.set()
        return {"t": [stream]}

    def _begin(self) -> Stream:
        self.channel = self._hub.bounded_queue(1 << 20)
        lease, budget = Lease(), Budget(1 << 20)
        lease.valid_until = math.inf
        for tp in self._ends:
            self.cursors[tp] = Cursor(tp, "g-0", lease=lease, budget=budget.for_stream(1), channel=self.channel)
            self.cursors[tp].apply(self.cursors[tp].partition.reset_to, 0)
            self._fetch(tp)
        self._hub.post(self._tend)
        return Stream("t-0", self.channel, delivery=ON_ACK)

    def _fetch(self, tp: TopicPartition) -> None:
        cursor = self.cursors[tp]
        while (at := cursor.partition.fetch_offset) is not None and at < self._ends[tp]:
            cursor.enqueue(a_set(tp, at, min(20, self._ends[tp] - at)), 100)

    def _tend(self) -> None:
        """As the engine's timer: a reader that met a pause may say so only after its end."""
        while not self.closed:
            for tp, cursor in self.cursors.items():
                if cursor.partition.refetch_due and not cursor.closing and cursor.parked is None:
                    cursor.apply(cursor.partition.refetch_withheld)
                    self._fetch(tp)
            sleep(0.01)

    def pause(self, tp: TopicPartition) -> None:
        self.paused[tp] += 1
        self._hub.call(self.cursors[tp].apply, self.cursors[tp].partition.pause)

    def resume(self, tp: TopicPartition) -> None:
        self._hub.call(self._resume, tp)

    def _resume(self, tp: TopicPartition) -> None:
        self.cursors[tp].apply(self.cursors[tp].partition.resume)
        self._fetch(tp)

    def done(self, partition: int) -> int:
        return self.cursors[TopicPartition("t", partition)].committable() or 0

    def release(self, *partitions: int) -> None:
        """As a rebalance does, from a driver's thread; back when the listener is."""
        tps = [TopicPartition("t", partition) for partition in partitions]
        for tp in tps:
            self.cursors[tp].apply(self.cursors[tp].partition.revoke)
        if self.own:
            self._listener.before_release(tps)
        else:
            self._hub.call(self._listener.before_release, tps)

    def shutdown(self) -> None:
        if not self.closed:
            self._hub.call(self.channel.close)
            self.closed = True
            self._hub.stop()


class Running:
    """process in a thread of its own, whose hub is the caller's hub."""

    def __init__(self, connector: FakeConnector, handler: Callable[[Message], Any], **options: Any) -> None:
        self.connector = connector
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(handler, options), daemon=True)
        self._thread.start()
        assert connector.begun.wait(10) or self.error is not None

    def _run(self, handler: Callable[[Message], Any], options: dict[str, Any]) -> None:
        try:
            process(self.connector, handler, {"t": 1}, **options)  # type: ignore[arg-type]
        except BaseException as e:
            self.error = e
        if not self.connector.own or options["worker_kind"] == "greenlets":
            gevent.get_hub().destroy(destroy_loop=True)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def end(self, timeout_s: float = 10) -> None:
        self._thread.join(timeout_s)
        assert not self.running
        if self.error is not None:
            raise self.error


@pytest.fixture
def run() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(connector: FakeConnector, handler: Callable[[Message], Any], kind: str, **options: Any) -> Running:
        started.append(Running(connector, handler, worker_kind=kind, **options))
        return started[-1]

    yield start
    for one in started:
        if one.running and not one.connector.closed:
            one.connector._hub.post(one.connector.channel.close)
        one._thread.join(10)
        assert not one.running


def waits_for(kind: str) -> Callable[[float], None]:
    return sleep if kind == "greenlets" else time.sleep


def places(partitions: int, count: int) -> set[tuple[int, int]]:
    return {(p, o) for p in range(partitions) for o in range(count)}


@everywhere
def test_every_message_is_handled_once_by_several_at_a_time_and_counts_as_done(hub, kind, run):
    connector, seen, at_work, most = FakeConnector(hub, {0: 60, 1: 60}), Counter(), set(), []
    pause, turn = waits_for(kind), iter(range(10_000))

    def handle(message):
        mine = next(turn)
        at_work.add(mine)
        most.append(len(at_work))
        pause(0.002)
        at_work.discard(mine)
        seen[message.partition, message.offset] += 1

    running = run(connector, handle, kind, workers=6, max_unfinished=10)
    wait_until(lambda: (connector.done(0), connector.done(1)) == (60, 60), 10, lambda: f"all of it: {len(seen)}")
    connector._hub.post(connector.channel.close)
    running.end()
    assert seen == Counter(places(2, 60))
    assert 2 <= max(most) <= 6
    assert connector.paused  # more than ten of a partition had come


@everywhere
def test_a_message_that_is_stuck_holds_its_partition_at_the_cap_and_no_other(hub, kind, run):
    connector, seen, go_on = FakeConnector(hub, {0: 200, 1: 200}), Counter(), threading.Event()
    pause = waits_for(kind)

    def handle(message):
        if (message.partition, message.offset) == (0, 7):
            while not go_on.is_set():
                pause(0.01)
        seen[message.partition, message.offset] += 1

    running = run(connector, handle, kind, workers=3, max_unfinished=10)
    wait_until(lambda: connector.done(1) == 200, 10, lambda: f"the other one: {len(seen)}")
    assert connector.done(0) == 7
    assert max(offset for partition, offset in seen if partition == 0) <= 7 + 10
    go_on.set()
    wait_until(lambda: connector.done(0) == 200, 10, lambda: f"all of it: {len(seen)}")
    connector._hub.post(connector.channel.close)
    running.end()
    assert seen == Counter(places(2, 200))


@everywhere
def test_a_failure_and_a_retry_come_again_and_park_and_stop_end_what_they_say(hub, kind, run):
    connector, tries, stop = FakeConnector(hub, {0: 30, 1: 30, 2: 30}), Counter(), threading.Event()
    pause = waits_for(kind)

    def handle(message):
        at = (message.partition, message.offset)
        tries[at] += 1
        if at == (0, 3) and tries[at] == 1:
            raise OSError("the other side is down")
        if at == (0, 4) and tries[at] < 3:
            return Retry(after_ms=5)
        if at == (1, 5):
            return Outcome.PARK
        if at == (2, 20):
            while not stop.is_set():
                pause(0.01)
            return Outcome.STOP
        return Outcome.DONE

    running = run(connector, handle, kind, workers=4)
    wait_until(lambda: connector.done(0) == 30, 10, lambda: f"all of partition 0: {tries}")
    wait_until(lambda: connector.cursors[TopicPartition("t", 1)].parked, 10, "the parked one")
    stop.set()
    running.end()
    assert (tries[0, 3], tries[0, 4]) == (2, 3)
    assert connector.cursors[TopicPartition("t", 1)].parked == "t/1 at 5: parked by its handler"
    assert (connector.done(1), connector.done(2)) == (5, 20)


@everywhere
def test_a_handler_that_keeps_failing_is_a_traceback_and_then_a_count(hub, kind, run, caplog, monkeypatch):
    caplog.set_level("INFO", "zkconsumer.concurrent.handlers")
    monkeypatch.setattr("zkconsumer.concurrent.handlers.FAILURES_EVERY_S", 0.3)
    connector, tries, mended = FakeConnector(hub, {0: 200, 1: 200}), Counter(), threading.Event()

    def handle(message):
        tries["all"] += 1
        if not mended.is_set():
            raise KeyError("price")

    running = run(connector, handle, kind, workers=4)
    wait_until(lambda: "wait for their next try" in caplog.text, 10, lambda: f"a count: {tries}\n{caplog.text}")
    mended.set()
    wait_until(lambda: connector.done(0) == connector.done(1) == 200, 10, lambda: f"all of it: {tries}")
    wait_until(lambda: "the handler works again where it raised KeyError" in caplog.text, 10, caplog.text)
    connector._hub.post(connector.channel.close)
    running.end()
    assert caplog.text.count("Traceback") == 1
    assert tries["all"] > 600
    assert len([r for r in caplog.records if r.name == "zkconsumer.concurrent.handlers"]) < 40


@everywhere
def test_messages_with_the_same_key_come_one_after_another(hub, kind, run):
    connector, order, at_work = FakeConnector(hub, {0: 60}), [], set()
    pause, twice = waits_for(kind), []

    def handle(message):
        if message.key in at_work:
            twice.append(message.offset)
        at_work.add(message.key)
        pause(0.001)
        order.append((message.key, message.offset))
        at_work.discard(message.key)

    running = run(connector, handle, kind, workers=6, order_by_key=True)
    wait_until(lambda: connector.done(0) == 60, 10, lambda: f"all of it: {len(order)}")
    connector._hub.post(connector.channel.close)
    running.end()
    assert twice == []
    for key in {key for key, _ in order}:
        mine = [offset for k, offset in order if k == key]
        assert mine == sorted(mine)


@everywhere
def test_what_nobody_began_of_a_partition_that_leaves_is_dropped_and_what_is_under_way_is_waited_for(hub, kind, run):
    connector, begun, ended, go_on = FakeConnector(hub, {0: 40, 1: 40}), [], [], threading.Event()
    pause = waits_for(kind)

    def handle(message):
        if message.partition == 0:
            begun.append(message.offset)
            while not go_on.is_set():
                pause(0.01)
            ended.append(message.offset)

    running = run(connector, handle, kind, workers=3)
    wait_until(lambda: len(begun) >= 2, 10, "two under way")
    leaves = connector.cursors[TopicPartition("t", 0)]
    wait_until(lambda: leaves.partition.progress.given == 40, 10, "the others to wait for their turn")
    left: list[tuple[int, ...]] = []

    def leave():
        connector.release(0)
        left.append(tuple(ended))

    leaving = threading.Thread(target=leave, daemon=True)
    leaving.start()
    wait_until(lambda: not leaves.partition.progress.goes_on_at(40), 5, "what nobody began to be dropped")
    assert left == []
    go_on.set()
    leaving.join(5)
    wait_until(lambda: connector.done(1) == 40, 10, "the partition that stays")
    connector._hub.post(connector.channel.close)
    running.end()
    assert sorted(left[0]) == sorted(begun)  # each of those that were under way, and no other
    assert connector.done(0) == len(begun) <= 3


@pytest.mark.parametrize("hub", ["own", "caller"])
def test_a_greenlet_that_does_not_end_at_a_stop_ends_where_it_waits(hub, run):
    connector, ends = FakeConnector(hub, {0: 5}), []

    def handle(message):
        if message.offset == 1:
            return Outcome.STOP
        if message.offset == 0:
            try:
                sleep(60)
            except BaseException as e:
                ends.append(type(e).__name__)
                raise
        return None

    began = time.monotonic()
    run(connector, handle, "greenlets", workers=2, stop_s=0.3).end()
    assert ends == ["GreenletExit"]
    assert time.monotonic() - began < 5
    assert connector.done(0) == 0


def test_a_handler_in_the_callers_hub_that_never_waits_lets_others_have_their_turn(run):
    connector, ticks = FakeConnector("caller", {0: 200}), []

    def tick():
        while not connector.closed:
            ticks.append(None)
            sleep(0.001)

    def handle(message):
        until = time.monotonic() + 0.002
        while time.monotonic() < until:
            pass
        if message.offset == 0:
            connector._hub.post(tick)
        return Outcome.STOP if message.offset == 199 else None

    run(connector, handle, "greenlets", workers=2).end()
    assert len(ticks) > 5  # all 200 in one turn of the hub: one tick


def test_what_a_handler_returns_by_mistake_ends_it_all_with_a_sentence(run):
    with pytest.raises(ConsumerError, match="the handler returned 'done': it must return an Outcome, a Retry or None"):
        run(FakeConnector("caller", {0: 5}), lambda message: "done", "greenlets").end()


def test_an_unknown_kind_is_refused():
    with pytest.raises(ConsumerError, match="worker_kind is 'processes': threads or greenlets"):
        process(FakeConnector("own", {0: 1}), lambda message: None, {"t": 1}, worker_kind="processes")  # type: ignore[arg-type]


PATCHED = """
import gevent.monkey
gevent.monkey.patch_all()
import sys
sys.path.insert(0, {folder!r})
from tests.zkconsumer.test_concurrent import in_a_patched_program
in_a_patched_program()
"""


def in_a_patched_program() -> None:
    """Says so when threads are refused and greenlets do all of it."""
    try:
        process(FakeConnector("auto", {0: 1}), lambda message: None, {"t": 1})  # type: ignore[arg-type]
    except ConsumerError as e:
        print(e)
    connector, seen = FakeConnector("auto", {0: 100, 1: 100}), Counter()

    def handle(message: Message) -> Outcome | None:
        time.sleep(0.001)
        seen[message.partition, message.offset] += 1
        return Outcome.STOP if len(seen) == 200 else None

    process(connector, handle, {"t": 1}, worker_kind="greenlets", max_unfinished=10)  # type: ignore[arg-type]
    print(len(seen), set(seen.values()))


def test_a_program_patched_by_gevent_has_greenlets_only():
    folder = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", PATCHED.format(folder=folder)], capture_output=True, text=True, timeout=30, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    refusal, told = done.stdout.splitlines()
    assert "patched by gevent, so its threads are greenlets of one thread: say so by worker_kind='greenlets'" in refusal
    assert told == "200 {1}"
