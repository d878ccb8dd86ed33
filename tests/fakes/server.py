"""One fake broker's sockets: a listening one, a plain thread a connection, one request at a time."""

from __future__ import annotations

import socket
import struct
import threading
from typing import TYPE_CHECKING

from tests.fakes.actions import WAIT_S, Close, Raw, Wait
from tests.fakes.frames import NOT_OF_08, decode
from tests.fakes.handlers import HANDLERS

if TYPE_CHECKING:
    from tests.fakes.broker import FakeCluster


class Server:
    """One broker: a listening socket and a thread a connection."""

    def __init__(self, cluster: FakeCluster, broker: int, port: int) -> None:
        self.cluster, self.broker = cluster, broker
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self.listener.getsockname()[1]
        self.connections: set[socket.socket] = set()
        self.closed = False
        self.threads = [threading.Thread(target=self._accept, name=f"fake-broker-{broker}", daemon=True)]
        self.threads[0].start()

    def close(self) -> None:
        with self.cluster.lock:
            self.closed = True
            doomed = [self.listener, *self.connections]
        for each in doomed:
            _reset(each)
        for thread in list(self.threads):
            if thread is not threading.current_thread():
                thread.join(WAIT_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.cluster.lock:
                if self.closed:
                    connection.close()
                    return
                self.connections.add(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), name="fake-connection", daemon=True)
                self.threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while (size := _exactly(connection, 4)) is not None:
                frame = _exactly(connection, struct.unpack(">i", size)[0])
                if frame is None or not self._answer(connection, frame):
                    return
        except OSError:
            return  # the client, or close(), took the connection away
        except BaseException as error:  # a fake that breaks must fail the test
            self.cluster.errors.append(error)
        finally:
            with self.cluster.lock:
                self.connections.discard(connection)
            _reset(connection)

    def _answer(self, connection: socket.socket, frame: bytes) -> bool:
        if struct.unpack_from(">h", frame)[0] in NOT_OF_08:
            return False  # as a broker of 0.8.2 closes on what it does not know
        api, body, correlation = decode(frame)
        cluster = self.cluster
        with cluster.changed:
            if self.closed:
                return False
            asks_release = api == "metadata" and body["version"] > 0  # as 0.8, which answers as v0; scripts are of use
            queue = None if asks_release else cluster.scripts.get(api)
            action = queue.popleft() if queue else None
            if not asks_release:
                cluster.note(self.broker, api, body)
        if isinstance(action, Raw):
            connection.sendall(action.data)
            return True
        if isinstance(action, Wait):
            (action.event or threading.Event()).wait(action.seconds)
        if isinstance(action, Close) and not action.store:
            return False
        with cluster.changed:
            if self.closed:
                return False
            reply = HANDLERS[api](cluster, self.broker, body, action)
            cluster.changed.notify_all()
        if isinstance(action, Close):
            return False
        if reply is not None:
            connection.sendall(struct.pack(">ii", 4 + len(reply), correlation) + reply)
        return True


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _reset(connection: socket.socket) -> None:
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in recv or accept
    except OSError:
        pass  # not connected any more
    connection.close()
