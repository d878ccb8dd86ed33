"""One connection to one broker: a transport around a Session.  All calls block; greenlets and threads are not used
here.

The socket comes from `connect`, which is groundwork.connecting's or a compatible function (the daemon passes gevent's):
calls wait as that kind of socket does.  A connect of kafkawire.net.security returns a transport instead (TLS), and has
a `greeting` if brokers require a login (SASL): it runs before the first request, and again when the login is about to
expire.  A link has one user at a time, which Links ensures: it lends a link to one caller, or keeps it for one task.
That user may send in one task while it receives in another, as a producer does.

    closed      not connected yet; the first send connects
    open
    broken      after any socket error, time-out or invalid reply, and after close(): every call raises LinkLost,
                .broken says why.  A link is never reopened, because the outcome of its outstanding requests is
                unknown: use a new one (Links does)
    draining    broken, because the other side ended the connection while a request was sent: its earlier
                responses may be in the socket, and receive() returns them, then raises LinkLost

While a new login is due, requests are held back until those in flight are answered: during a login a broker accepts no
other request (KIP-368).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from groundwork import clocks
from groundwork.connecting import connect as blocking_connect
from groundwork.forks import belongs_to_parent, not_in_a_fork
from groundwork.openfiles import too_many
from kafkawire.errors import LinkLost, RemoteError, SecurityRefused
from kafkawire.model import Broker
from kafkawire.net.session import Reply, Session
from kafkawire.net.transport import PlainTransport, Transport
from kafkawire.protocol.buffers import Buffers
from kafkawire.protocol.request import Request

ResponseT = TypeVar("ResponseT")

Connect = Callable[[tuple[str, int], float], Any]
SIZE_BYTES = 4
IDLE_S = 180.0  # load balancers and NATs silently drop a connection after four minutes or later
MAX_TOKEN_BYTES = 1 << 20


class SecurityFailure(OSError):
    """TLS or SASL of a connection failed; its text is a sentence about the broker. final: it will fail again until our
    settings or the broker's are changed."""

    def __init__(self, sentence: str, final: bool = True) -> None:
        super().__init__(sentence)
        self.final = final


class Login(Protocol):
    """Operations of a greeting on a link, while nothing else is sent or received."""

    @property
    def broker(self) -> Broker: ...

    def ask(self, request: Request[ResponseT]) -> ResponseT:
        """Send a request and wait for its response.  Raises OSError, RemoteError."""

    def token(self, token: bytes) -> bytes:
        """Send bytes after their size field alone, and wait for a response framed the same way.  Raises OSError,
        RemoteError."""


class Greeting(Protocol):
    """Login on a new connection, or again on one whose login is about to expire."""

    def __call__(self, login: Login) -> float | None:
        """Log in, and return the seconds from the begin of the login until the next one is due; None: never.

        Raises SecurityFailure, OSError, RemoteError.
        """


class LinkObserver(Protocol):
    """Observer of each request and response."""

    def sending(self, link: Link, request: Request[Any]) -> None:
        """Called before a request is sent."""

    def sent(self, link: Link) -> None:
        """Called when the socket has taken all bytes of the last request."""

    def received(self, link: Link, count: int, replies: int) -> None:
        """Called when `count` bytes came, which completed `replies` responses."""


