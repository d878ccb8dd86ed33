"""A small HTTP server in the hub of its caller, for views of a running program: GET and HEAD, one request a connection.

Every connection is a task with a time limit, so a slow or silent client costs one of `max_connections` and nothing
else.  When all are taken, one gives way to a new connection: the oldest that has its response, else that has not sent
its request, else that does not read its response.  While an answer is made for each, further connections are refused
with 503.  Request lines and headers are bounded.  What `answer` raises is logged and
becomes 500: a view never ends the program that it shows.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import Enum, auto
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from groundwork.decimals import decimal_int
from groundwork.hosts import is_listed
from groundwork.tasks import TaskGroup, deadline, listen, sleep

log = logging.getLogger(__name__)

MAX_HEAD_BYTES = 16 << 10  # request line and headers
MAX_CONNECTIONS = 32
FIRST_BYTE_S = 1.0  # until the first byte of a request has arrived
REQUEST_S = 10.0  # until the request has arrived
RESPONSE_S = 30.0  # until the response is made and sent
DRAIN_S = 0.5  # what a client still sends is read that long: closing with unread bytes would cut off the response
ACCEPT_RETRY_S = 1.0
EVENT = {"event": "http", "key": "http"}  # of log lines; repetitions of a key are held back
TEXT = "text/plain; charset=utf-8"
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close drops what is not sent


@dataclass(frozen=True, slots=True)
class Request:
    """A request.  path: decoded, without the query; headers: by name in lower case, the last of equal names."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """A response.  headers: in addition to those of every response."""

    status: int
    body: bytes
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)

    def head(self) -> bytes:
        """Return the status line and headers, as they are sent."""
        headers = {
            "Date": formatdate(usegmt=True),
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **self.headers,
            "Connection": "close",
        }
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}", *map(": ".join, headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def sentence(status: int, text: str, **headers: str) -> Response:
    """Return a response of one line of text."""
    return Response(status, f"{text}\n".encode(), headers=headers)


NOT_FOUND = sentence(404, "there is nothing here")
BUSY = sentence(503, "too many connections are open; try again")


class BadRequest(Exception):
    """A request that cannot be answered; .response says why."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.response = sentence(status, text, **headers)


def parse(head: bytes) -> Request:
    """Return the request of the bytes before the empty line.  Raises BadRequest."""
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(400, "malformed HTTP/1.1 request")
    method, path = words[0], unquote(words[1].partition("?")[0])
    if method not in ("GET", "HEAD"):
        raise BadRequest(405, f"{method[:20]} is not allowed here: GET and HEAD are", Allow="GET, HEAD")
    if not path.startswith("/"):
        raise BadRequest(400, "the request names no path")
    headers = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip() or not name:
            raise BadRequest(400, "a header is not NAME: VALUE")
        headers[name.lower()] = value.strip()
    return Request(method, path, headers)


class _Phase(Enum):
    """Phase of a connection."""

    ASKING = auto()
    ANSWERING = auto()
    SENDING = auto()
    DRAINING = auto()


_GIVE_WAY = (_Phase.DRAINING, _Phase.ASKING, _Phase.SENDING)  # in this order; an answer that is made is not given up


def is_trusted_name(host: str, hosts: Sequence[str] = ()) -> bool:
    """True if no web site could have led a browser here by the name in a Host header.

    That is an address, a name without a dot (of a container, or in a hosts file: no web site has one), the name of this
    machine, or one that `hosts` lists.
    """
    before, _, port = host.rpartition(":")
    name = before if decimal_int(port) is not None and not host.endswith("]") else host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        return name == "" or plain or is_listed(name, (socket.gethostname(), *hosts))
    return True


