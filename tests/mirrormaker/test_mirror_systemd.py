"""The datagrams that systemd gets, and what is read from its environment."""

import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from groundwork.tasks import TaskGroup, deadline, sleep
from mirrormaker.systemd import Systemd, Watchdog, watchdog_s


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(2)
        yield sock


def test_ready_and_status_travel_in_one_datagram(manager: socket.socket) -> None:
    Systemd({"NOTIFY_SOCKET": manager.getsockname()}, os.getpid()).ready("0 msg/s\nlag 3")
    assert manager.recv(1000) == b"READY=1\nSTATUS=0 msg/s lag 3"


def test_every_status_begins_with_the_name_of_the_mirror(manager: socket.socket) -> None:
    mirror = Systemd({"NOTIFY_SOCKET": manager.getsockname()}, os.getpid(), "orders")
    mirror.ready("0 msg/s")
    mirror.status("1 msg/s")
    mirror.reloading()
    mirror.stopping(10)
    said = [line for datagram in drain(manager) for line in datagram.split(b"\n") if line.startswith(b"STATUS=")]
    assert said == [b"STATUS=orders: 0 msg/s", b"STATUS=orders: 1 msg/s", b"STATUS=orders: reloading",
                    b"STATUS=orders: draining"]  # fmt: skip


def test_stopping_asks_for_the_time_that_a_drain_may_take(manager: socket.socket) -> None:
    Systemd({"NOTIFY_SOCKET": manager.getsockname()}, os.getpid()).stopping(10)
    assert manager.recv(1000) == b"STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=10000000"


def test_a_sign_of_life_is_one_datagram(manager: socket.socket) -> None:
    Systemd({"NOTIFY_SOCKET": manager.getsockname()}, os.getpid()).alive()
    assert manager.recv(1000) == b"WATCHDOG=1"


def test_a_loop_that_could_not_run_pings_as_soon_as_it_does(manager: socket.socket) -> None:
    """A stall of three quarters of the limit, right after a ping: the next one in its time would be too late."""
    limit_s, tasks = 1.0, TaskGroup()
    systemd = Systemd({"NOTIFY_SOCKET": manager.getsockname()}, os.getpid())
    tasks.spawn("watchdog", Watchdog(systemd, []).run, limit_s)
    with deadline(10):
        while not drain(manager):
            sleep(0.001)
    time.sleep(0.75 * limit_s)  # blocks the loop: that is the subject here
    assert drain(manager) == []
    for _ in range(3):
        sleep(0.001)
    assert drain(manager)[:1] == [b"WATCHDOG=1"]
    tasks.stop(1)


def fill(manager: socket.socket) -> None:
    """Fill the queue, as if systemd had much to do."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                other.sendto(b"X=1", manager.getsockname())


def drain(manager: socket.socket) -> list[bytes]:
    """Everything but what fill() sent."""
    manager.setblocking(False)
    found = []
    with suppress(BlockingIOError):
        while True:
            found.append(manager.recv(1000))
    return [each for each in found if each != b"X=1"]


def test_ready_is_sent_with_each_status_until_systemd_has_taken_it(manager: socket.socket) -> None:
    mirror = Systemd({"NOTIFY_SOCKET": manager.getsockname()}, os.getpid())
    fill(manager)
    mirror.ready("1 msg/s")
    mirror.status("2 msg/s")
    assert drain(manager) == []
    mirror.status("3 msg/s")
    mirror.status("4 msg/s")
    assert drain(manager) == [b"READY=1\nSTATUS=1 msg/s", b"STATUS=3 msg/s", b"STATUS=4 msg/s"]


def test_a_reload_that_systemd_did_not_take_begins_and_ends_there_in_order(manager: socket.socket) -> None:
    mirror = Systemd({"NOTIFY_SOCKET": manager.getsockname()}, os.getpid())
    fill(manager)
    mirror.ready("started")
    for n in range(3):
        mirror.reloading()
        mirror.ready(f"reloaded {n}")
    drain(manager)
    mirror.repeat()
    reloading, ready = drain(manager)
    assert reloading.startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    assert ready == b"READY=1\nSTATUS=reloaded 2"


def test_a_stop_takes_the_place_of_all_that_systemd_did_not_take(manager: socket.socket) -> None:
    mirror = Systemd({"NOTIFY_SOCKET": manager.getsockname()}, os.getpid())
    fill(manager)
    mirror.ready("started")
    mirror.stopping(10)
    drain(manager)
    mirror.repeat()
    mirror.repeat()
    assert drain(manager) == [b"STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=10000000"]


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_a_free_descriptor_systemd_hears_all_the_same(manager: socket.socket) -> None:
    mirror = Systemd({"NOTIFY_SOCKET": manager.getsockname()}, os.getpid())
    with no_descriptor_left():
        mirror.ready("started")
        mirror.alive()
    assert drain(manager) == [b"READY=1\nSTATUS=started", b"WATCHDOG=1"]


def test_ready_is_sent_once_there_is_a_descriptor(manager: socket.socket) -> None:
    with no_descriptor_left():
        mirror = Systemd({"NOTIFY_SOCKET": manager.getsockname()}, os.getpid())
        mirror.ready("started")
    mirror.repeat()
    assert drain(manager) == [b"READY=1\nSTATUS=started"]


def test_abstract_sockets_are_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        name = f"mirrormaker-test-{os.getpid()}"
        sock.bind("\0" + name)
        sock.settimeout(2)
        Systemd({"NOTIFY_SOCKET": "@" + name}, os.getpid()).status("ok")
        assert sock.recv(1000) == b"STATUS=ok"


def test_a_manager_that_went_away_does_not_stop_the_mirror(tmp_path: Path) -> None:
    Systemd({"NOTIFY_SOCKET": str(tmp_path / "gone")}, os.getpid()).status("ok")


def test_outside_systemd_nothing_is_sent() -> None:
    outside = Systemd({}, os.getpid())
    outside.ready("ok")
    assert outside.watchdog_s is None


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_counts_only_when_it_is_meant_for_this_process(environ: dict[str, str], wanted: float) -> None:
    assert watchdog_s(environ, pid=7) == wanted
