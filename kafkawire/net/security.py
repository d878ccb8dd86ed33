"""Security of the connections to a cluster's brokers: security.protocol, TLS and SASL as one value.

    security = Security(protocol="SASL_SSL", tls=Tls(ca="ca.pem"), sasl=Sasl("SCRAM-SHA-512", "ann", Secret("…")))
    links = Links("tool", security.connect(), timeout_ms)

connect() returns the function that Links and Link need: it opens a connection, with TLS if the protocol requires it,
and has the greeting that logs in.  Without TLS and SASL it returns the plain connect.  Values can be pickled.
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
from groundwork.tlscontext import TlsUnusable
from kafkawire.errors import RemoteError
from kafkawire.net import sasl as mechanisms
from kafkawire.net.link import Connect, Greeting, Login, SecurityFailure
from kafkawire.net.tls import Tls, TlsTransport
from kafkawire.protocol import apis, saslapis
from kafkawire.protocol.api import Api
from kafkawire.protocol.requests08 import Request

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
log = logging.getLogger(__name__)

LOOK_S = 2.0  # how long a connection waits for the disk with its certificates
TOKEN_S = 60.0  # how long a login waits for its token
SILENT_DISK = "TLS: could not read %s within %g s; connections use the files as last read"
CALLBACKS = "kafkawire.oauthbearer"  # entry point group for sasl.oauthbearer.callback
UNSUPPORTED_MECHANISM, ILLEGAL_STATE, UNSUPPORTED_VERSION, AUTHENTICATION_FAILED = 33, 34, 35, 58
RENEWED = 0.8  # share of a token's lifetime after which a new connection gets a new token
LOGIN_AGAIN = (0.85, 0.95)  # share of a login's lifetime after which it is renewed, as in the Java client


@dataclass(frozen=True, slots=True)
class Sasl:
    """SASL login. callback: module:function or an entry point of the group CALLBACKS, for OAUTHBEARER; it is called
    with the text of `config` and returns (token, end in seconds since 1970).  It may add a principal and a mapping of
    SASL extensions: what confluent-kafka's oauth_cb returns.  hosts: hosts that receive a login, in the form of
    groundwork/hosts.py; (): all."""

    mechanism: str
    username: str = ""
    password: Secret | None = None
    callback: str | None = None
    config: Secret | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Security of connections. protocol: one of PROTOCOLS. tls is used if it ends with SSL; sasl is set if it begins
    with SASL."""

    protocol: str = PLAINTEXT
    tls: Tls = Tls()  # noqa: RUF009  # frozen
    sasl: Sasl | None = None

    @property
    def encrypts(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    def connect(self, base: Connect = blocking_connect) -> Connect:
        """Return a function that opens connections. base: opens a TCP connection.

        Raises TlsUnusable for a file that cannot be used, NotLoaded for a callback that cannot be loaded.
        """
        return base if self == OPEN else Secured(self, base)


OPEN = Security()


class Secured:
    """Connect function of one cluster with TLS, a login, or both."""

    def __init__(self, security: Security, base: Connect) -> None:
        self._base = base
        self._tls = security.tls if security.encrypts else None
        self._context = security.tls.checked() if security.encrypts else None
        self._stamps = security.tls.stamps() if security.encrypts else ()
        self.security = security
        self.plain = base  # without TLS and login, to find out what a listener is
        self._in_thread = _in_thread_of(base)
        self._looking = False  # a thread is checking the files
        self.greeting: Greeting | None = SaslGreeting(security, self._in_thread) if security.sasl is not None else None

    def __call__(self, address: tuple[str, int], timeout_s: float) -> Any:
        """Open a socket, or a transport with TLS. Raises OSError; SecurityFailure is one."""
        sasl = self.security.sasl
        if sasl is not None and sasl.hosts and not is_listed(address[0], sasl.hosts):
            # Like a broker that is away: others are still used, and a stray registration does not stop the program.
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
        """Return a context for a new connection, with files that were replaced since, such as renewed certificates.

        If their disk does not answer, one connection waits for it briefly, and all others use the files as last read.
        """
        assert self._context is not None
        if not self._looking:
            self._looking = True
            try:
                self._in_thread(self._look, tls, within_s=within_s)
            except TimeoutError:
                log.warning(SILENT_DISK, ", ".join(tls.files()), within_s, extra={"event": "tls-files"})
            except BaseException as exc:
                self._looking = False  # the check did not begin: another connection may start it
                if not isinstance(exc, NoThread):
                    raise  # without a thread, the files as last read are used until a thread is available
        return self._context

    def _look(self, tls: Tls) -> None:
        """Read changed files again; runs in a thread."""
        try:
            assert self._context is not None
            self._context, self._stamps = _newest(tls, self._context, self._stamps)
        finally:
            self._looking = False


def _newest(
    tls: Tls, context: ssl.SSLContext, stamps: tuple[tuple[int, int], ...]
) -> tuple[ssl.SSLContext, tuple[tuple[int, int], ...]]:
    """Return the context of the current files with their stamps; the given ones if nothing changed."""
    try:
        now = tls.stamps()
        return (context, stamps) if now == stamps else (tls.checked(), now)
    except (OSError, TlsUnusable):
        return context, stamps  # files are partly replaced: use the old ones until the new ones can be read


def _in_thread_of(base: Any) -> Callable[..., Any]:
    """Return a function that calls a blocking function: in a thread if the sockets belong to an event loop."""
    while isinstance(base, partial):
        base = base.func
    return getattr(base, "in_thread", None) or (lambda fn, *args, within_s=None: fn(*args))


def load_callback(named: str) -> Callable[[str], Any]:
    """Return the function that sasl.oauthbearer.callback names.  Raises NotLoaded."""
    if ":" in named:
        return load_named("sasl.oauthbearer.callback", named)
    found = entry_points(CALLBACKS)
    if named not in found.names:
        raise NotLoaded(
            f"sasl.oauthbearer.callback '{named}' is neither module:function nor an entry point of '{CALLBACKS}'"
        )
    try:
        loaded: Callable[[str], Any] = found[named].load()
    except Exception as exc:  # importing a user's module may raise anything
        raise NotLoaded(f"sasl.oauthbearer.callback '{named}' failed to load: {type(exc).__name__}: {exc}") from exc
    return loaded


class Tokens:
    """Cache of a callback's tokens; one serves several connections while most of its lifetime is left.

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
        """Return token and extensions.  Raises SecurityFailure if the callback fails or its token has expired."""
        if self._now() < self._until:
            return self._kept
        try:
            given = self._run(self._call, self._config, within_s=TOKEN_S)
            token, ends, extensions = str(given[0]), float(given[1]), given[3] if len(given) > 3 else {}
        except Exception as exc:  # a user's function may raise or return anything
            raise SecurityFailure(
                f"no token for its login: sasl.oauthbearer.callback failed: {type(exc).__name__}: {exc}", final=False
            ) from exc
        now = self._now()
        if ends <= now:
            raise SecurityFailure(
                f"no token for its login: the token of sasl.oauthbearer.callback expired {now - ends:.0f} s ago "
                "(the second value that it returns is the expiry in seconds since 1970)",
                final=False,
            )
        self._kept, self._until = (token, extensions), now + RENEWED * (ends - now)
        return self._kept

    def forget(self) -> None:
        """Forget the token, because a broker refused it."""
        self._until = 0.0


class SaslGreeting:
    """Login by SASL: ApiVersions once per broker, SaslHandshake, then the mechanism's messages."""

    def __init__(self, security: Security, run: Callable[..., Any]) -> None:
        """run(fn, *args): calls the callback, which may block."""
        assert security.sasl is not None
        self._sasl = security.sasl
        self._protocol = security.protocol
        self._run = run
        self._tokens = Tokens(security.sasl, run) if security.sasl.mechanism == mechanisms.OAUTHBEARER else None
        self._versions: dict[tuple[str, int], tuple[int, int]] = {}  # of both requests, by address

    def __call__(self, login: Login) -> float | None:
        """Log in.  Raises SecurityFailure with one sentence about the broker; OSError if it does not answer."""
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
        """Return the versions of SaslHandshake and SaslAuthenticate; -1 for the second: tokens are sent without it."""
        try:
            answer: Any = login.ask(_request(apis.API_VERSIONS, 0, {}))
        except TimeoutError:
            raise
        except (OSError, RemoteError) as lost:
            if isinstance(lost, SecurityFailure):
                raise
            closed = self._not_sasl("closes the connection on the first request of a login")
            raise SecurityFailure(closed, final=False) from lost
        ranges = {key: highest for key, _, highest in answer["api_versions"]}
        if saslapis.SASL_HANDSHAKE.key not in ranges:
            raise SecurityFailure(self._not_sasl("does not support logins (SASL)"))
        authenticate = min(ranges.get(saslapis.SASL_AUTHENTICATE.key, -1), saslapis.SASL_AUTHENTICATE.newest)
        handshake = min(ranges[saslapis.SASL_HANDSHAKE.key], saslapis.SASL_HANDSHAKE.newest)
        return (handshake, authenticate) if handshake >= 1 and authenticate >= 0 else (0, -1)

    def _not_sasl(self, what: str) -> str:
        return (
            f"it {what}: is security.protocol {self._protocol} what this listener is? (Brokers of 0.9 know GSSAPI "
            "only, which is not supported here)"
        )

    # the login --------------------------------------------------------------------------------------------------------

    def _converse(self, login: Login, handshake: int, authenticate: int) -> int:
        """Log in, and return the lifetime of the login in ms; 0: it does not expire."""
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
        """Exchange a message without SaslAuthenticate.  Brokers up to 0.11 close the connection on a wrong login."""
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
            helps = f"set sasl.mechanism to {' or '.join(ours)}" if ours else "none of them is supported here"
            raise SecurityFailure(
                f"this listener does not accept sasl.mechanism {self._sasl.mechanism}; it offers "
                f"{', '.join(sorted(offered)) or 'none'}: {helps}"
            )
        if error == ILLEGAL_STATE:
            without = SSL if self._protocol == SASL_SSL else PLAINTEXT
            raise SecurityFailure(
                f"this listener does not accept logins: set security.protocol to {without}, or name another"
            )
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
            return "; is the token of sasl.oauthbearer.callback made for this cluster, and still valid?"
        return "; are sasl.username and sasl.password right, and does the user have credentials for this mechanism?"

    def _forget(self) -> None:
        if self._tokens is not None:
            self._tokens.forget()


def _request(api: Api, version: int, fields: Mapping[str, Any]) -> Any:
    return Request(api, version, [api.encode_request(version, fields)])


def security_of(connect: Connect) -> Security:
    """Return the security of a connect function; OPEN for any other function."""
    found = getattr(connect, "security", OPEN)
    return found if isinstance(found, Security) else OPEN


def plain_of(connect: Connect) -> Connect:
    """Return a connect function without TLS and login, to find out what a listener is."""
    return connect.plain if isinstance(connect, Secured) else connect
