"""Whatever listens does so for this machine alone: the kernel is asked, not the code."""

from __future__ import annotations

import ast
import os
import re
import socket
from pathlib import Path

from groundwork.lineserver import LineServer
from groundwork.tasks import TaskGroup
from localkafka.proxy import Proxy
from localkafka.seven.settings import settings
from mirrormaker.config import from_yaml
from mirrormaker.http.server import StatusServer
from mirrormaker.listen import listen_address
from tests.fakes.reports import report
from tests.security.test_source import parsed

LISTENS = re.compile(r"\b(bind|create_server|(TCP|UDP|HTTP|Stream|WSGI)Server)$")
LISTEN = "0A"  # of a TCP socket in /proc/net/tcp


def listening(pid: int | str = "self") -> list[str]:
    """Addresses at which a process listens, as the kernel has them."""
    held = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held.add(os.readlink(each))
        except OSError:
            continue
    found = []
    for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and f"socket:[{fields[9]}]" in held:
                found.append(_address(family, fields[1].partition(":")[0]))
    return found


def _address(family: int, text: str) -> str:
    """Hexadecimal, each 32 bits in the order of this machine."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    address = socket.inet_ntop(family, b"".join(words))
    return address.removeprefix("::ffff:")


def test_the_kernel_is_read_rightly() -> None:
    before = sorted(listening())
    with socket.create_server(("127.0.0.1", 0)), socket.create_server(("", 0)):
        assert sorted(listening()) == sorted([*before, "127.0.0.1", "0.0.0.0"])
    with socket.create_server(("::1", 0), family=socket.AF_INET6):
        assert sorted(listening()) == sorted([*before, "::1"])


def test_the_status_page_is_for_this_machine(tasks: TaskGroup) -> None:
    host, _ = listen_address("9308")
    server = StatusServer(report, lambda: 0.0, tasks)
    before = listening()
    assert server.start(listen_address(f"{host}:9308")._replace(port=0)).startswith("http://127.0.0.1:")
    new = listening()
    server.close()
    assert len(new) == len(before) + 1
    assert set(new) - set(before) <= {"127.0.0.1"}


def test_the_control_socket_is_of_the_file_system(tasks: TaskGroup, tmp_path: Path) -> None:
    before = listening()
    server = LineServer(tasks, lambda line: [line])
    server.start(tmp_path / "s")
    assert listening() == before
    server.close()


def test_clusters_for_tests_are_for_this_machine() -> None:
    assert settings({"brokerid": "0", "log.dir": "x", "enable.zookeeper": "false"}).host == "127.0.0.1"
    before = listening()
    with Proxy(("127.0.0.1", 9)) as proxy:
        assert proxy.address[0] == "127.0.0.1"
        assert len(listening()) == len(before) + 1
        assert set(listening()) - set(before) <= {"127.0.0.1"}


def test_another_address_is_told_with_what_it_means(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"

    def notes(address: str) -> str:
        file.write_text(
            "sources:\n- {zookeeper.connect: 'zk1:2181/src', group.id: g}\n"
            "target: {metadata.broker.list: 'k:9092', target.zookeeper.connect: 'zk1:2181/dst'}\n"
            f"mirror: {{whitelist: 'a.*', http.listen: '{address}'}}\n"
        )
        return "\n".join(from_yaml(file).notes)

    for local in ("9308", "127.0.0.1:9308", "[::1]:9308", "localhost:9308"):
        assert "http.listen" not in notes(local)
    for others in ("0.0.0.0:9308", "[::]:9308", "10.0.0.5:9308", "mirror.example:9308"):
        assert f"http.listen={others}: its clients read topics" in notes(others)


# By file: calls that make a listener, and what says where it is.
LISTENERS = {
    "groundwork/lineserver.py": 1,  # a path
    "groundwork/tasks.py": 1,  # the address of http.listen
    "localkafka/ports.py": 1,  # 127.0.0.1
    "localkafka/proxy.py": 1,  # 127.0.0.1
    "localkafka/seven/server.py": 1,  # hostname, 127.0.0.1 by default
}


def test_nothing_else_listens() -> None:
    found: dict[str, int] = {}
    for where, module in parsed("bind(", "create_server(", "Server("):
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and LISTENS.search(ast.unparse(node.func)):
                found[where] = found.get(where, 0) + 1
    assert found == LISTENERS
