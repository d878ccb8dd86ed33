"""Look-ups of names below a hub: what hangs delays nobody else, and what failed is made up for by the last answer."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from groundwork import plainthreads
from groundwork.kazoohandler import kazoo_handler
from groundwork.tasks import TaskGroup, connect, deadline, now, sleep
from tests.fakes.names import AWAY, NO_SUCH_NAME, Names, names_of_a_test

TWELVE = [f"kafka{n}.hangs" for n in range(12)]


@pytest.fixture
def names() -> Iterator[Names]:
    with names_of_a_test() as made:
        yield made


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def tasks() -> Iterator[TaskGroup]:
    made = TaskGroup()
    yield made
    made.stop(5)


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def until(done: Callable[[], object], timeout_s: float = 10) -> None:
    end = now() + timeout_s
    while not done():
        assert now() < end, "it did not happen in time"
        sleep(0.01)


def connect_for_ever(name: str, port: int) -> None:
    try:
        connect((name, port), 60).close()
    except OSError:
        pass


def test_twelve_names_that_hang_keep_neither_a_number_nor_zookeeper_waiting(
    names: Names, server: socket.socket, tasks: TaskGroup
) -> None:
    """The pool of the event loop has ten threads for everything: a healthy ZooKeeper was away for 20 s."""
    names.silent, names.known = set(TWELVE), {"zk1.answers": "127.0.0.1"}
    zookeeper = KazooClient(hosts=f"zk1.answers:{port_of(server)}", handler=kazoo_handler())
    for name in TWELVE:
        tasks.spawn(name, connect_for_ever, name, port_of(server))
    until(lambda: names.at_once >= 10)
    with deadline(5, "connecting"):
        connect(("127.0.0.1", port_of(server)), 5).close()
        connect(("::ffff:127.0.0.1", port_of(server)), 5).close()
        (at,) = zookeeper.handler.addresses(zookeeper)
        assert at == ("zk1.answers", "127.0.0.1", port_of(server))
        zookeeper.handler.create_connection(at[1:], hostname=at[0], timeout=5).close()
    assert set(names.asked) - set(TWELVE) == {"zk1.answers"}, "a number was looked up"


def test_one_look_up_of_a_name_at_a_time_answers_all_who_wait_for_it(
    names: Names, server: socket.socket, tasks: TaskGroup
) -> None:
    opened: list[socket.socket] = []
    names.known, names.silent = {"kafka1.slow": "127.0.0.1"}, {"kafka1.slow"}
    names.answers_when_released = True
    for n in range(5):
        tasks.spawn(f"w{n}", lambda: opened.append(connect(("kafka1.slow", port_of(server)), 10)))
    until(lambda: names.asked)
    sleep(0.1)
    names.release()
    until(lambda: len(opened) == 5)
    assert names.asked == ["kafka1.slow"]
    names.silent.clear()
    opened.append(connect(("kafka1.slow", port_of(server)), 10))
    assert names.asked == ["kafka1.slow"] * 2, "an answer is not kept: the name may move"
    for each in opened:
        each.close()


def test_the_last_addresses_of_a_name_are_used_while_its_look_up_fails_or_hangs_but_not_once_it_is_gone(
    names: Names, server: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    to = ("kafka1.here", port_of(server))
    names.known = {"kafka1.here": "127.0.0.1"}
    connect(to, 5).close()
    names.known = {"kafka1.here": AWAY}
    for _ in range(3):
        connect(to, 5).close()
    names.silent = {"kafka1.here"}
    began = now()
    connect(to, 60).close()
    assert 0.9 < now() - began < 4
    names.release()
    until(lambda: names.running == 0)
    names.silent, names.known = set(), {"kafka1.here": NO_SUCH_NAME}
    for _ in range(2):
        with pytest.raises(socket.gaierror, match="not known"):
            connect(to, 5)
    names.known = {"kafka1.here": AWAY}
    with pytest.raises(socket.gaierror, match="Temporary failure"):
        connect(to, 5)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1, said
    assert said[0].startswith("the look-up of kafka1.here failed; using its last addresses: ")


def test_a_look_up_ends_with_its_deadline_and_its_answer_serves_the_next_caller(
    names: Names, server: socket.socket
) -> None:
    names.known, names.silent, names.answers_when_released = {"k.slow": "127.0.0.1"}, {"k.slow"}, True
    began = now()
    with pytest.raises(socket.gaierror, match=r"no name server answered for k\.slow within 0\.2 s"):
        connect(("k.slow", port_of(server)), 0.2)
    assert now() - began < 2
    names.release()
    until(lambda: names.running == 0)
    names.known = {"k.slow": AWAY}
    connect(("k.slow", port_of(server)), 5).close()


def test_what_is_no_host_name_is_an_os_error() -> None:
    """A label of more than 63 characters raised UnicodeError, which no caller of connect() expects."""
    for host in ("a" * 64 + ".example", "two..dots"):
        with pytest.raises(OSError, match="is not a host name"):
            connect((host, 9092), 5)


def test_where_no_thread_can_be_made_a_look_up_fails_as_one_without_an_answer(
    names: Names, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    names.known = {"kafka1.here": "127.0.0.1", "kafka2.here": "127.0.0.1"}
    connect(("kafka1.here", port_of(server)), 5).close()

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(plainthreads, "_start_thread", refuse)
    with pytest.raises(OSError, match="no further thread can be started"):
        connect(("kafka2.here", port_of(server)), 5)
    connect(("kafka1.here", port_of(server)), 5).close()  # by its last address
    monkeypatch.undo()
    until(lambda: names.running == 0)


def test_logins_that_hang_keep_nothing_but_logins_waiting(
    names: Names, server: socket.socket, tasks: TaskGroup
) -> None:
    released = threading.Event()
    names.known = {"kafka1.here": "127.0.0.1"}
    running: list[int] = []

    def log_in() -> None:
        running.append(1)
        released.wait(30)

    logins = [tasks.spawn(f"login {n}", connect.in_thread, log_in) for n in range(12)]
    until(lambda: len(running) == 10)
    with deadline(5, "connecting"):
        connect(("kafka1.here", port_of(server)), 5).close()
    assert all(login.end(5) for login in logins)
    released.set()
    with deadline(5, "a login"):
        assert connect.in_thread(divmod, 7, 2) == (3, 1)
    assert len(running) == 10, "a login was made that nobody waited for"


SHUTDOWN = """
    import _socket, sys, time
    from groundwork.kazoohandler import kazoo_handler
    def hang(host, port, family=0, type=0, proto=0, flags=0, real=_socket.getaddrinfo):
        if host == "silent.example" and not flags & _socket.AI_NUMERICHOST:
            asked.append(host)
            if not answering:
                time.sleep(60)
            host = "127.0.0.1"
        return real(host, port, family, type, proto, flags)
    asked, answering, _socket.getaddrinfo = [], [], hang

    def until_asked():
        while not asked:
            time.sleep(0.01)