class Link:
    """Connection to `broker`, opened on the first send.

    timeout_ms limits connecting, and each silence while the link waits to receive or send bytes: a slow reply does not
    time out, one that stops does.  A fetch may wait max_wait_ms on the broker: keep that well below.

    observer: for all links of the process (a profile); None: none.
    """

    observer: ClassVar[LinkObserver | None] = None

    def __init__(
        self,
        broker: Broker,
        client_id: str,
        connect: Connect = blocking_connect,
        timeout_ms: int = 30000,
        buffers: Buffers | None = None,
    ) -> None:
        self.broker = broker
        self.broken: LinkLost | None = None
        self.closed_here = False  # by close(), not by an error
        self.draining = False
        self.keeps_sent = False  # closing drops nothing that was written, even with unanswered requests
        self.aborts_at_exit = False  # drop unsent bytes if this process is killed; set before opening
        self._session = Session(client_id, buffers)
        self._connect = connect
        self._greeting: Greeting | None = getattr(connect, "greeting", None)
        self._logging_in = False
        self._login_ends: float | None = None  # on the clock of time.monotonic
        self._held: deque[Request[Any]] = deque()  # requests held back until the next login is done
        self._holding = threading.Lock()  # guards _held; never held during a wait
        self._timeout_s = timeout_ms / 1000
        self._transport: Transport | None = None
        self._used_at = 0.0  # when bytes were last sent or received
        self._replies: deque[Reply] = deque()
        not_in_a_fork(self)

    @property
    def outstanding(self) -> int:
        """Return the number of requests sent, or held back for a login, that are not yet answered, without those of a
        login itself."""
        in_flight = 0 if self._logging_in else self._session.outstanding + len(self._replies)
        return in_flight + len(self._held)

    @property
    def connected(self) -> bool:
        """True if its connection is open."""
        return self._transport is not None and self.broken is None

    def call(self, request: Request[ResponseT], before: Callable[[], object] = lambda: None) -> ResponseT:
        """Send one request and wait for its reply's body; None for one that has no reply (acks 0).

        before() is called once the connection is open and logged in, right before the bytes are sent: its exceptions
        are passed on, and then nothing was sent.  Raises LinkLost (unknown outcome) on any socket error, time-out, or
        invalid reply.
        """
        self.send(request, before)
        body: Any = self.receive().body if request.expects_reply else None
        response: ResponseT = body
        return response

    def send(self, request: Request[Any], before: Callable[[], object] = lambda: None) -> None:
        """Send a request without waiting for the response; connects first if necessary.  Raises LinkLost.

        before: called right before the bytes are sent, as in call(); it is not allowed for a request that may be held
        back, that is, with others in flight.  If the calling task is killed while it sends, the link is closed: part of
        a frame may be sent.
        """
        self.open()
        waiting = self.outstanding
        if self._login_ends is not None and self._held_back(request):
            return
        before()
        try:
            observer = Link.observer
            if observer is not None:
                observer.sending(self, request)
            self._send_all(self._session.send(request))
            if observer is not None:
                observer.sent(self)
        except (OSError, RemoteError) as error:
            self.draining = waiting > 0 and isinstance(error, ConnectionError) and self.broken is None
            raise self._lost(error) from error

    def receive(self) -> Reply:
        """Return the next reply, in the order of the requests.  Raises LinkLost, also if nothing is outstanding."""
        if not self.draining:
            self._check()
        while not self._replies:
            if self._held and not self._session.outstanding:
                self._release_held()
            if self._transport is None or not self._session.outstanding:
                raise LinkLost(f"{self.broker}: receive() was called, but no request is outstanding")
            self._receive_some()
        return self._replies.popleft()

    def closed_by_peer(self) -> bool:
        """True if the other side has closed or reset the connection; does not wait.

        If requests have no replies, this is the only way to find out.  False before the link is open, True once it is
        broken.
        """
        if self.broken is not None:
            return True
        return self._transport is not None and self._transport.ended()

    def stale(self) -> bool:
        """True if the next request should use another link, since the other side has closed this idle connection, or a
        NAT may have dropped it.  Closing it is not an outage, and leaves no unknown outcome."""
        if self.outstanding:
            return False
        return self.closed_by_peer() or (self.connected and clocks.boot() - self._used_at > IDLE_S)

    def close(self) -> None:
        """Close permanently, from any task or thread: waiting calls raise LinkLost."""
        if self.broken is None:
            self.closed_here = True
            self.broken = LinkLost(f"{self.broker}: the link was closed{self._loss()}")
        self.draining = False
        self._shut()

    def _after_fork(self) -> None:
        """Mark the link broken in a forked child: the connection belongs to the parent, which reads the responses."""
        if self.broken is None:
            self.closed_here = True
            self.broken = LinkLost(f"{self.broker}: {belongs_to_parent('the link')}")
        opened, self._transport = self._transport, None
        if opened is not None:
            opened.abandon()

    def _check(self) -> None:
        if self.broken is not None:
            raise type(self.broken)(str(self.broken))

    def open(self) -> None:
        """Connect now, unless connected.  Raises LinkLost."""
        self._check()
        if self._transport is not None:
            return
        opened: Any = None
        try:
            opened = self._connect((self.broker.host, self.broker.port), self._timeout_s)
            made: Transport = opened if hasattr(opened, "receive_into") else PlainTransport(opened, self._timeout_s)
            if self.aborts_at_exit:
                made.abort_at_exit()
        except OSError as error:
            if opened is not None:
                opened.close()
            raise self._lost(error, "connecting: ") from error
        self._transport, self._used_at = made, clocks.boot()
        if self.broken is not None:  # closed while connecting
            self._shut()
            raise type(self.broken)(str(self.broken))
        if self._greeting is not None:
            try:
                self._log_in()
            except (OSError, RemoteError) as error:
                raise self._lost(error, "logging in: ") from error

    def _send_all(self, frame: Sequence[bytes | memoryview]) -> None:
        try:
            self._connected().send_all(frame)
            self._used_at = clocks.boot()
        except BaseException as error:
            self._close_if_ended(error)
            raise

    def _close_if_ended(self, error: BaseException) -> None:
        """Close the link if a BaseException, such as the kill of a task, ended its caller in the middle of a frame or a
        login."""
        if not isinstance(error, Exception):
            self.close()

    # login ------------------------------------------------------------------------------------------------------------

    def ask(self, request: Request[ResponseT]) -> ResponseT:
        """Send one request of a greeting and return its response, while nothing else is in flight."""
        self._connected().send_all(self._session.send(request))
        while not self._replies:
            self._receive_now()
        response: ResponseT = self._replies.popleft().body
        return response

    def token(self, token: bytes) -> bytes:
        """Send bytes of a greeting after their size field alone, as brokers up to 0.11 require, and return the
        response."""
        self._connected().send_all([len(token).to_bytes(SIZE_BYTES, "big"), token])
        size = int.from_bytes(self._exactly(SIZE_BYTES), "big")
        if size > MAX_TOKEN_BYTES:
            raise RemoteError(f"a response of {size} bytes in a login is invalid")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        left = memoryview(data)
        while len(left):
            count = self._connected().receive_into(left)
            if not count:
                raise ConnectionResetError("the other side closed the connection")
            left = left[count:]
        return bytes(data)

    def _log_in(self) -> None:
        """Run the greeting."""
        assert self._greeting is not None
        began = time.monotonic()
        self._logging_in = True
        try:
            lasts_s = self._greeting(self)
        except BaseException as error:
            self._close_if_ended(error)
            raise
        finally:
            self._logging_in = False
        self._login_ends = None if lasts_s is None else began + lasts_s

    def _held_back(self, request: Request[Any]) -> bool:
        """True if a request is held back for the next login.  With nothing in flight the login is done at once.  Raises
        LinkLost."""
        with self._holding:
            due = self._login_ends is not None and time.monotonic() >= self._login_ends
            if not (self._held or due):
                return False
            if self._held or self._session.outstanding:
                self._held.append(request)
                return True
        try:
            self._log_in()
        except (OSError, RemoteError) as error:
            raise self._lost(error) from error
        return False

    def _release_held(self) -> None:
        """Log in again, then send the requests held back; requests made meanwhile are sent after them."""
        try:
            self._log_in()
            while True:
                self._send_all(self._session.send(self._held[0]))
                with self._holding:
                    self._held.popleft()
                    if not self._held:
                        return
        except (OSError, RemoteError) as error:
            raise self._lost(error) from error

    # bytes ------------------------------------------------------------------------------------------------------------

    def _receive_some(self) -> None:
        """Read available bytes into the buffer that the session offers."""
        try:
            self._receive_now()
        except (OSError, RemoteError) as error:
            if self.draining:
                self.draining, self.broken = False, None  # the requests without a response are known now
            raise self._lost(error) from error

    def _receive_now(self) -> None:
        count = self._connected().receive_into(self._session.wanted(), self._session.due)
        if count == 0:
            raise ConnectionResetError("the other side closed the connection")
        self._used_at = clocks.boot()
        replies = self._session.received(count)
        self._replies.extend(replies)
        if Link.observer is not None:
            Link.observer.received(self, count, len(replies))

    def _connected(self) -> Transport:
        if self._transport is None:
            raise OSError("the link was closed")
        return self._transport

    def _lost(self, error: Exception, doing: str = "") -> LinkLost:
        """Mark the link broken by this error; the first reason is kept."""
        if self.broken is None:
            silence = f"no byte within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else ""
            said = getattr(error, "strerror", None) or str(error)  # without the number of an errno
            why = silence or too_many(error) or said or type(error).__name__
            if isinstance(error, SecurityFailure):
                doing = ""
            kind = SecurityRefused if isinstance(error, SecurityFailure) and error.final else LinkLost
            self.broken = kind(f"{self.broker}: {doing}{why}{self._loss()}")
        if not self.draining:
            self._shut()
        return type(self.broken)(str(self.broken))

    def _loss(self) -> str:
        waiting = self._session.waiting()
        return f"; without an answer: {waiting}" if waiting else ""

    def _shut(self) -> None:
        opened, self._transport = self._transport, None
        if opened is not None:
            opened.close(abort=self._session.outstanding > 0 and not self.keeps_sent)

    def __repr__(self) -> str:
        state = "broken" if self.broken else "open" if self._transport else "closed"
        return f"<Link {self.broker} {state}, {self.outstanding} outstanding>"
