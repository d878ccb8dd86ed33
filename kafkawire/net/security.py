"""Security of the connections to a cluster's brokers: security.protocol, TLS and SASL as one value.

    security = Security(protocol="SASL_SSL", tls=Tls(ca="ca.pem"), sasl=Sasl("SCRAM-SHA-512", "ann", Secret("…")))
    links = Links("tool", security.connect(), timeout_ms)

connect() gives what Links and Link take: a function that opens a connection, with TLS where the protocol says so, and
the greeting that logs in.  A value without TLS and SASL gives the plain connect back.  Values can be pickled.
"""

from __future__ import annotations

import hashlib
import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from groundwork.connecting import connect as blocking_connect
from groundwork.hosts import is_listed
from groundwork.installed import entry_points
from groundwork.named import NotLoaded, load_named
from groundwork.options import Secret
from groundwork.threads import NoThread
from groundwork.tls import TlsUnusable
from kafkawire.errors import RemoteError
from kafkawire.net import sasl as mechanisms
from kafkawire.net.link import Connect, Greeting, Login, SecurityFailure
from kafkawire.net.tls import Tls, TlsTransport
from kafkawire.protocol import apis, saslapis
from kafkawire.protocol.api import Api
from kafkawire.protocol.requests08 import Request

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
log = logging.getLogger(__name__)

LOOK_S = 2.0  # for which a connection waits for the disk of its certificates
TOKEN_S = 60.0  # and for which a login waits for its token
SILENT_DISK = "TLS: %s could not be read within %g s; connections go on with what was read before"
CALLBACKS = "kafkawire.oauthbearer"  # entry points that sasl.oauthbearer.callback may name
UNSUPPORTED_MECHANISM, ILLEGAL_STATE, UNSUPPORTED_VERSION, AUTHENTICATION_FAILED = 33, 34, 35, 58
RENEWED = 0.8  # of a token's time may be over when it is used for another connection
LOGIN_AGAIN = (0.85, 0.95)  # of a login's time, as the Java client


