"""TLS and SASL before a fake broker, as real brokers have them: frames are passed on once a client has logged in.

    with Front(port, context=server_context(identity)) as front: Link(front.broker, …, security.connect())
    Front(port, users={"ann": "secret"}, lifetime_ms=400, v0=False)

PLAIN, SCRAM and OAUTHBEARER (token "good"); v0: tokens travel bare, and a wrong login closes the connection.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from kafkawire.model import Broker
from kafkawire.protocol import apis, saslapis
from localkafka.certificates import Identity

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS = 4096


def server_context(identity: Identity, ca: str | None = None) -> ssl.SSLContext:
    """ca: clients must have a certificate of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    if ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(ca)
    return context


class Front:
    def __init__(
        self,
        behind: int,
        *,
        context: ssl.SSLContext | None = None,
        users: Mapping[str, str] | None = None,
        mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        lifetime_ms: int = 0,
        v0: bool = False,
        proves: bool = True,
        step: int = 0,
    ) -> None:
        """proves: it knows the passwords of SCRAM.  step: bytes it sends at a time, with pauses; 0: all."""
        self._behind, self._context, self._users, self._mechanisms = behind, context, users, mechanisms
        self._lifetime_ms, self._v0, self._proves, self._step = lifetime_ms, v0, proves, step
        self.logins = 0
        self.broken: list[str] = []  # what a broker would not stand
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def broker(self) -> Broker:
        return Broker(1, *self._server.getsockname())

    def __enter__(self) -> Front:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for opened in self._open:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
        self._thread.join(5)

    def reset(self) -> None:
        """Every connection ends, whoever reads or writes it; what comes afterwards meets a reset."""
        for opened in list(self._open):
            with suppress(OSError):  # its thread may have closed it
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _accept(self) -> None:
        while True:
            try:
                opened, _ = self._server.accept()
            except OSError:
                return
            self._open.append(opened)
            threading.Thread(target=self._serve, args=(opened,), daemon=True).start()

    def _serve(self, opened: socket.socket) -> None:
        with suppress(OSError, EOFError), opened:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client: Any = _Tls(opened, self._context) if self._context else _Plain(opened)
            with socket.create_connection(("127.0.0.1", self._behind)) as broker:
                self._open.append(broker)
                _Connection(self, client, broker).run()


class _Plain:
    """Reads of what is there, whole writes; the form of _Tls too."""

    def __init__(self, opened: socket.socket) -> None:
        self.recv, self.sendall = opened.recv, opened.sendall


