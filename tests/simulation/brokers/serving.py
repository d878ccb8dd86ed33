"""Connections to a broker: frames, one request at a time, and the request that a handler answers.

Bytes come in any cut.  While a request is in progress the following ones wait in the buffer (wire-protocol 4.5).  When
the client's end is gone, the request in progress goes on; its answer and what stands behind it are dropped.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kafkawire.errors import WireError
from kafkawire.protocol.api import Api

if TYPE_CHECKING:
    from tests.simulation.brokers.broker import SimBroker

_HEAD = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")
_REPLY = struct.Struct(">ii")
MAX_FRAME = 100 << 20  # socket.request.max.bytes


class Wire(Protocol):
    """What a broker does to a connection."""

    def send(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class Peer(Protocol):
    """What the network does to a broker's end of a connection."""

    def received(self, data: bytes) -> None: ...

    def closed(self) -> None: ...


class Request:
    """One request.  body: its fields.  A handler calls answer(), answer_bytes(), nothing() or close() once."""

    __slots__ = ("api", "body", "broker", "client_id", "connection", "correlation", "key", "throttle_s", "version")

    def __init__(
        self, connection: Connection, api: Api, version: int, correlation: int, client_id: str, body: dict[str, Any]
    ) -> None:
        self.connection = connection
        self.broker = connection.broker
        self.api = api
        self.key = api.key
        self.version = version
        self.correlation = correlation
        self.client_id = client_id
        self.body = body
        self.throttle_s = 0.0  # the broker reads nothing for so long after the answer (7)

    def answer(self, fields: Mapping[str, Any] | None) -> None:
        """Send the fields that this version has, others are left out; None closes the connection."""
        if fields is None:
            self.close()
        else:
            self.answer_bytes(self.api.encode_reply(self.version, of_version(self.api.reply, self.version, fields)))

    def answer_bytes(self, body: bytes) -> None:
        self.connection.answered(self, _REPLY.pack(4 + len(body), self.correlation) + body)

    def nothing(self) -> None:
        """The request has no answer (acks 0)."""
        self.connection.answered(self, None)

    def close(self) -> None:
        self.connection.close()


class Connection:
    """A client's connection to one broker, from the broker's side."""

    __slots__ = ("_buffer", "_reading", "broker", "busy", "gone", "open", "wire")

    def __init__(self, broker: SimBroker, wire: Wire) -> None:
        self.broker = broker
        self.wire = wire
        self.open = True  # on this side
        self.gone = False  # the client's end
        self.busy: Request | None = None
        self._buffer = bytearray()
        self._reading = False

    def received(self, data: bytes) -> None:
        if self.open:
            self._buffer += data
            self.read()

    def closed(self) -> None:
        self.gone = True
        if self.busy is None and self.open:
            self.broker.run(self._end_of_stream)

    def _end_of_stream(self) -> None:
        if self.busy is None:
            self.close()

    def close(self) -> None:
        """Close it from the broker's side."""
        if self.open:
            self.drop()
            if not self.gone:
                self.wire.close()

    def drop(self) -> None:
        self.open = False
        self._buffer.clear()
        self.broker.connections.pop(self, None)

    def read(self) -> None:
        """Serve whole frames, one after the other, while none is in progress."""
        if self._reading:
            return
        self._reading = True
        buffer = self._buffer
        try:
            while self.open and self.busy is None and len(buffer) >= 4 and not self.broker.frozen:
                (size,) = _SIZE.unpack_from(buffer)
                if not 10 <= size <= MAX_FRAME:
                    self.close()
                    return
                if len(buffer) < 4 + size:
                    break
                frame = bytes(memoryview(buffer)[4 : 4 + size])
                del buffer[: 4 + size]
                self._serve(frame)
        finally:
            self._reading = False

    def _serve(self, frame: bytes) -> None:
        key, version, correlation, length = _HEAD.unpack_from(frame)
        at = 10 + max(0, length)
        client_id = frame[10:at].decode("utf-8", "replace")
        broker = self.broker
        found = broker.api(key, version)
        if found is None:
            if key == 18 and broker.rules.describes_itself:  # a version it does not have: 35, in the layout of v0
                ranges = broker.ranges_of(key) if broker.rules.names_its_versions else []
                self._send(_REPLY.pack(10 + 6 * len(ranges), correlation) + _too_new(ranges))
            elif broker.rules.silent_on_unknown:
                self.busy = _SILENT
            else:
                self.close()
            return
        api, version = found
        try:
            body = api.decode_request(version, memoryview(frame)[at:])
        except WireError:
            self.close()
            return
        request = self.busy = Request(self, api, version, correlation, client_id, body)
        broker.requests += 1
        broker.cluster.handlers[key](broker, request)

    def answered(self, request: Request, data: bytes | None) -> None:
        if self.busy is not request:
            return
        if not self.open:
            self.busy = None
            return
        if data is not None and self.gone:
            self.busy = None
            self.close()
            return
        if request.throttle_s > 0:
            self.broker.after(request.throttle_s, self._unmute, request)
        else:
            self.busy = None
        if data is not None:
            self._send(data)
        if self.busy is None:
            self._go_on()

    def _unmute(self, request: Request) -> None:
        if self.busy is request:
            self.busy = None
            self._go_on()

    def _go_on(self) -> None:
        if self.gone and len(self._buffer) < 4:
            self.close()
        elif self._buffer:
            self.read()

    def _send(self, data: bytes) -> None:
        self.wire.send(data)


_SILENT: Any = object()  # in progress for ever


def _too_new(ranges: list[tuple[int, int, int]]) -> bytes:
    return struct.pack(">hi", 35, len(ranges)) + b"".join(struct.pack(">hhh", *row) for row in ranges)


def of_version(table: Any, version: int, value: Any) -> Any:
    """A value without the fields that this version of its table does not have."""
    if value is None:
        return None
    of = getattr(table, "of", None)
    if of is not None and not isinstance(of, tuple):
        if hasattr(of, "of") or hasattr(of, "fields"):
            return [of_version(of, version, one) for one in value]
        return value
    fields = getattr(table, "fields", None)
    if fields is not None:
        return {name: of_version(kind, version, value[name]) for name, kind in fields(version)}
    return value
