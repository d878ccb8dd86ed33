"""One connection to one broker: a socket around a Session.  Plain blocking calls; knows no greenlet and no thread.

The socket comes from `connect`, which is socket.create_connection or anything that behaves like it (the daemon gives
gevent's): waiting then means waiting for that kind of socket.  One caller may send while another receives; two
senders, or two receivers, at a time need a lock of their own.

    closed      not connected yet; the first send connects
    open
    broken      after any socket error, time-out or senseless reply, and after close(): every call raises LinkLost,
                .broken says why.  A link is never mended, because which of the outstanding requests
                happened is unknown: take a new one (Links does)
"""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from groundwork.openfiles import too_many
from kafkawire.errors import LinkLost, RemoteError
from kafkawire.model import Broker
from kafkawire.net.session import Reply, Session
from kafkawire.protocol.buffers import Buffers
from kafkawire.protocol.request import Request

ResponseT = TypeVar("ResponseT")

Connect = Callable[[tuple[str, int], float], Any]
# Linux tells the other side's end by POLLRDHUP though bytes may wait unread; elsewhere POLLHUP does.
_ENDED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL
AT_ONCE_BYTES = 1 << 20  # of a set are waited for together
FEW_BYTES = 128 << 10  # less than that is taken as it comes
GATHER_S = 1.0  # a link that is slower than that gains nothing by it
VIEWS_PER_CALL = 512  # sendmsg takes at most IOV_MAX (1024 on Linux) buffers