class HttpServer:
    """Listens at one address and answers by `answer`.  A request by a name that a web site could have is refused: else
    any of them could read the answers through a browser that reaches this address (DNS rebinding).

    hosts: further names that clients may ask by (groundwork/hosts.py).
    """

    def __init__(
        self,
        tasks: TaskGroup,
        answer: Callable[[Request], Response],
        *,
        hosts: Sequence[str] = (),
        max_connections: int = MAX_CONNECTIONS,
        first_byte_s: float = FIRST_BYTE_S,
        request_s: float = REQUEST_S,
        response_s: float = RESPONSE_S,
    ) -> None:
        self._tasks = tasks
        self._answer = answer
        self._hosts = hosts
        self._max_connections = max_connections
        self._first_byte_s = first_byte_s
        self._request_s = request_s
        self._response_s = response_s
        self._phases: dict[Any, _Phase] = {}  # by open connection, oldest first
        self._listener: Any = None

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._phases)

    @property
    def asking(self) -> int:
        """Return the number of connections that have not sent their request yet."""
        return list(self._phases.values()).count(_Phase.ASKING)

    def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen (port 0: any) and accept connections from now on; the address.  Raises OSError."""
        self._listener = listen((host, port))
        address = self._listener.getsockname()[:2]
        self._tasks.spawn("http", self._accept)
        return str(address[0]), int(address[1])

    def close(self) -> None:
        """Accept no more connections; those that are open end by themselves, or with the task group."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        try:
            while self._listener is not None:
                self._accept_one(self._listener)
        finally:
            self.close()

    def _accept_one(self, listener: Any) -> None:
        try:
            connection, _ = listener.accept()
        except OSError as reason:
            if self._listener is not None:
                log.warning("http: a connection cannot be accepted: %s", reason, extra=EVENT)
                sleep(ACCEPT_RETRY_S)  # too many open files, mostly
            return
        if self.connections >= self._max_connections:
            sleep(0)  # requests that are here already are read first
            if self.connections >= self._max_connections and not self._made_room():
                self._refuse(connection)
                return
        self._phases[connection] = _Phase.ASKING
        self._tasks.spawn("http-connection", self._serve, connection)

    def _made_room(self) -> bool:
        """Close the oldest connection of the first phase that gives way; return whether there was one."""
        found = [(connection, phase) for way in _GIVE_WAY for connection, phase in self._phases.items() if phase is way]
        if not found:
            return False
        connection, phase = found[0]
        del self._phases[connection]
        with suppress(OSError):
            if phase is _Phase.SENDING:  # else the system keeps for minutes what the client does not read
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.shutdown(2)  # SHUT_RDWR: its task finds the end, and closes it
        return True

    def _enter(self, connection: Any, phase: _Phase) -> None:
        """Set the phase of a connection.  Raises EOFError if it was closed for another one."""
        if connection not in self._phases:
            raise EOFError
        self._phases[connection] = phase

    def _refuse(self, connection: Any) -> None:
        """Send 503 at once, without a task: a new connection takes these few bytes without waiting."""
        try:
            connection.setblocking(False)
            connection.send(BUSY.head() + BUSY.body)
        except OSError:
            pass
        connection.close()

    def _serve(self, connection: Any) -> None:
        try:
            self._exchange(connection)
        except (OSError, EOFError):  # TimeoutError, too: the client is gone, or too slow
            pass
        finally:
            self._phases.pop(connection, None)
            connection.close()

    def _exchange(self, connection: Any) -> None:
        try:
            request = parse(self._head(connection))
        except BadRequest as refused:
            method, response = "GET", refused.response
        else:
            with deadline(self._response_s, "an answer"):
                method, response = request.method, self._answered(request)
        self._enter(connection, _Phase.SENDING)
        with deadline(self._response_s, "a response"):
            connection.sendall(response.head() + (response.body if method == "GET" else b""))
        self._enter(connection, _Phase.DRAINING)
        with deadline(DRAIN_S, "the end"):
            connection.shutdown(1)  # SHUT_WR
            while connection.recv(65536):
                pass

    def _head(self, connection: Any) -> bytes:
        """Return the bytes before the first empty line.  Raises BadRequest, EOFError, OSError."""
        with deadline(self._request_s, "a request"):
            with deadline(self._first_byte_s, "the first byte of a request"):
                received = _more(connection)
            while b"\r\n\r\n" not in received and len(received) <= MAX_HEAD_BYTES:
                received += _more(connection)
        self._enter(connection, _Phase.ANSWERING)
        head = received.partition(b"\r\n\r\n")[0]
        if len(head) > MAX_HEAD_BYTES:
            raise BadRequest(431, f"request line and headers are longer than {MAX_HEAD_BYTES} bytes")
        return head

    def _answered(self, request: Request) -> Response:
        if not is_trusted_name(request.headers.get("host", ""), self._hosts):
            return sentence(421, "ask by an address of this machine, or by a name that http.hosts lists")
        try:
            return self._answer(request)
        except Exception as failed:
            kind = type(failed).__name__
            log.exception("http: %s: %s: %s", request.path, kind, failed, extra={**EVENT, "key": f"http {kind}"})
            return sentence(500, f"{kind}: the log has more")


def _more(connection: Any) -> bytes:
    received: bytes = connection.recv(4096)
    if not received:
        raise EOFError
    return received
