"""How a session shows itself to ZooKeeper: its identity, whose nodes ours are, and TLS.

auth      digest:USER:PASSWORD, sent on each connection.  ZooKeeper never says that it is wrong: what is closed to
          it just is not ours
set_acl   nodes we create are written by that identity only and read by all, except those of the first level, such
          as /consumers, which belong to every group
tls       each connection is TLS; the server's certificate must name the host as zookeeper.connect does

Knows no ZooKeeper client: options that say it are in groundwork.zkoptions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from groundwork.options import Secret
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

        make: groundwork.crew.tls_context in the hub, groundwork.tls.plain_tls elsewhere.
        """
        password = self.password.text if self.password is not None else None
        try:
            return make(self.ca, self.certificate, self.key, password, self.verify)
        except (OSError, ValueError) as e:  # ssl.SSLError is an OSError
            files = ", ".join(name for name in (self.ca, self.certificate, self.key) if name)
            raise TlsUnusable(f"{self.options}: {files or 'the system authorities'} cannot be used: {e}") from None


@dataclass(frozen=True, slots=True)
class Access:
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


OPEN = Access()


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """A cluster's ZooKeeper: connect is `host:port,host:port/chroot`; access: who we are there, and TLS."""

    connect: str
    access: Access = OPEN

    def __str__(self) -> str:
        return self.connect


def identity(raw: object) -> Secret:
    """The kind of the options that hold `digest:USER:PASSWORD`.  Raises ValueError, which does not quote it."""
    scheme, _, who = raw.strip().partition(":") if isinstance(raw, str) else ("", "", "")
    user, _, password = who.partition(":")
    if scheme != "digest" or not user or not password:
        raise ValueError("digest:USER:PASSWORD")
    return Secret(f"{scheme}:{who}")