class Link:
    """A connection to `broker`, opened on the first send.

    timeout_ms bounds the connecting, and each silence while bytes are waited for or wait to be taken: a reply that
    trickles in is not timed out, one that stops is.  A fetch may wait max_wait_ms on the broker: keep it well below.
    """

    def __init__(
        self,
        broker: Broker,
        client_id: str,
        connect: Connect = socket.create_connection,
        timeout_ms: int = 30000,
        buffers: Buffers | None = None,
    ) -> None:
        self.broker = broker
        self.broken: LinkLost | None = None
        self.closed_here = False  # by close(), and by nothing that happened to it
        self._session = Session(client_id, buffers)
        self._connect = connect
        self._timeout_s = timeout_ms / 1000
        self._socket: Any = None
        self._gathers = True
        self._least = 1  # bytes that wake who waits for the socket
        self._replies: deque[Reply] = deque()

    @property
    def outstanding(self) -> int:
        """Requests sent and not yet answered."""
        return self._session.outstanding + len(self._replies)

    def call(self, request: Request[ResponseT]) -> ResponseT:
        """Send one request and wait for its reply's body; None for one that has no reply (acks 0).

        Raises LinkLost (unknown outcome) on any socket error, time-out, or reply that is not a reply.
        """
        self.send(request)
        body: Any = self.receive().body if request.expects_reply else None
        response: ResponseT = body
        return response

    def send(self, request: Request[Any]) -> None:
        """Send a request without waiting for the response; connects first when need be.  Raises LinkLost."""
        self.open()
        try:
            self._wait_for(self._connected(), 1)
            self._send_all(self._session.send(request))
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> Reply:
        """The next reply, in the order of the requests.  Raises LinkLost; so it does when nothing is outstanding."""
        self._check()
        while not self._replies:
            if self._socket is None or not self._session.outstanding:
                raise LinkLost(f"{self.broker}: asked for a reply, but no request is outstanding")
            self._receive_some()
        return self._replies.popleft()

    def closed_by_peer(self) -> bool:
        """Whether the other side has ended the connection (closed or reset it): a look that does not wait.

        Where requests have no replies nothing else tells.  False before the link is open, True once it is broken.
        """
        if self.broken is not None:
            return True
        if self._socket is None:
            return False
        look = select.poll()
        look.register(self._socket.fileno(), _ENDED)
        return bool(look.poll(0))

    def close(self) -> None:
        """Close for good, from anywhere: calls that wait raise LinkLost."""
        if self.broken is None:
            self.closed_here = True
            self.broken = LinkLost(f"{self.broker}: the link was closed{self._loss()}")
        self._shut()

    def _check(self) -> None:
        if self.broken is not None:
            raise LinkLost(str(self.broken))

    def open(self) -> None:
        """Connect now, unless that is done.  Raises LinkLost."""
        self._check()
        if self._socket is not None:
            return
        try:
            self._socket = opened = self._connect((self.broker.host, self.broker.port), self._timeout_s)
            opened.settimeout(self._timeout_s)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise self._lost(error, "connecting: ") from error
        if self.broken is not None:  # closed while we were connecting
            self._shut()
            raise LinkLost(str(self.broken))

    def _send_all(self, buffers: Sequence[bytes | memoryview]) -> None:
        """A frame in as few calls as it takes: one, unless the socket takes only a part of it."""
        views = [view for view in map(_octets, buffers) if len(view)]
        at = 0
        while at < len(views):
            taken = self._taken(self._connected().sendmsg(views[at : at + VIEWS_PER_CALL]))
            while at < len(views) and taken >= len(views[at]):
                taken -= len(views[at])
                at += 1
            if taken:
                views[at] = views[at][taken:]

    def _taken(self, count: int) -> int:
        if count <= 0:
            raise OSError("the socket takes no more bytes")
        return count

    def _receive_some(self) -> None:
        """Read what there is into what the session wants next."""
        try:
            count = self._received(self._session.wanted())
            if count == 0:
                raise ConnectionResetError("the other side closed the connection")
            self._replies.extend(self._session.received(count))
        except (OSError, RemoteError) as error:
            raise self._lost(error) from error

    def _received(self, place: memoryview) -> int:
        """What there is, at least a byte.  Of a set we are woken for a megabyte, not for every few packets: each time
        costs, and all the more beside a thread that computes.
        """
        opened = self._connected()
        least = min(len(place), AT_ONCE_BYTES) if self._gathers and len(place) > FEW_BYTES else 1
        self._wait_for(opened, least)
        try:
            return int(opened.recv_into(place))
        except TimeoutError:
            if least == 1:
                raise
        self._gathers = False  # from now on it is a silence that is bounded, not how long a megabyte takes
        return self._received(place)

    def _wait_for(self, opened: Any, least: int) -> None:
        """So many bytes wake who waits.  A time-out of GATHER_S is that of a gathering alone, of no other wait."""
        if least != self._least:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)
            opened.settimeout(self._timeout_s if least == 1 else min(self._timeout_s, GATHER_S))
            self._least = least

    def _connected(self) -> Any:
        if self._socket is None:
            raise OSError("the link was closed")
        return self._socket

    def _lost(self, error: Exception, doing: str = "") -> LinkLost:
        """The link is broken by this error; the first reason stays."""
        if self.broken is None:
            silence = f"no byte within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else ""
            why = silence or too_many(error) or str(error)
            self.broken = LinkLost(f"{self.broker}: {doing}{why or type(error).__name__}{self._loss()}")
        self._shut()
        return LinkLost(str(self.broken))

    def _loss(self) -> str:
        waiting = self._session.waiting()
        return f"; without an answer: {waiting}" if waiting else ""

    def _shut(self) -> None:
        opened, self._socket = self._socket, None
        if opened is None:
            return
        try:
            opened.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in recv, which close alone does not
        except OSError:
            pass  # not connected any more: that is what we want
        opened.close()

    def __repr__(self) -> str:
        state = "broken" if self.broken else "open" if self._socket else "closed"
        return f"<Link {self.broker} {state}, {self.outstanding} outstanding>"


def _octets(buffer: bytes | memoryview) -> memoryview:
    view = memoryview(buffer)
    return view if view.ndim == 1 and view.itemsize == 1 else view.cast("B")
