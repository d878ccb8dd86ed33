"""ZooKeeper security: credentials, the access list of the nodes we create, TLS; and the options that give them.

auth      digest:USER:PASSWORD, sent on each connection.  ZooKeeper never says that it is wrong: nodes that are closed
          to it are just not ours
set_acl   nodes we create are written by those credentials only and read by all, except those of the first level, such
          as /consumers, which belong to every group
tls       each connection is TLS; the server's certificate must name the host as zookeeper.connect does

Option classes inherit the options:

    class LoadConfig(ZkSecurityOptions): ...                # zookeeper.auth, zookeeper.ssl.…
    class Target(ZkSecurityOptions):
        PREFIX: ClassVar = "target.zookeeper"               # target.zookeeper.auth, …

Imports no ZooKeeper client: options are read without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from groundwork.options import Options, Secret, option
from groundwork.optionvalues import filled
from groundwork.tls import TlsUnusable


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form.  ca: the authorities to trust (None: the system's); certificate and key: who we are, where
    the server asks.  verify: False trusts any server.  options: how the options of them begin."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    password: Secret | None = None
    verify: bool = True
    options: str = "zookeeper.ssl"

    def context(self, make: Callable[..., Any]) -> Any:
        """What connections are made with; the files are read now.  Raises TlsUnusable naming what cannot be read.

        make: groundwork.tasks.tls_context in the hub, groundwork.tls.plain_tls elsewhere.
        """
        password = self.password.text if self.password is not None else None
        try:
            return make(self.ca, self.certificate, self.key, password, self.verify)
        except (OSError, ValueError) as e:  # ssl.SSLError is an OSError
            files = ", ".join(name for name in (self.ca, self.certificate, self.key) if name)
            raise TlsUnusable(f"{self.options}: {files or 'the system authorities'} cannot be used: {e}") from None


@dataclass(frozen=True, slots=True)
class ZkSecurity:
    """auth: `digest:USER:PASSWORD`, or None for nobody in particular."""

    auth: Secret | None = None
    set_acl: bool = False
    tls: Tls | None = None

    def for_kazoo(self) -> dict[str, Any]:
        """Arguments of a KazooClient."""
        from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE  # here: options are read without a client

        found: dict[str, Any] = {}
        if self.auth is not None:
            scheme, _, who = self.auth.text.partition(":")
            found["auth_data"] = [(scheme, who)]
        if self.set_acl:
            found["default_acl"] = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
        return found

    def options(self) -> dict[str, object]:
        """The options of a consumer that say the same, as texts; what is a default is left out."""
        tls = self.tls
        files = {"ca": tls.ca, "certificate": tls.certificate, "key": tls.key} if tls is not None else {}
        found: dict[str, object] = {f"zookeeper.ssl.{name}.location": file for name, file in files.items() if file}
        if self.auth is not None:
            found["zookeeper.auth"] = self.auth.text
        if self.set_acl:
            found["zookeeper.set.acl"] = "true"
        if tls is not None:
            found["zookeeper.ssl.client.enable"] = "true"
            found["zookeeper.ssl.verify"] = str(tls.verify).lower()
            if tls.password is not None:
                found["zookeeper.ssl.key.password"] = tls.password.text
        return found


OPEN = ZkSecurity()


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """A cluster's ZooKeeper: connect is `host:port,host:port/chroot`; security: credentials and TLS."""

    connect: str
    security: ZkSecurity = OPEN

    def __str__(self) -> str:
        return self.connect


def identity(raw: object) -> Secret:
    """The kind of the options that hold `digest:USER:PASSWORD`.  Raises ValueError, which does not quote it."""
    scheme, _, who = raw.strip().partition(":") if isinstance(raw, str) else ("", "", "")
    user, _, password = who.partition(":")
    if scheme != "digest" or not user or not password:
        raise ValueError("digest:USER:PASSWORD")
    return Secret(f"{scheme}:{who}")


def _password(raw: object) -> Secret:
    return Secret(filled(raw))


_CONNECT = "{prefix}.connect"


@dataclass(frozen=True, slots=True)
class ZkSecurityOptions(Options):
    """PREFIX: how these options begin; PREFIX.connect is the class's own."""

    PREFIX: ClassVar[str] = "zookeeper"

    zookeeper_auth: Secret | None = option(  # noqa: RUF009  # a Secret never changes
        "{prefix}.auth", None, "ZooKeeper credentials, digest:USER:PASSWORD; masked wherever they are printed",
        kind=identity, secret=True, behind=_CONNECT,
    )  # fmt: skip
    zookeeper_ssl: bool = option(
        "{prefix}.ssl.client.enable", False, "connections to ZooKeeper are TLS", behind=_CONNECT
    )
    zookeeper_ssl_ca: str | None = option(
        "{prefix}.ssl.ca.location", None, "PEM file of the authorities to trust; the system's when empty",
        kind=filled, behind=_CONNECT,
    )  # fmt: skip
    zookeeper_ssl_certificate: str | None = option(
        "{prefix}.ssl.certificate.location", None, "PEM file of our certificate, where the server asks for one",
        kind=filled, behind=_CONNECT,
    )  # fmt: skip
    zookeeper_ssl_key: str | None = option(
        "{prefix}.ssl.key.location", None, "PEM file of its key; the certificate's file when empty",
        kind=filled, behind=_CONNECT,
    )  # fmt: skip
    zookeeper_ssl_key_password: Secret | None = option(  # noqa: RUF009  # a Secret never changes
        "{prefix}.ssl.key.password", None, "password of the key; masked wherever it is printed",
        kind=_password, secret=True, behind=_CONNECT,
    )  # fmt: skip
    zookeeper_ssl_verify: bool = option(
        "{prefix}.ssl.verify", True,
        "the server's certificate must be trusted and name the host of {prefix}.connect", behind=_CONNECT,
    )  # fmt: skip

    @property
    def security(self) -> ZkSecurity:
        """How a session shows itself to that ZooKeeper."""
        return security_of(self)


def security_of(options: ZkSecurityOptions, set_acl: bool = False) -> ZkSecurity:
    """How a session shows itself to the ZooKeeper that the options describe."""
    tls = Tls(
        options.zookeeper_ssl_ca,
        options.zookeeper_ssl_certificate,
        options.zookeeper_ssl_key,
        options.zookeeper_ssl_key_password,
        options.zookeeper_ssl_verify,
        f"{options.PREFIX}.ssl",
    )
    return ZkSecurity(options.zookeeper_auth, set_acl, tls if options.zookeeper_ssl else None)


def security_problems(options: ZkSecurityOptions, connect: str | None) -> Iterator[str]:
    """What is wrong between these options, and with the ZooKeeper that they are for (none: None or empty): sentences
    without the file's name."""
    prefix = options.PREFIX
    files = (options.zookeeper_ssl_ca, options.zookeeper_ssl_certificate, options.zookeeper_ssl_key)
    if not options.zookeeper_ssl and any(files):
        yield f"files of '{prefix}.ssl' are given, but '{prefix}.ssl.client.enable' is false: nothing would be TLS"
    if options.zookeeper_ssl_key is not None and options.zookeeper_ssl_certificate is None:
        yield f"'{prefix}.ssl.key.location' needs '{prefix}.ssl.certificate.location'"
    if not connect and (options.zookeeper_auth is not None or options.zookeeper_ssl):
        yield f"'{prefix}.auth' and '.ssl' say how '{prefix}.connect' is reached, which is not given"