"""
PRODUCER = """
    import threading
    from producer import Producer
    from producer.errors import SendFailed
    producer = Producer({"metadata.broker.list": "silent.example:9092"})
    producer.start()
    failed = []
    def send():
        try:
            producer.send("t", b"x")
        except Exception as error:
            failed.append(str(error))
    sender = threading.Thread(target=send)
    sender.start()
    until_asked()
    began = time.monotonic()
    producer.close(0.5)
    print("closed in time:", time.monotonic() - began < 5)
    sender.join()
    print(*failed)
"""
HUB = """
    from groundwork.hub import OwnThread
    from groundwork.tasks import connect
    hub = OwnThread()
    hub.start()
    hub.post(connect, ("silent.example", 9092), 60)
    until_asked()
    began = time.monotonic()
    hub.stop()
    print("stopped in time:", time.monotonic() - began < 5)
"""


def run(text: str, *more: str) -> tuple[str, str, float]:
    began = time.monotonic()
    argv = [sys.executable, "-c", "\n".join(map(textwrap.dedent, (text, *more)))]
    end = subprocess.run(argv, capture_output=True, text=True, timeout=50)
    return end.stdout, end.stderr, time.monotonic() - began


def test_neither_the_end_of_a_hub_nor_the_programs_exit_waits_for_a_look_up() -> None:
    """It took 16 s, said that something ran without ever waiting, and took 16 s more at the interpreter's exit."""
    out, errors, took_s = run(SHUTDOWN, HUB)
    assert (out, errors) == ("stopped in time: True\n", "")
    assert took_s < 12


def test_a_producer_closes_in_its_time_with_its_own_reason_while_its_broker_is_looked_up() -> None:
    out, errors, took_s = run(SHUTDOWN, PRODUCER)
    assert (out.splitlines()[0], errors) == ("closed in time: True", "")
    assert took_s < 12


def test_a_hub_that_does_not_end_is_waited_for_once() -> None:
    text = """
        import time
        import groundwork.hub
        groundwork.hub.EXIT_S = -3.5
        hub = groundwork.hub.OwnThread()
        hub.start()
        hub.post(time.sleep, 4)
        began = time.monotonic()
        try:
            hub.stop()
        except TimeoutError:
            print(time.monotonic() - began < 2)
        groundwork.hub.EXIT_S = 30
    """
    out, errors, took_s = run(text)
    assert (out, errors) == ("True\n", "")
    assert took_s < 3.5


def test_a_forked_child_looks_up_what_hangs_in_its_parent() -> None:
    text = """
        import os, warnings
        import gevent
        from groundwork.tasks import TaskGroup, connect, sleep
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 finds a fork beside threads dangerous
        TaskGroup().spawn("parent", connect, ("silent.example", 9), 60)
        while not asked:
            sleep(0.01)
        if os.fork() == 0:
            gevent.reinit()
            answering.append(True)
            try:
                connect(("silent.example", 9), 10)
            except ConnectionRefusedError:
                print("looked up", flush=True)
            os._exit(0)
        os.wait()
        os._exit(0)
    """
    out, errors, took_s = run(SHUTDOWN, text)
    assert (out, errors) == ("looked up\n", "")
    assert took_s < 12