@dataclass(frozen=True, slots=True)
class Sasl:
    """A login.  callback: module:function or an entry point of the group CALLBACKS, for OAUTHBEARER; it is called with
    the text of `config` and returns (token, end in seconds since 1970).  It may add a principal and a mapping of SASL
    extensions: what confluent-kafka's oauth_cb returns.  hosts: those that are logged in to, as
    groundwork/hosts.py lists them; (): all."""

    mechanism: str
    username: str = ""
    password: Secret | None = None
    callback: str | None = None
    config: Secret | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """protocol: one of PROTOCOLS.  tls counts where it ends with SSL; sasl is given where it begins with SASL."""

    protocol: str = PLAINTEXT
    tls: Tls = Tls()  # noqa: RUF009  # frozen
    sasl: Sasl | None = None

    @property
    def encrypts(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    def connect(self, base: Connect = blocking_connect) -> Connect:
        """What opens connections; base: what opens a TCP connection.

        Raises TlsUnusable for a file that cannot be used, NotLoaded for a callback that is not there.
        """
        return base if self == OPEN else Secured(self, base)


OPEN = Security()


class Secured:
    """A connect with TLS, a login, or both; one cluster's."""

    def __init__(self, security: Security, base: Connect) -> None:
        self._base = base
        self._tls = security.tls if security.encrypts else None
        self._context = security.tls.checked() if security.encrypts else None
        self._stamps = security.tls.stamps() if security.encrypts else ()
        self.security = security
        self.plain = base  # without either, to see what a listener is
        self._in_thread = _in_thread_of(base)
        self._looking = False  # at the files
        self.greeting: Greeting | None = SaslGreeting(security, self._in_thread) if security.sasl is not None else None

    def __call__(self, address: tuple[str, int], timeout_s: float) -> Any:
        """A socket, or a transport with TLS.  Raises OSError; SecurityFailure is one."""
        sasl = self.security.sasl
        if sasl is not None and sasl.hosts and not is_listed(address[0], sasl.hosts):
            # as a broker that is away: others go on, and whoever registered this one ends no start
            raise SecurityFailure("sasl.hosts does not list this host: no login, and no connection", final=False)
        opened = self._base(address, timeout_s)
        if self._tls is None:
            return opened
        try:
            context = self._current(self._tls, min(timeout_s, LOOK_S))
        except BaseException:
            opened.close()
            raise
        return TlsTransport(opened, context, address[0], self._tls, timeout_s)

    def _current(self, tls: Tls, within_s: float) -> ssl.SSLContext:
        """Files that were replaced, as certificates are that end soon, count from the next connection on.

        Their disk may not answer: one connection waits for it, and not for long; then all go on with what was read.
        """
        assert self._context is not None
        if not self._looking:
            self._looking = True
            try:
                self._in_thread(self._look, tls, within_s=within_s)
            except TimeoutError:
                log.warning(SILENT_DISK, ", ".join(tls.files()), within_s, extra={"event": "tls-files"})
            except BaseException as exc:
                self._looking = False  # it was not begun: another one may look
                if not isinstance(exc, NoThread):
                    raise  # without a thread what was read counts until there is one
        return self._context

    def _look(self, tls: Tls) -> None:
        """In a thread: read the files again where they have changed."""
        try:
            assert self._context is not None
            self._context, self._stamps = _newest(tls, self._context, self._stamps)
        finally:
            self._looking = False


def _newest(
    tls: Tls, context: ssl.SSLContext, stamps: tuple[tuple[int, int], ...]
) -> tuple[ssl.SSLContext, tuple[tuple[int, int], ...]]:
    """The context of the files as they are now, with their stamps; these ones while they are the same."""
    try:
        now = tls.stamps()
        return (context, stamps) if now == stamps else (tls.checked(), now)
    except (OSError, TlsUnusable):
        return context, stamps  # half replaced: what was read counts until they can be


def _in_thread_of(base: Any) -> Callable[..., Any]:
    """What calls a function that may block: where the sockets are those of an event loop, in a thread beside it."""
    while isinstance(base, partial):
        base = base.func
    return getattr(base, "in_thread", None) or (lambda fn, *args, within_s=None: fn(*args))


def load_callback(named: str) -> Callable[[str], Any]:
    """What sasl.oauthbearer.callback names.  Raises NotLoaded."""
    if ":" in named:
        return load_named("sasl.oauthbearer.callback", named)
    found = entry_points(CALLBACKS)
    if named not in found.names:
        raise NotLoaded(
            f"sasl.oauthbearer.callback '{named}' is neither module:function nor an entry point of '{CALLBACKS}'"
        )
    try:
        loaded: Callable[[str], Any] = found[named].load()
    except Exception as exc:  # whatever importing a user's module raises
        raise NotLoaded(f"sasl.oauthbearer.callback '{named}' failed to load: {type(exc).__name__}: {exc}") from exc
    return loaded


class Tokens:
    """The tokens of a callback; one serves several connections while most of its time is left.

    run(fn, *args): calls the callback, which may block.
    """

    def __init__(self, sasl: Sasl, run: Callable[..., Any], now: Callable[[], float] = time.time) -> None:
        self._run = run
        self._call = load_callback(sasl.callback or "")
        self._config = sasl.config.text if sasl.config is not None else ""
        self._now = now
        self._kept: tuple[str, Mapping[str, str]] = ("", {})
        self._until = 0.0

    def token(self) -> tuple[str, Mapping[str, str]]:
        """Token and extensions.  Raises SecurityFailure: none can be had, or it has ended."""
        if self._now() < self._until:
            return self._kept
        try:
            given = self._run(self._call, self._config, within_s=TOKEN_S)
            token, ends, extensions = str(given[0]), float(given[1]), given[3] if len(given) > 3 else {}
        except Exception as exc:  # whatever a user's function raises or returns
            raise SecurityFailure(
                f"no token for its login: sasl.oauthbearer.callback failed: {type(exc).__name__}: {exc}", final=False
            ) from exc
        now = self._now()
        if ends <= now:
            raise SecurityFailure(
                f"no token for its login: the one of sasl.oauthbearer.callback ended {now - ends:.0f} s ago (the "
                "second value that it returns is the end in seconds since 1970)",
                final=False,
            )
        self._kept, self._until = (token, extensions), now + RENEWED * (ends - now)
        return self._kept

    def forget(self) -> None:
        """A broker refused it."""
        self._until = 0.0


class SaslGreeting:
    """Logs in: ApiVersions once a broker, SaslHandshake, then the mechanism's messages."""

    def __init__(self, security: Security, run: Callable[..., Any]) -> None:
        """run: as of Tokens."""
        assert security.sasl is not None
        self._sasl = security.sasl
        self._protocol = security.protocol
        self._run = run
        self._tokens = Tokens(security.sasl, run) if security.sasl.mechanism == mechanisms.OAUTHBEARER else None
        self._versions: dict[tuple[str, int], tuple[int, int]] = {}  # of both requests, by address

    def __call__(self, login: Login) -> float | None:
        """Raises SecurityFailure with one sentence about the broker; OSError where it does not answer."""
        address = (login.broker.host, login.broker.port)
        try:
            if address not in self._versions:
                self._versions[address] = self._asked(login)
            lifetime_ms = self._converse(login, *self._versions[address])
        except SecurityFailure:
            raise
        except TimeoutError as silent:
            self._versions.pop(address, None)
            raise SecurityFailure(f"no answer to the login by {self._sasl.mechanism} in time", final=False) from silent
        except (OSError, RemoteError):
            self._versions.pop(address, None)
            raise
        if lifetime_ms <= 0:
            return None
        return random.uniform(*LOGIN_AGAIN) * lifetime_ms / 1000

    # what the broker speaks -------------------------------------------------------------------------------------------

    def _asked(self, login: Login) -> tuple[int, int]:
        """Versions of SaslHandshake and SaslAuthenticate; -1 of the second: tokens travel bare."""
        try:
            answer: Any = login.ask(_request(apis.API_VERSIONS, 0, {}))
        except TimeoutError:
            raise
        except (OSError, RemoteError) as lost:
            if isinstance(lost, SecurityFailure):
                raise
            raise SecurityFailure(self._not_sasl("closes on the first request of a login"), final=False) from lost
        ranges = {key: highest for key, _, highest in answer["api_versions"]}
        if saslapis.SASL_HANDSHAKE.key not in ranges:
            raise SecurityFailure(self._not_sasl("knows no login (SASL)"))
        authenticate = min(ranges.get(saslapis.SASL_AUTHENTICATE.key, -1), saslapis.SASL_AUTHENTICATE.newest)
        handshake = min(ranges[saslapis.SASL_HANDSHAKE.key], saslapis.SASL_HANDSHAKE.newest)
        return (handshake, authenticate) if handshake >= 1 and authenticate >= 0 else (0, -1)

    def _not_sasl(self, what: str) -> str:
        return (
            f"it {what}: is security.protocol {self._protocol} what this listener is? (Brokers of 0.9 know GSSAPI "
            "only, which is not spoken here)"
        )

    # the login --------------------------------------------------------------------------------------------------------

    def _converse(self, login: Login, handshake: int, authenticate: int) -> int:
        """Lifetime of the login in ms; 0: it does not end."""
        sasl = self._sasl
        conversation = self._conversation()
        answer: Any = login.ask(_request(saslapis.SASL_HANDSHAKE, handshake, {"mechanism": sasl.mechanism}))
        self._refuse_handshake(answer["error"], answer["mechanisms"])
        lifetime_ms = 0
        try:
            message = next(conversation)
            while True:
                if authenticate < 0:
                    said = self._bare(login, message)
                else:
                    answer = login.ask(_request(saslapis.SASL_AUTHENTICATE, authenticate, {"auth_bytes": message}))
                    if answer["error"]:
                        raise self._refused(answer["error"], answer["error_message"] or "")
                    lifetime_ms = answer.get("session_lifetime_ms", 0)
                    said = bytes(answer["auth_bytes"])
                message = conversation.send(said)
        except StopIteration:
            return lifetime_ms
        except mechanisms.Unexpected as wrong:
            self._forget()
            raise SecurityFailure(f"it {wrong}{self._helps()}") from None
        except ValueError as wrong:
            raise SecurityFailure(f"login by {sasl.mechanism}: {wrong}") from None

    def _conversation(self) -> mechanisms.Conversation:
        sasl, password = self._sasl, self._sasl.password
        if self._tokens is not None:
            return mechanisms.oauthbearer(*self._tokens.token())
        text = password.text if password is not None else ""
        if sasl.mechanism == mechanisms.PLAIN:
            return mechanisms.plain(sasl.username, text)
        derive = partial(self._run, hashlib.pbkdf2_hmac)
        return mechanisms.scram(sasl.mechanism, sasl.username, text, derive=derive)

    def _bare(self, login: Login, message: bytes) -> bytes:
        """Brokers up to 0.11 close the connection on a wrong login."""
        try:
            return login.token(message)
        except TimeoutError:
            raise
        except OSError as closed:
            raise SecurityFailure(
                f"it closes the connection on the login{self._whom()} by {self._sasl.mechanism}{self._helps()}"
            ) from closed

    def _refuse_handshake(self, error: int, offered: list[str]) -> None:
        if error == UNSUPPORTED_MECHANISM:
            ours = [name for name in offered if name in mechanisms.MECHANISMS]
            helps = f"set sasl.mechanism to {' or '.join(ours)}" if ours else "none of them is spoken here"
            raise SecurityFailure(
                f"this listener takes no logins by sasl.mechanism {self._sasl.mechanism}; it offers "
                f"{', '.join(sorted(offered)) or 'none'}: {helps}"
            )
        if error == ILLEGAL_STATE:
            without = SSL if self._protocol == SASL_SSL else PLAINTEXT
            raise SecurityFailure(f"this listener takes no logins: set security.protocol to {without}, or name another")
        if error:
            raise SecurityFailure(f"it refuses SaslHandshake with error {error}")

    def _refused(self, error: int, message: str) -> SecurityFailure:
        self._forget()
        said = f": {message}" if message else ""
        if error == AUTHENTICATION_FAILED:
            return SecurityFailure(f"it refuses the login{self._whom()} by {self._sasl.mechanism}{said}{self._helps()}")
        return SecurityFailure(
            f"the login{self._whom()} by {self._sasl.mechanism} failed with error {error}{said}", False
        )

    def _whom(self) -> str:
        return f" of '{self._sasl.username}'" if self._tokens is None else ""

    def _helps(self) -> str:
        if self._tokens is not None:
            return "; is the token of sasl.oauthbearer.callback made for this cluster, and not ended?"
        return "; are sasl.username and sasl.password right, and is the user made for this mechanism?"

    def _forget(self) -> None:
        if self._tokens is not None:
            self._tokens.forget()


def _request(api: Api, version: int, fields: Mapping[str, Any]) -> Any:
    return Request(api, version, [api.encode_request(version, fields)])


def security_of(connect: Connect) -> Security:
    """The security of what connects; OPEN for any other function."""
    found = getattr(connect, "security", OPEN)
    return found if isinstance(found, Security) else OPEN


def plain_of(connect: Connect) -> Connect:
    """The same without TLS and login, to look at what a listener is."""
    return connect.plain if isinstance(connect, Secured) else connect
