"""TLS to a broker: the client's settings, an encrypting transport, and reasons why a TLS connection fails.

    settings.checked()          reads the PEM files; TlsUnusable names the option
    opened(socket, …)           the handshake on a connected socket -> a Transport

Encryption happens in memory (ssl.SSLObject), and the socket is a plain one: of the standard library, or gevent's.  So
only the socket waits, one caller may send while another receives, and no descriptor is polled for bytes that are
buffered inside TLS: receive_into() returns those first.  Zero-copy receiving is lost.
"""

from __future__ import annotations

import os
import select
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundwork.forks import abandon
from groundwork.openfiles import too_many
from groundwork.options import Secret
from groundwork.sockets import TimeLeft, in_slices, slice_of, tuned
from groundwork.tlscontext import TlsUnusable, plain_tls
from kafkawire.net.link import SecurityFailure
from kafkawire.net.transport import close, ended, octets, set_abort

CHUNK_BYTES = 256 << 10  # bytes received, or encrypted before sending, at a time
RECORD_BYTES = 16 << 10  # maximum plain bytes of a TLS record
LAST_WORD_S = 0.2  # wait for a reason after the other side closed the connection
SMALL_BYTES = 4 << 10  # smaller pieces of a frame are joined: each would be a separate record
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
JAVA_KEYSTORE, PKCS12 = b"\xfe\xed\xfe\xed", b"\x30\x82"
EXPIRED, NOT_YET, OTHER_HOST, OTHER_ADDRESS = 10, 9, 62, 64  # X509_V_ERR_… of a certificate
UNTRUSTED = frozenset((2, 18, 19, 20, 21, 27))
FORWARD = {"ca": "ssl.ca.location", "certificate": "ssl.certificate.location", "key": "ssl.key.location"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS settings for brokers. ca: PEM file of the authorities to trust (None: the system's); certificate and key:
    ours, if brokers require one; host_check: the broker's certificate must name the host that we connect to."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    password: Secret | None = None
    host_check: bool = True
    min_version: str = "TLSv1.2"

    def checked(self) -> ssl.SSLContext:
        """Return a context from the current files.  Raises TlsUnusable, a sentence that names option and file."""
        for field, option in FORWARD.items():
            name: str | None = getattr(self, field)
            if name is not None:
                _refuse_keystore(option, name)
        password = self.password.text if self.password is not None else None
        try:
            made: ssl.SSLContext = plain_tls(
                ca=self.ca, certificate=self.certificate, key=self.key, password=password, verify=True
            )
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise TlsUnusable(self._unusable(error)) from None
        made.check_hostname = self.host_check
        made.minimum_version = VERSIONS[self.min_version]
        return made

    def _unusable(self, error: Exception) -> str:
        if self.ca is not None and self.certificate is None:
            return f"ssl.ca.location {self.ca} has no certificates in PEM: {error}"
        if self.certificate is None:
            return f"the system's certificate authorities cannot be read: {error}; give ssl.ca.location"
        key = self.key or self.certificate
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            return f"ssl.key.location {key} is not the key of ssl.certificate.location {self.certificate}"
        files = f"ssl.certificate.location {self.certificate} with its key in {key}"
        helps = "is ssl.key.password right?" if self.password is not None else "does the key need ssl.key.password?"
        if self.ca is not None:
            try:
                ssl.create_default_context(cafile=self.ca)
            except (OSError, ValueError) as problem:
                return f"ssl.ca.location {self.ca} has no certificates in PEM: {problem}"
        return f"{files} cannot be used: {error}; {helps}"

    def stamps(self) -> tuple[tuple[int, int], ...]:
        """Return times and sizes of the files: once they differ, the files are read again."""
        return tuple((stat.st_mtime_ns, stat.st_size) for stat in map(os.stat, self.files()))

    def files(self) -> list[str]:
        """Return the names of the files."""
        return [name for name in (self.ca, self.certificate, self.key) if name is not None]


def _refuse_keystore(option: str, name: str) -> None:
    try:
        with Path(name).open("rb") as file:
            first = file.read(4)
    except OSError as error:
        raise TlsUnusable(f"{option} {name} cannot be read: {error.strerror}") from None
    if first == JAVA_KEYSTORE:
        raise TlsUnusable(
            f"{option} {name} is a Java keystore, PEM is expected: `keytool -importkeystore -deststoretype PKCS12` and "
            "`openssl pkcs12` convert it"
        )
    if first.startswith(PKCS12):
        raise TlsUnusable(f"{option} {name} is PKCS12 or DER, PEM is expected: `openssl pkcs12` converts it")


class TlsTransport:
    """Connection with TLS (kafkawire.net.transport.Transport)."""

    def __init__(self, opened: Any, context: ssl.SSLContext, host: str, tls: Tls, timeout_s: float) -> None:
        """Do the handshake.  Raises SecurityFailure, OSError; the socket is closed then."""
        self._socket = opened
        self._tls = tls
        self._host = host
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._lock = threading.Lock()  # guards the three fields above; never held during a wait
        self._room = memoryview(bytearray(CHUNK_BYTES))
        self._ended = self._waits = False
        self._answered = False  # a byte came after the handshake
        self._timeout_s = timeout_s
        try:
            tuned(opened)
            opened.settimeout(slice_of(timeout_s))
            self._handshake(TimeLeft(timeout_s))
        except BaseException:
            close(opened)
            raise

    def send_all(self, buffers: Sequence[bytes | memoryview]) -> None:
        small = bytearray()
        try:
            for view in map(octets, buffers):
                if len(small) + len(view) <= SMALL_BYTES or len(view) < SMALL_BYTES:
                    small += view
                    if len(small) >= RECORD_BYTES:
                        self._encrypt(memoryview(bytes(small)))
                        small.clear()
                    continue
                if small:
                    self._encrypt(memoryview(bytes(small)))
                    small.clear()
                self._encrypt(view)
            if small:
                self._encrypt(memoryview(small))
            self._flush(TimeLeft(self._timeout_s))
        except ssl.SSLError as error:
            raise self._failure(error) from error
        except TimeoutError:
            raise
        except OSError as error:
            raise self._last_word() or error from error

    def receive_into(self, place: memoryview, due: int = 0) -> int:
        filled = 0
        while True:
            try:
                filled += self._decrypt(place[filled:])
            except ssl.SSLWantReadError:
                pass
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return self._end()
            except ssl.SSLError as error:
                if self._ended:  # already reported together with the last bytes
                    return self._end()
                raise self._failure(error) from error
            if filled:
                self._answered = True
                return filled
            if self._ended:
                return self._end()
            self._more(TimeLeft(self._timeout_s))

    def _end(self) -> int:
        """Handle the end of the connection by the other side; right after the handshake there is a reason to report."""
        if not self._answered and self._tls.certificate is None:
            raise SecurityFailure(
                "it closed the connection right after the TLS handshake: does it require a client certificate "
                "(ssl.certificate.location, ssl.key.location)?",
                final=False,
            )
        return 0

    def ended(self) -> bool:
        return ended(self._socket)

    def close(self, abort: bool = False) -> None:
        close(self._socket, abort)

    def abort_at_exit(self) -> None:
        set_abort(self._socket, True)

    def abandon(self) -> None:
        abandon(self._socket)

    # bytes ------------------------------------------------------------------------------------------------------------

    def _encrypt(self, view: memoryview) -> None:
        at = 0
        while at < len(view):
            with self._lock:
                at += self._ssl.write(view[at : at + CHUNK_BYTES])
            if self._outgoing.pending >= CHUNK_BYTES:
                self._flush(TimeLeft(self._timeout_s))

    def _flush(self, left: TimeLeft) -> None:
        """Send encrypted bytes.  Only senders call this, so that records are sent in order."""
        while True:
            with self._lock:
                data = memoryview(self._outgoing.read(2 * CHUNK_BYTES))
            if not len(data):
                return
            while len(data):
                taken = in_slices(self._socket, select.POLLOUT, left, self._socket.send, data)
                if taken <= 0:
                    raise OSError("the socket does not accept more bytes")
                data = data[taken:]

    def _decrypt(self, place: memoryview) -> int:
        """Decrypt available records into `place`, as many as fit."""
        filled = 0
        with self._lock:
            try:
                while filled < len(place):
                    count: Any = self._ssl.read(len(place) - filled, place[filled:])  # into a buffer: an int
                    if not count:
                        break
                    filled += count
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError, ssl.SSLEOFError):
                if not filled:
                    raise
        return filled

    def _more(self, left: TimeLeft) -> None:
        """Wait for bytes from the socket."""
        self._waits = True
        try:
            count = in_slices(self._socket, select.POLLIN, left, self._socket.recv_into, self._room)
        finally:
            self._waits = False
        with self._lock:
            if count:
                self._incoming.write(self._room[:count])
            else:
                self._ended = True
                self._incoming.write_eof()

    def _last_word(self) -> SecurityFailure | None:
        """Return why the other side closed, if its last record says so.  A waiting reader gets it, too."""
        if self._waits:
            return None
        try:
            self._socket.settimeout(LAST_WORD_S)
            for _ in range(4):
                self._more(TimeLeft(LAST_WORD_S))
                self._decrypt(memoryview(bytearray(RECORD_BYTES)))
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return None
        except ssl.SSLError as error:
            return self._failure(error)
        except OSError:
            pass
        return None

    # handshake --------------------------------------------------------------------------------------------------------

    def _handshake(self, left: TimeLeft) -> None:
        """Do the whole handshake within this time."""
        while True:
            try:
                with self._lock:
                    self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                raise self._unanswered("closed the connection") from None
            except ssl.SSLError as error:
                self._say_why()
                raise self._failure(error) from error
            else:
                return self._flush(left)
            try:
                if not left.seconds:
                    raise TimeoutError
                self._flush(left)
                self._more(left)
            except TimeoutError:
                raise self._unanswered(f"did not finish it within {self._timeout_s:g} s") from None
            except OSError as error:
                if too_many(error):
                    raise
                raise self._unanswered(f"ended the connection ({error})") from error

    def _say_why(self) -> None:
        """Send the alert, so that the broker logs the reason too."""
        try:
            self._flush(TimeLeft(LAST_WORD_S))
        except OSError:
            pass

    def _unanswered(self, what: str) -> SecurityFailure:
        return SecurityFailure(
            f"TLS handshake: it {what}; is this a listener without TLS (security.protocol PLAINTEXT or "
            "SASL_PLAINTEXT), or another port?",
            final=False,
        )

    def _failure(self, error: ssl.SSLError) -> SecurityFailure:
        return SecurityFailure(why_tls(error, self._host, self._tls))


def why_tls(error: ssl.SSLError, host: str, tls: Tls) -> str:
    """Return a sentence about a broker: what failed in TLS, and what helps."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _why_unverified(error, host, tls)
    reason = (error.reason or "").upper()
    ours = tls.certificate
    if "ALERT" in reason and ("PROTOCOL_VERSION" in reason or "INSUFFICIENT_SECURITY" in reason):
        return f"it supports no TLS version that we accept: ssl.min.version is {tls.min_version} ({error.reason})"
    if reason in ("UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "VERSION_TOO_LOW"):
        return (
            f"it only supports TLS older than ssl.min.version, {tls.min_version}: lower that option, or upgrade the "
            "broker's TLS"
        )
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason or "HANDSHAKE_FAILURE" in reason):
        if ours is None:
            return (
                f"it ends the TLS handshake ({error.reason}), as brokers do that require a client certificate: give "
                "ssl.certificate.location and ssl.key.location"
            )
        return (
            f"it refuses our client certificate, ssl.certificate.location {ours} ({error.reason}): is it expired, and "
            "does the broker trust the authority that signed it?"
        )
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", ""):
        return (
            "it does not answer in TLS: this is a plaintext listener; security.protocol PLAINTEXT or SASL_PLAINTEXT "
            f"fits it, or another port has TLS ({error.reason or error})"
        )
    return f"TLS failed: {error.reason or error}"


def _why_unverified(error: ssl.SSLCertVerificationError, host: str, tls: Tls) -> str:
    said = error.verify_message
    if error.verify_code == EXPIRED:
        return "its TLS certificate, or that of an authority above it, has expired: the broker needs a new one"
    if error.verify_code == NOT_YET:
        return "its TLS certificate is not valid yet: is the clock of this machine right?"
    if error.verify_code in (OTHER_HOST, OTHER_ADDRESS):
        return (
            f"its TLS certificate does not name the host {host} ({said}): use a host name from the "
            "certificate, or switch the check off by ssl.endpoint.identification.algorithm: none"
        )
    whom = f"ssl.ca.location {tls.ca}" if tls.ca else "this system's authorities (ssl.ca.location is not given)"
    if error.verify_code in UNTRUSTED:
        return f"its TLS certificate is not signed by any of {whom} ({said}): give the authority that signed it"
    return f"its TLS certificate is refused by {whom}: {said}"