class _Tls:
    """One thread may read while another writes: encrypted in memory, under a lock."""

    def __init__(self, opened: socket.socket, context: ssl.SSLContext) -> None:
        self._socket, self._in, self._out = opened, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_side=True)
        self._lock, self._sending = threading.Lock(), threading.Lock()
        while True:
            try:
                self._ssl.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._more()
            except ssl.SSLError:
                self._flush()
                raise
        self._flush()

    def _flush(self) -> None:
        with self._sending:
            self._socket.sendall(self._out.read())

    def _more(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise EOFError
        with self._lock:
            self._in.write(data)

    def recv(self, size: int) -> bytes:
        while True:
            with suppress(ssl.SSLWantReadError), self._lock:
                return self._ssl.read(size)
            self._more()

    def sendall(self, data: bytes) -> None:
        with self._lock:
            self._ssl.write(data)
        self._flush()


class _Connection:
    def __init__(self, front: Front, client: Any, broker: socket.socket) -> None:
        self._f, self._client, self._broker = front, client, broker
        self._until: float | None = None if front._users is None else 0.0  # None: there are no logins
        self._asked = self._answered = 0
        self._talk: Iterator[bytes] | None = None
        self._said = b""
        threading.Thread(target=self._back, daemon=True).start()

    def run(self) -> None:
        while True:
            frame = self._frame()
            if self._f._v0 and self._talk is not None:
                self._token(frame[4:])
                continue
            key, version, correlation_id = struct.unpack(">hhi", frame[4:12])
            name = struct.unpack(">h", frame[12:14])[0]
            body = frame[14 + max(0, name) :]
            if self._f._users is not None and key in (apis.API_VERSIONS.key, 17, 36):
                self._send(struct.pack(">i", correlation_id) + self._sasl(key, version, body))
            elif self._until is not None and time.monotonic() > self._until:
                self._f.broken.append(f"request {key} without a login")
                return
            else:
                self._asked += 1
                self._broker.sendall(frame)

    def _sasl(self, key: int, version: int, body: bytes) -> bytes:
        if key == apis.API_VERSIONS.key:
            known = [(17, 0, 0 if self._f._v0 else 1), *([] if self._f._v0 else [(36, 0, 1)]), (3, 0, 1), (18, 0, 0)]
            return apis.API_VERSIONS.encode_reply(0, {"error": 0, "api_versions": known})
        if self._asked != self._answered:
            self._f.broken.append(f"{self._asked - self._answered} requests in flight during a login")
        if key == 17:
            mechanism = saslapis.SASL_HANDSHAKE.decode_request(version, body)["mechanism"]
            known_here = mechanism in self._f._mechanisms
            self._talk = self._conversation(mechanism) if known_here else None
            if self._talk is not None:
                next(self._talk)
            fields: dict[str, Any] = {"error": 0 if known_here else 33, "mechanisms": list(self._f._mechanisms)}
            return saslapis.SASL_HANDSHAKE.encode_reply(version, fields)
        self._said = bytes(saslapis.SASL_AUTHENTICATE.decode_request(version, body)["auth_bytes"])
        answer, error = self._step()
        fields = {"error": error, "error_message": "no such login" if error else None, "auth_bytes": answer}
        return saslapis.SASL_AUTHENTICATE.encode_reply(
            version, fields | {"session_lifetime_ms": self._f._lifetime_ms} if version else fields
        )

    def _token(self, said: bytes) -> None:
        self._said = said
        answer, error = self._step()
        if error:
            raise EOFError
        self._client.sendall(struct.pack(">i", len(answer)) + answer)

    def _step(self) -> tuple[bytes, int]:
        assert self._talk is not None
        try:
            answer = next(self._talk)
        except PermissionError:
            return b"", 58
        if self._over:
            self._talk = None
            self._f.logins += 1
            lifetime_s = self._f._lifetime_ms / 1000
            self._until = time.monotonic() + lifetime_s if lifetime_s else float("inf")
        return answer, 0

    _over = False

    def _conversation(self, mechanism: str) -> Iterator[bytes]:
        users, self._over = self._f._users or {}, False
        yield b""
        if mechanism == "PLAIN":
            _, user, password = self._said.decode().split("\0")
            self._over = users.get(user) == password
            if not self._over:
                raise PermissionError
            yield b""
        elif mechanism == "OAUTHBEARER":
            self._over = b"auth=Bearer good\x01" in self._said
            yield b"" if self._over else b'{"status":"invalid_token"}'
            raise PermissionError
        else:
            yield from self._scram(HASHES[mechanism], users)

    def _scram(self, name: str, users: Mapping[str, str]) -> Iterator[bytes]:
        bare = self._said.removeprefix(b"n,,")
        fields = dict(part.split("=", 1) for part in bare.decode().split(","))
        user = fields["n"].replace("=2C", ",").replace("=3D", "=")
        salt = os.urandom(8)
        first = f"r={fields['r']}server,s={base64.b64encode(salt).decode()},i={ITERATIONS}".encode()
        yield first
        unproven, proof = self._said.rsplit(b",p=", 1)
        signed = b",".join((bare, first, unproven))
        salted = hashlib.pbkdf2_hmac(name, users.get(user, "?").encode(), salt, ITERATIONS)
        key = hmac.digest(salted, b"Client Key", name)
        signature = hmac.digest(hashlib.new(name, key).digest(), signed, name)
        if bytes(a ^ b for a, b in zip(key, signature, strict=True)) != base64.b64decode(proof):
            raise PermissionError
        self._over = True
        known = salted if self._f._proves else bytes(len(salted))
        server = hmac.digest(hmac.digest(known, b"Server Key", name), signed, name)
        yield b"v=" + base64.b64encode(server)

    def _frame(self) -> bytes:
        head = self._exactly(4)
        return head + self._exactly(struct.unpack(">i", head)[0])

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._client.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def _send(self, body: bytes) -> None:
        self._client.sendall(struct.pack(">i", len(body)) + body)

    def _back(self) -> None:
        """Responses, counted once they are sent."""
        with suppress(OSError, EOFError, struct.error):
            while True:
                head = self._behind_exactly(4)
                data = head + self._behind_exactly(struct.unpack(">i", head)[0])
                self._answered += 1
                step = self._f._step or len(data)
                for at in range(0, len(data), step):
                    self._client.sendall(data[at : at + step])
                    if self._f._step:
                        time.sleep(0.005)

    def _behind_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._broker.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return bytes(data)
