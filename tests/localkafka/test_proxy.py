"""The proxy between a plain client and a plain echo server: every fault, and back to none."""

from __future__ import annotations

import selectors
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localkafka.proxy import Proxy


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        try:
            while data := self.request.recv(65536):
                self.request.sendall(data)
        except OSError:
            return  # the test reset the connection


class EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with EchoServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        with Proxy(server.server_address) as proxy:
            yield proxy
        server.shutdown()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with connected(proxy) as client:
        yield client


def connected(proxy: Proxy) -> socket.socket:
    client = socket.create_connection(proxy.address, timeout=5)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def echoed(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return exactly(client, len(data))


def exactly(client: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = client.recv(65536)
        if not part:
            break
        received += part
    return received


def silent(client: socket.socket, for_s: float = 0.2) -> bool:
    client.settimeout(for_s)
    try:
        client.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        client.settimeout(5)
    return False


def test_without_faults_bytes_pass_unchanged_and_are_counted(proxy: Proxy, client: socket.socket) -> None:
    data = bytes(range(256)) * 4096  # more than the proxy holds, in both directions together
    received = []
    reader = threading.Thread(target=lambda: received.append(exactly(client, len(data))))
    reader.start()
    client.sendall(data)
    reader.join(5)
    assert received == [data]
    counters = proxy.counters
    assert (counters.connections, counters.open) == (1, 1)
    assert (counters.bytes_to_target, counters.bytes_to_client) == (len(data), len(data))


def test_delay_holds_every_byte_and_not_the_rate(proxy: Proxy, client: socket.socket) -> None:
    echoed(client, b"warm")
    proxy.delay(100)
    start = time.monotonic()
    for number in range(10):
        client.sendall(b"%d" % number)
        time.sleep(0.01)
    assert exactly(client, 10) == b"0123456789"
    assert 0.2 <= time.monotonic() - start < 0.8  # there and back once, not ten times


def test_throttle_limits_bytes_a_second(proxy: Proxy, client: socket.socket) -> None:
    proxy.throttle(100_000, "to_client")
    start = time.monotonic()
    assert len(echoed(client, b"x" * 50_000)) == 50_000
    assert 0.4 <= time.monotonic() - start < 2


def test_connections_share_a_link_evenly_and_use_all_of_it(proxy: Proxy) -> None:
    proxy.link(1_000_000, round_trip_ms=40)
    with connected(proxy) as one, connected(proxy) as other:
        start = time.monotonic()
        for client in (one, other):
            client.sendall(b"x" * 250_000)
        halves = [threading.Thread(target=exactly, args=(client, 250_000)) for client in (one, other)]
        for half in halves:
            half.start()
        for half in halves:
            half.join(10)
            assert time.monotonic() - start > 0.4  # neither is done before the other is nearly done
    assert 0.5 <= time.monotonic() - start < 2  # half a megabyte, there and back at the same time


def test_what_was_forgotten_stays_silent_and_a_later_connection_passes(proxy: Proxy, client: socket.socket) -> None:
    echoed(client, b"warm")
    proxy.forget()
    proxy.clear()
    client.sendall(b"into the dark")
    with connected(proxy) as late:
        assert echoed(late, b"here") == b"here"
        assert silent(client)


def test_what_was_used_lately_is_not_forgotten(proxy: Proxy, client: socket.socket) -> None:
    echoed(client, b"warm")
    assert proxy.forget(idle_s=60) == 0
    assert echoed(client, b"here") == b"here"
    assert proxy.forget(idle_s=0) == 1
    client.sendall(b"into the dark")
    assert silent(client)
    with connected(proxy) as late:
        assert echoed(late, b"here") == b"here"
        assert proxy.reset(forgotten=True) == 1
        assert echoed(late, b"here") == b"here"


def test_blackhole_says_nothing_and_loses_nothing_after_clear(proxy: Proxy, client: socket.socket) -> None:
    echoed(client, b"warm")
    proxy.blackhole()
    client.sendall(b"into the dark")
    assert silent(client)
    with connected(proxy) as late:
        late.sendall(b"me too")
        assert silent(late)
        proxy.clear()
        assert exactly(client, 13) == b"into the dark"
        assert exactly(late, 6) == b"me too"


def test_blackhole_of_one_direction_lets_the_other_pass(proxy: Proxy, client: socket.socket) -> None:
    echoed(client, b"warm")
    proxy.blackhole("to_client")
    client.sendall(b"request")
    assert silent(client)
    assert proxy.counters.bytes_to_target == len(b"warm") + len(b"request")


def test_slice_makes_small_pieces(proxy: Proxy, client: socket.socket) -> None:
    proxy.slice(3, gap_ms=5, direction="to_client")
    client.sendall(b"0123456789")
    pieces = []
    while sum(map(len, pieces)) < 10:
        pieces.append(client.recv(100))
    assert b"".join(pieces) == b"0123456789"
    assert len(pieces) >= 3


def test_cut_closes_after_so_many_bytes_and_new_connections_too(proxy: Proxy, client: socket.socket) -> None:
    echoed(client, b"warm")
    proxy.cut(5)
    assert echoed(client, b"0123456789") == b"01234"
    with connected(proxy) as again:
        assert echoed(again, b"0123456789") == b"01234"
    proxy.clear()
    with connected(proxy) as healed:
        assert echoed(healed, b"0123456789") == b"0123456789"


def test_a_cut_keeps_its_count_when_another_fault_is_added(proxy: Proxy, client: socket.socket) -> None:
    proxy.cut(6)
    assert echoed(client, b"0123") == b"0123"
    proxy.delay(1)
    assert echoed(client, b"4567") == b"45"


def test_reset_breaks_open_connections_and_takes_new_ones(proxy: Proxy, client: socket.socket) -> None:
    echoed(client, b"warm")
    assert proxy.reset() == 1
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with connected(proxy) as again:
        assert echoed(again, b"hello") == b"hello"
    assert proxy.counters.connections == 2


def test_a_reset_while_the_loop_is_about_to_wait_leaves_it_at_work(
    proxy: Proxy, client: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    resets: list[threading.Thread] = []

    class Interrupted(selectors.PollSelector):
        def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
            if not resets:
                resets.append(threading.Thread(target=proxy.reset))
                resets[0].start()
                resets[0].join(0.1)  # it may have to wait for the loop
            return super().register(fileobj, events, data)

    assert echoed(client, b"before") == b"before"
    monkeypatch.setattr(selectors, "PollSelector", Interrupted)
    client.sendall(b"wake")
    with pytest.raises(ConnectionResetError):
        exactly(client, 100)
    resets[0].join(5)
    with connected(proxy) as again:
        assert echoed(again, b"after") == b"after"


def test_refuse_turns_new_connections_away_until_clear(proxy: Proxy, client: socket.socket) -> None:
    echoed(client, b"warm")
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        connected(proxy)
    assert echoed(client, b"still here") == b"still here"
    proxy.clear()
    with connected(proxy) as again:
        assert echoed(again, b"hello") == b"hello"


def test_half_close_ends_one_direction_only(proxy: Proxy, client: socket.socket) -> None:
    echoed(client, b"warm")
    proxy.half_close("to_client")
    assert client.recv(1) == b""
    before = proxy.counters.bytes_to_target
    client.sendall(b"still sending")
    deadline = time.monotonic() + 5
    while proxy.counters.bytes_to_target == before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert proxy.counters.bytes_to_target == before + len(b"still sending")


def test_end_of_file_passes_both_ways_and_the_connection_is_forgotten(proxy: Proxy, client: socket.socket) -> None:
    assert echoed(client, b"bye") == b"bye"
    client.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""
    deadline = time.monotonic() + 5
    while proxy.counters.open and time.monotonic() < deadline:
        time.sleep(0.01)
    assert proxy.counters.open == 0
    assert proxy.counters.bytes_to_client == 3


def test_target_that_is_down_looks_like_a_reset(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        proxy.target = gone.getsockname()
    with pytest.raises(ConnectionResetError), connected(proxy) as client:
        client.recv(1)


def test_the_end_of_a_proxy_ends_its_connections_and_thread(proxy: Proxy) -> None:
    other = Proxy(proxy.target)
    with connected(other) as client:
        echoed(client, b"warm")
        other.close()
        assert client.recv(1) == b""
    assert not [thread for thread in threading.enumerate() if thread.name == f"proxy {other.address}"]


def test_a_tap_hears_what_the_target_was_given_connection_by_connection_and_when(proxy: Proxy) -> None:
    heard: list[bytearray] = []

    def tap() -> Callable[[memoryview], None]:
        heard.append(bytearray())
        return heard[-1].extend

    with connected(proxy) as before:
        echoed(before, b"unheard")
        proxy.tap = tap
        with connected(proxy) as first, connected(proxy) as second:
            assert echoed(first, b"one") == b"one"
            assert echoed(second, b"two") == b"two"
            proxy.blackhole("to_target")
            first.sendall(b", held back")
            assert silent(first)
            assert heard == [b"one", b"two"]
            proxy.clear()
            assert exactly(first, 11) == b", held back"
            assert heard == [b"one, held back", b"two"]
            assert echoed(before, b"unheard") == b"unheard"
    assert len(heard) == 2
