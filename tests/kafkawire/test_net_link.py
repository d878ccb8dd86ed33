"""Link and Links against the fake cluster, and against sockets that take or give only a little."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from groundwork.sockets import slice_of
from kafkawire.cluster.metadata import MetadataSource, Unreachable
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import IDLE_S, Link
from kafkawire.net.links import Links
from kafkawire.protocol import requests08 as requests
from localkafka.proxy import Proxy
from localkafka.waiting import wait_until
from tests.fakes.broker import Close, FakeCluster, Raw, Wait, entry

D = dialect("0.8.2")
TP = TopicPartition("t", 0)
METADATA = requests.metadata(D, None)


def broker_of(cluster: FakeCluster, number: int = 1) -> Broker:
    return Broker(number, "127.0.0.1", cluster.ports[number])


def test_a_call_gives_the_reply_of_its_request():
    with FakeCluster({"t": 1}) as cluster:
        cluster.append("t", 0, entry(b"one") + entry(b"two"))
        link = Link(broker_of(cluster), "me")
        (fetched,) = link.call(requests.fetch(D, 10, 1, [(TP, 1, 1000)]))
        assert bytes(fetched.buffer) == entry(b"two", offset=1)
        assert cluster.requests[0].body["client_id"] == "me"
        link.close()


def test_what_is_raised_right_before_the_bytes_go_is_raised_and_the_link_is_used_on():
    def refuse() -> None:
        assert link.connected
        raise PermissionError("not any more")

    with FakeCluster({"t": 1}) as cluster:
        links = Links("me")
        with links.lent(broker_of(cluster), "a") as link:
            pass
        with pytest.raises(PermissionError):
            links.call(broker_of(cluster), "a", METADATA, refuse)
        assert cluster.requests == []
        assert links.connected("a") == {1: 1}
        links.call(broker_of(cluster), "a", METADATA)
        assert links.connected("a") == {1: 1}
        links.close()


def test_pipelined_requests_are_answered_in_order():
    with FakeCluster({"t": 1}) as cluster:
        link = Link(broker_of(cluster), "me")
        link.send(METADATA)
        link.send(requests.produce(D, 0, 1000, {TP: [entry(b"v")]}))
        link.send(requests.fetch(D, 10, 1, [(TP, 0, 1000)]))
        assert link.outstanding == 2
        assert [link.receive().request.api.key for _ in range(2)] == [3, 1]
        assert cluster.values("t", 0) == [b"v"]
        link.close()


class Slow:
    """A socket that takes and gives at most `step` bytes a call."""

    def __init__(self, inner: socket.socket, step: int) -> None:
        self.inner, self.step, self.calls = inner, step, 0

    def sendmsg(self, views: Any) -> int:
        self.calls += 1
        return self.inner.send(b"".join(views)[: self.step])

    def recv_into(self, room: memoryview) -> int:
        return self.inner.recv_into(room[: self.step])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_partial_sends_go_on_where_the_socket_stopped():
    taken: list[Slow] = []

    def connect(address: tuple[str, int], timeout: float) -> Slow:
        taken.append(Slow(socket.create_connection(address, timeout), 11))
        return taken[-1]

    entries = [entry(b"%d" % n) for n in range(40)]
    with FakeCluster({"t": 1}) as cluster:
        link = Link(broker_of(cluster), "me", connect)
        reply = link.call(requests.produce(D, 1, 1000, {TP: entries}))
        assert reply[TP].stored
        assert cluster.values("t", 0) == [b"%d" % n for n in range(40)]
        link.close()


@contextmanager
def trickling(broker: Broker, first: int, pause_s: float) -> Iterator[Broker]:
    """Passes one connection on to a broker; of the replies `first` bytes, and the others after a pause."""

    def passing() -> None:
        with suppress(OSError), listener.accept()[0] as reader, behind:
            behind.sendall(reader.recv(65536))
            left = first
            while data := behind.recv(min(65536, left) if left else 65536):
                reader.sendall(data)
                if left and not (left := left - len(data)):
                    time.sleep(pause_s)

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection((broker.host, broker.port)) as behind,
    ):
        thread = threading.Thread(target=passing)
        thread.start()
        yield Broker(1, *listener.getsockname())
        with suppress(OSError):  # it has ended by itself
            behind.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.parametrize("first", [10, 100_000, 399_000])
def test_a_set_that_comes_slowly_is_no_silence(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkawire.net.transport.GATHER_S", 0.02)
    value = bytes(400_000)
    with FakeCluster({"t": 1}) as cluster:
        cluster.append("t", 0, entry(value))
        with trickling(broker_of(cluster), first, 0.2) as broker:
            link = Link(broker, "me")
            (fetched,) = link.call(requests.fetch(D, 10, 1, [(TP, 0, 1 << 20)]))
            assert bytes(fetched.buffer) == entry(value)
            link.close()


def test_a_set_that_stops_coming_is_a_lost_link_within_the_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkawire.net.transport.GATHER_S", 0.05)
    with FakeCluster({"t": 1}) as cluster:
        cluster.append("t", 0, entry(bytes(400_000)))
        with trickling(broker_of(cluster), 100_000, 1.5) as broker:
            link = Link(broker, "me", timeout_ms=300)
            began = time.monotonic()
            with pytest.raises(LinkLost, match=r"no byte within 0.3 s; without an answer: 1 Fetch"):
                link.call(requests.fetch(D, 10, 1, [(TP, 0, 1 << 20)]))
            assert time.monotonic() - began < 1.2


def test_a_response_in_many_packets_is_received_in_few_calls() -> None:
    calls: list[int] = []

    class Counted(Slow):
        def recv_into(self, room: memoryview) -> int:
            calls.append(self.inner.recv_into(room))
            return calls[-1]

    body = struct.pack(">iii", 0, 0, 3000) + b"".join([struct.pack(">hh", 3, 1) + b"t" + bytes(4)] * 3000)
    frame = struct.pack(">i", len(body)) + body
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as reader:
                reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                reader.recv(65536)
                for at in range(0, len(frame), 100):
                    reader.sendall(frame[at : at + 100])
                    time.sleep(0.0005)

        thread = threading.Thread(target=answer)
        thread.start()
        link = Link(
            Broker(1, *listener.getsockname()), "me", connect=lambda *to: Counted(socket.create_connection(*to), 1)
        )
        assert len(link.call(METADATA)["topics"]) == 3000
        thread.join(5)
        link.close()
    assert sum(calls) == len(frame)
    assert len(calls) < 20 < len(frame) // 100


def test_a_request_behind_a_long_set_has_the_whole_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkawire.net.transport.GATHER_S", 0.5)
    at_send = []

    class Watched(Slow):
        def sendmsg(self, views: Any) -> int:
            at_send.append(self.inner.gettimeout())
            return self.inner.sendmsg(views)

        def recv_into(self, room: memoryview) -> int:
            return self.inner.recv_into(room)

    with FakeCluster({"t": 1}) as cluster:
        cluster.append("t", 0, entry(bytes(400_000)))
        link = Link(
            broker_of(cluster), "me", timeout_ms=7000, connect=lambda *to: Watched(socket.create_connection(*to), 1)
        )
        for _ in range(3):
            link.call(requests.fetch(D, 10, 1, [(TP, 0, 1 << 20)]))
        link.close()
    assert at_send == [slice_of(7.0)] * 3


def test_a_frame_of_more_buffers_than_one_call_takes_arrives_whole():
    entries = [entry(b"%d" % n) for n in range(3000)]
    with FakeCluster({"t": 1}) as cluster:
        link = Link(broker_of(cluster), "me")
        assert link.call(requests.produce(D, 1, 1000, {TP: entries}))[TP].stored
        assert len(cluster.values("t", 0)) == 3000
        link.close()


def test_a_frame_is_one_send_call():
    calls: list[int] = []

    class Counting(Slow):
        def sendmsg(self, views: Any) -> int:
            calls.append(len(views))
            return self.inner.sendmsg(views)

    with FakeCluster({"t": 1}) as cluster:
        link = Link(broker_of(cluster), "me", lambda *a: Counting(socket.create_connection(*a), 1))
        link.call(requests.produce(D, 1, 1000, {TP: [entry(b"v")]}))
        assert len(calls) == 1
        link.close()


def test_a_closed_connection_is_a_lost_link_that_names_broker_and_what_was_outstanding():
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("metadata", Close())
        link = Link(broker_of(cluster), "me")
        with pytest.raises(LinkLost, match=r"broker 1 \(127.0.0.1:\d+\): .*without an answer: 1 Metadata"):
            link.call(METADATA)
        assert link.broken is not None
        with pytest.raises(LinkLost, match="without an answer"):
            link.send(METADATA)


def test_what_was_answered_before_the_broker_ended_the_connection_is_received_although_a_send_failed():
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("produce", Close())
        link = Link(broker_of(cluster), "me")
        link.send(METADATA)
        link.send(requests.produce(D, 1, 1000, {TP: [entry(b"v")]}))
        wait_until(link.closed_by_peer, 10, "the reset")
        with pytest.raises(LinkLost):
            link.send(METADATA)
        assert (link.draining, link.connected) == (True, False)
        assert link.receive().request is METADATA
        with pytest.raises(LinkLost, match="without an answer: 1 Produce, 1 Metadata"):
            link.receive()
        assert not link.draining
        with pytest.raises(LinkLost, match="without an answer: 1 Produce, 1 Metadata"):
            link.receive()


def test_a_refused_connection_is_a_lost_link():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(LinkLost, match=rf"broker 3 \(127.0.0.1:{port}\): connecting: .*refused"):
        Link(Broker(3, "127.0.0.1", port), "me").call(METADATA)


def test_silence_is_a_lost_link_within_the_time_out():
    with FakeCluster({"t": 1}) as cluster:
        release = threading.Event()
        cluster.script("metadata", Wait(release))
        link = Link(broker_of(cluster), "me", timeout_ms=100)
        begin = time.monotonic()
        with pytest.raises(LinkLost, match=r"no byte within 0.1 s; without an answer: 1 Metadata"):
            link.call(METADATA)
        assert time.monotonic() - begin < 5
        release.set()


def test_a_senseless_reply_is_a_lost_link():
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("metadata", Raw(struct.pack(">ii", 4, 77)))
        with pytest.raises(LinkLost, match="correlation id 77 instead of 0"):
            Link(broker_of(cluster), "me").call(METADATA)


def test_close_from_another_thread_ends_a_waiting_call():
    with FakeCluster({"t": 1}) as cluster:
        release = threading.Event()
        cluster.script("metadata", Wait(release))
        link = Link(broker_of(cluster), "me")
        closer = threading.Thread(target=lambda: (cluster.wait(lambda: cluster.requests), link.close()))
        closer.start()
        with pytest.raises(LinkLost, match="the link was closed"):
            link.call(METADATA)
        release.set()
        closer.join()


def test_a_link_closed_while_it_connects_leaves_no_socket_behind():
    with FakeCluster({"t": 1}) as cluster:
        opened: list[socket.socket] = []

        def connect(address: tuple[str, int], timeout: float) -> socket.socket:
            opened.append(socket.create_connection(address, timeout))
            link.close()
            return opened[0]

        link = Link(broker_of(cluster), "me", connect)
        with pytest.raises(LinkLost, match="the link was closed"):
            link.call(METADATA)
        assert opened[0].fileno() == -1


def test_asking_for_a_reply_that_nobody_owes_is_an_error_and_not_a_wait():
    with FakeCluster({"t": 1}) as cluster:
        link = Link(broker_of(cluster), "me")
        with pytest.raises(LinkLost, match="no request is outstanding"):
            link.receive()
        link.call(METADATA)
        link.close()


def test_links_are_kept_by_purpose_and_replaced_when_broken_or_moved():
    with FakeCluster({"t": 1}) as cluster:
        links = Links("me")
        here = broker_of(cluster)
        fetch = links.link(here, "fetch")
        assert links.link(here, "fetch") is fetch
        assert links.link(here, "produce") is not fetch
        fetch.call(METADATA)
        fetch.close()
        again = links.link(here, "fetch")
        assert again is not fetch
        assert again.call(METADATA)["brokers"]
        moved = links.link(Broker(1, "127.0.0.1", here.port + 1), "fetch")
        assert moved is not again
        assert again.broken is not None
        links.close("fetch")
        assert moved.broken is not None
        assert links.link(here, "produce").broken is None
        links.drop(here, "produce")
        links.close()
        assert links.link(here, "fetch").call(METADATA)["brokers"]  # the pool can be used on
        links.close()


def test_a_link_is_lent_to_one_caller_at_a_time_and_one_is_kept():
    with FakeCluster({"t": 1}) as cluster:
        links, here = Links("me"), broker_of(cluster)
        with links.lent(here, "p") as one, links.lent(here, "p") as other:
            assert other is not one
            assert one.call(METADATA)["brokers"]
            assert other.call(METADATA)["brokers"]
            assert links.connected("p") == {here.id: 2}
        assert links.connected("p") == {here.id: 1}
        with links.lent(here, "p") as again:
            assert again in (one, other)
            links.close("p")
            assert again.broken is not None
        with links.lent(here, "p") as fresh:
            assert fresh.call(METADATA)["brokers"]
            links.end()
            assert fresh.broken is not None


def test_threads_that_call_at_once_get_the_reply_of_their_own_request():
    with FakeCluster({"t": 1}) as cluster:
        for n in range(8):
            cluster.append("t", 0, entry(b"%d" % n))
        links, here, wrong = Links("me"), broker_of(cluster), list[int]()

        def ask(at: int) -> None:
            for _ in range(50):
                (fetched,) = links.call(here, "p", requests.fetch(D, 0, 1, [(TP, at, 1000)]))
                if not bytes(fetched.buffer).startswith(entry(b"%d" % at, offset=at)):
                    wrong.append(at)

        threads = [threading.Thread(target=ask, args=(at,)) for at in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        links.close()


def test_a_kept_link_with_requests_in_flight_is_not_lent():
    with FakeCluster({"t": 1}) as cluster:
        links, here = Links("me"), broker_of(cluster)
        kept = links.link(here, "p")
        kept.send(METADATA)
        assert links.call(here, "p", METADATA)["brokers"]
        assert kept.receive().body["brokers"]
        assert links.link(here, "p") is kept
        links.close()


KEEPERS = {  # one task, or a sender and its receiver, with requests in flight; all others borrow
    "producer/connection.py",
    "sparkpipeline/cluster/brokers.py",
    "sparkpipeline/reading/rangefetcher.py",
    "sparkpipeline/sink/tasksender.py",
    "zkconsumer/fetching/brokerfetcher.py",
}


def test_only_tasks_with_requests_in_flight_keep_a_link():
    root = Path(__file__).resolve().parents[2]
    packages = ("groundwork", "kafkawire", "zkconsumer", "groupadmin", "producer", "mirrormaker", "sparkpipeline")
    files = [file for package in packages for file in (root / package).rglob("*.py")]
    keep = {str(file.relative_to(root)) for file in files if re.search(r"(links|brokers)\.link\(", file.read_text())}
    assert keep == KEEPERS


def test_a_broker_that_did_not_answer_is_asked_last_until_it_answers():
    with FakeCluster({"t": 1}, brokers=2) as cluster:
        links, one, two = Links("me", timeout_ms=200), broker_of(cluster, 1), broker_of(cluster, 2)
        waits = threading.Event()
        cluster.script("metadata", Wait(waits))
        with pytest.raises(LinkLost):
            links.call(one, "p", METADATA)
        assert links.answering_first([one, two]) == [two, one]
        waits.set()
        links.call(one, "p", METADATA)
        assert links.answering_first([one, two]) == [one, two]
        links.close()


class Ended(BaseException):
    """As gevent ends a greenlet that waits."""


class EndsIn:
    """A transport whose user is ended in the middle of a frame."""

    def __init__(self, opened: socket.socket) -> None:
        self.opened = opened

    def send_all(self, buffers: object) -> None:
        self.opened.send(b"\0\0")
        raise Ended

    def receive_into(self, place: memoryview, due: int = 0) -> int:
        raise Ended

    def ended(self) -> bool:
        return False

    def close(self, abort: bool = False) -> None:
        self.opened.close()


def test_a_link_whose_user_was_ended_in_the_middle_of_a_frame_or_a_login_is_not_used_again():
    def half_a_login(login: object) -> float | None:
        raise Ended

    def connect(address: tuple[str, int], timeout_s: float) -> socket.socket:
        return socket.create_connection(address, timeout_s)

    with FakeCluster({"t": 1}) as cluster:
        unanswered = requests.produce(D, 0, 1000, {TP: [entry(b"v")]})
        links = Links("me", lambda address, timeout_s: EndsIn(socket.create_connection(address, timeout_s)))
        with pytest.raises(Ended), links.lent(broker_of(cluster), "p") as link:
            link.send(unanswered)
        assert link.broken is not None
        connect.greeting = half_a_login  # type: ignore[attr-defined]
        links = Links("me", connect)
        with pytest.raises(Ended), links.lent(broker_of(cluster), "p") as link:
            link.open()
        assert link.broken is not None


def test_who_waited_on_a_pool_that_ended_opens_no_other_link():
    with FakeCluster({"t": 1}, brokers=2) as cluster:
        release = threading.Event()
        cluster.script("metadata", Wait(release))
        pool = Links("me", timeout_ms=5000)
        source = MetadataSource(cluster.bootstrap, D, pool)

        def end() -> None:
            cluster.wait(lambda: bool(cluster.seen("metadata")))
            pool.end()

        ender = threading.Thread(target=end)
        ender.start()
        with pytest.raises(Unreachable, match=r"the link was closed.*the link was closed"):
            source.read(None)
        ender.join()
        release.set()
        assert len(cluster.seen("metadata")) == 1
        assert pool.link(Broker(0, *cluster.bootstrap[0]), "fetch").broken is not None


SENDS_AND_WAITS = """
import sys, time
from kafkawire.net.link import Link
from kafkawire.model import Broker
from tests.kafkawire.test_net_link import D, TP, entry, requests
link = Link(Broker(1, "127.0.0.1", int(sys.argv[1])), "me")
link.aborts_at_exit = sys.argv[2] == "True"
link.send(requests.produce(D, 1, 1000, {TP: [entry(b"v" * 50_000)]}))
print("sent", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("aborts", [True, False])
def test_what_a_killed_process_has_sent_last_does_not_arrive_later_if_the_link_aborts_at_exit(aborts: bool):
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # the rest waits in the kernel of who sends
        server.bind(("127.0.0.1", 0))
        server.listen()
        argv = [sys.executable, "-c", SENDS_AND_WAITS, str(server.getsockname()[1]), str(aborts)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as sends:
            try:
                other, _ = server.accept()
                assert sends.stdout is not None
                assert sends.stdout.readline() == "sent\n"
            finally:
                sends.kill()
        with other:
            other.settimeout(10)
            came = 0
            with suppress(ConnectionResetError):
                while got := other.recv(100_000):
                    came += len(got)
    assert (came < 50_000) is aborts


def test_a_connection_that_cannot_be_set_up_is_closed():
    ours, theirs = socket.socketpair()  # takes no option of TCP
    link = Link(Broker(1, "127.0.0.1", 1), "me", lambda _address, _timeout: ours)
    with theirs, pytest.raises(LinkLost, match=r"connecting: .*not supported"):
        link.open()
    assert ours.fileno() == -1


@pytest.mark.parametrize("how", ["closed", "reset", "closed behind bytes that nobody read"])
def test_the_other_sides_end_is_seen_without_a_reply(how: str):
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = Link(Broker(1, "127.0.0.1", server.getsockname()[1]), "me")
        assert not link.closed_by_peer()  # not open yet
        link.send(requests.produce(D, 0, 1000, {TP: [entry(b"v")]}))
        other, _ = server.accept()
        other.recv(1000)
        assert not link.closed_by_peer()
        if how == "reset":
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how != "closed":
            other.send(b"bytes")
        other.close()
        until = time.monotonic() + 5
        while not link.closed_by_peer() and time.monotonic() < until:
            time.sleep(0.001)
        assert link.closed_by_peer()
        link.close()
        assert link.closed_by_peer()


PATCHED = """
import gevent.monkey
gevent.monkey.patch_all()
import socket
from kafkawire.net.transport import ended
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
    server.accept()[0].close()
    assert ours.recv(1) == b""  # it has come
    print(ended(ours))
"""


def test_the_other_sides_end_is_seen_in_a_program_that_gevent_has_patched():
    done = subprocess.run([sys.executable, "-c", PATCHED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("kept", [False, True])
def test_a_link_that_a_nat_may_have_forgotten_is_replaced_before_its_next_request(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeCluster({"t": 1}) as cluster, Proxy(("127.0.0.1", cluster.ports[1])) as nat:
        links, broker = Links("me", timeout_ms=5000), Broker(1, *nat.address)

        def ask() -> None:
            with nullcontext(links.link(broker, "fetch")) if kept else links.lent(broker, "fetch") as link:
                link.call(METADATA)

        ask()
        ask()
        assert nat.counters.connections == 1
        nat.forget()
        monkeypatch.setattr("kafkawire.net.link.IDLE_S", 0.0)
        ask()
        assert nat.counters.connections == 2
        links.close()


def test_a_link_that_waits_for_a_response_is_never_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkawire.net.link.IDLE_S", 0.0)
    with FakeCluster({"t": 1}) as cluster:
        link = Link(broker_of(cluster), "me")
        assert not link.stale()  # not open yet
        link.send(METADATA)
        assert not link.stale()
        link.receive()
        assert link.stale()
        link.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the name of another system")
def test_the_kernel_keeps_connections_alive_and_ends_those_that_do_not_answer() -> None:
    opened: list[socket.socket] = []

    def connecting(address: tuple[str, int], timeout_s: float) -> socket.socket:
        opened.append(socket.create_connection(address, timeout_s))
        return opened[0]

    with socket.create_server(("127.0.0.1", 0)) as server:
        link = Link(Broker(1, "127.0.0.1", server.getsockname()[1]), "me", connecting)
        link.open()
        assert opened[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert opened[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < IDLE_S
        assert opened[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000
        link.close()


def test_a_request_that_is_given_up_on_does_not_arrive_later() -> None:
    """The kernel has taken all of it, and the broker's machine only a part."""
    size = 400_000

    def connect(address: tuple[str, int], timeout_s: float) -> socket.socket:
        opened = socket.socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * size)
        opened.connect(address)
        return opened

    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)  # of what it accepts
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        link = Link(Broker(1, *listening.getsockname()), "me", connect, timeout_ms=200)
        link.send(requests.produce(D, 1, 1000, {TP: [entry(b"v" * size)]}))
        peer, _ = listening.accept()
        with pytest.raises(LinkLost, match="1 Produce"):
            link.receive()
        peer.settimeout(5)
        arrived = 0
        with peer, suppress(ConnectionResetError):
            while piece := peer.recv(1 << 20):
                arrived += len(piece)
        assert 0 < arrived < size
