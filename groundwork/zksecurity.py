"""ZooKeeper security: credentials, ACLs of created nodes, TLS, and the options for them.

auth      digest:USER:PASSWORD, or the place of it (groundwork.credentials); sent on each connection.  ZooKeeper does
          not report wrong credentials: it only refuses the nodes that need other ones
set_acl   created nodes can be written with these credentials only and read by all, except nodes of the first level,
          such as /consumers, which belong to every group
tls       each connection uses TLS; the server's certificate must name the host as zookeeper.connect does

Option classes inherit the options:

    class LoadConfig(ZkSecurityOptions): ...                # zookeeper.auth, zookeeper.ssl.…
    class Target(ZkSecurityOptions):
        PREFIX: ClassVar = "target.zookeeper"               # target.zookeeper.auth, …

Imports no ZooKeeper client at module level: options are read without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from groundwork.credentials import location, path_of, secret, secret_text
from groundwork.options import Options, Secret, option
from groundwork.tlscontext import TlsUnusable


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files for TLS.  ca: trusted authorities (None: the system's); certificate and key: the client's, when the
    server asks for them.  verify: False trusts any server.  options: prefix of their option names."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    password: Secret | None = None
    verify: bool = True
    options: str = "zookeeper.ssl"

    def context(self, make: Callable[..., Any]) -> Any:
        """Return a TLS context from the files, which are read now.  Raises TlsUnusable, which names the files.

        make: groundwork.tasks.tls_context in the hub, groundwork.tlscontext.plain_tls elsewhere.
        """
        password = self.password.text if self.password is not None else None
        try:
            return make(ca=self.ca, certificate=self.certificate, key=self.key, password=password, verify=self.verify)
        except (OSError, ValueError) as e:  # ssl.SSLError is an OSError
            files = ", ".join(name for name in (self.ca, self.certificate, self.key) if name)
            raise TlsUnusable(f"{self.options}: {files or 'the system authorities'} cannot be used: {e}") from None


@dataclass(frozen=True, slots=True)
class ZkSecurity:
    """Credentials, ACL and TLS of a ZooKeeper session.  auth: `digest:USER:PASSWORD`; None: no credentials."""

    auth: Secret | None = None
    set_acl: bool = False
    tls: Tls | None = None

    def for_kazoo(self) -> dict[str, Any]:
        """Return arguments of a KazooClient."""
        from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE  # late: options are read without a client

        found: dict[str, Any] = {}
        if self.auth is not None:
            scheme, _, who = self.auth.text.partition(":")
            found["auth_data"] = [(scheme, who)]
        if self.set_acl:
            found["default_acl"] = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
        return found

    def options(self) -> dict[str, object]:
        """Return the equivalent consumer options as texts, without those that have their default."""
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
    """A cluster's ZooKeeper.  connect: `host:port,host:port/chroot`; security: credentials and TLS."""

    connect: str
    security: ZkSecurity = OPEN

    def __str__(self) -> str:
        return self.connect


def identity(raw: object) -> Secret:
    """Option type: `digest:USER:PASSWORD`, or the place of it.  Raises ValueError, which does not quote the value."""
    file, raw = path_of(raw), secret_text(raw)
    scheme, _, who = raw.strip().partition(":") if isinstance(raw, str) else ("", "", "")
    user, _, password = who.partition(":")
    if scheme != "digest" or not user or not password:
        raise ValueError("digest:USER:PASSWORD")
    return Secret(f"{scheme}:{who}", file)


_CONNECT = "{prefix}.connect"


@dataclass(frozen=True, slots=True)
class ZkSecurityOptions(Options):
    """Options of a ZooKeeper session's security.  PREFIX: their common prefix; the subclass has PREFIX.connect."""

    PREFIX: ClassVar[str] = "zookeeper"

    zookeeper_auth: Secret | None = option(  # noqa: RUF009  # a Secret never changes
        "{prefix}.auth", None,
        "ZooKeeper credentials: digest:USER:PASSWORD, or file:PATH or credential:NAME with that in it; never printed",
        kind=identity, secret=True, behind=_CONNECT,
    )  # fmt: skip
    zookeeper_ssl: bool = option(
        "{prefix}.ssl.client.enable", False, "connections to ZooKeeper are TLS", behind=_CONNECT
    )
    zookeeper_ssl_ca: str | None = option(
        "{prefix}.ssl.ca.location", None, "PEM file of the authorities to trust; the system's when empty",
        kind=location, behind=_CONNECT,
    )  # fmt: skip
    zookeeper_ssl_certificate: str | None = option(
        "{prefix}.ssl.certificate.location", None, "PEM file of our certificate, where the server asks for one",
        kind=location, behind=_CONNECT,
    )  # fmt: skip
    zookeeper_ssl_key: str | None = option(
        "{prefix}.ssl.key.location", None, "PEM file of its key; the certificate's file when empty; or credential:NAME",
        kind=location, behind=_CONNECT,
    )  # fmt: skip
    zookeeper_ssl_key_password: Secret | None = option(  # noqa: RUF009  # a Secret never changes
        "{prefix}.ssl.key.password", None,
        "password of the key, or file:PATH or credential:NAME with it; never printed",
        kind=secret, secret=True, behind=_CONNECT,
    )  # fmt: skip
    zookeeper_ssl_verify: bool = option(
        "{prefix}.ssl.verify", True,
        "the server's certificate must be trusted and name the host of {prefix}.connect", behind=_CONNECT,
    )  # fmt: skip

    @property
    def security(self) -> ZkSecurity:
        """Return the security of a session to that ZooKeeper."""
        return security_of(self)


def security_of(options: ZkSecurityOptions, set_acl: bool = False) -> ZkSecurity:
    """Return the security of a session to the ZooKeeper that the options describe."""
    tls = Tls(
        ca=options.zookeeper_ssl_ca,
        certificate=options.zookeeper_ssl_certificate,
        key=options.zookeeper_ssl_key,
        password=options.zookeeper_ssl_key_password,
        verify=options.zookeeper_ssl_verify,
        options=f"{options.PREFIX}.ssl",
    )
    return ZkSecurity(options.zookeeper_auth, set_acl, tls if options.zookeeper_ssl else None)


def security_problems(options: ZkSecurityOptions, connect: str | None) -> Iterator[str]:
    """Yield conflicts between these options and with `connect`: sentences without the file's name.

    connect: None or empty if no ZooKeeper is given
    """
    prefix = options.PREFIX
    files = (options.zookeeper_ssl_ca, options.zookeeper_ssl_certificate, options.zookeeper_ssl_key)
    if not options.zookeeper_ssl and any(files):
        yield f"files of '{prefix}.ssl' are given, but '{prefix}.ssl.client.enable' is false: nothing would be TLS"
    if options.zookeeper_ssl_key is not None and options.zookeeper_ssl_certificate is None:
        yield f"'{prefix}.ssl.key.location' needs '{prefix}.ssl.certificate.location'"
    if not connect and (options.zookeeper_auth is not None or options.zookeeper_ssl):
        yield f"'{prefix}.auth' and '.ssl' say how '{prefix}.connect' is reached, which is not given"
