"""The options that say who we are to a ZooKeeper and whether its links are TLS: what every class that names one is made
from.

    class LoadConfig(AccessOptions): ...                    # zookeeper.auth, zookeeper.ssl.…
    class Target(AccessOptions):
        PREFIX: ClassVar = "target.zookeeper"               # target.zookeeper.auth, …
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from groundwork.options import Options, Secret, option
from groundwork.optionvalues import filled
from groundwork.zkaccess import Access, Tls, identity


def _password(raw: object) -> Secret:
    return Secret(filled(raw))


_CONNECT = "{prefix}.connect"


@dataclass(frozen=True, slots=True)
class AccessOptions(Options):
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
    def access(self) -> Access:
        """How a session shows itself to that ZooKeeper."""
        return access_of(self)


def access_of(options: AccessOptions, set_acl: bool = False) -> Access:
    """How a session shows itself to the ZooKeeper that the options describe."""
    tls = Tls(
        options.zookeeper_ssl_ca,
        options.zookeeper_ssl_certificate,
        options.zookeeper_ssl_key,
        options.zookeeper_ssl_key_password,
        options.zookeeper_ssl_verify,
        f"{options.PREFIX}.ssl",
    )
    return Access(options.zookeeper_auth, set_acl, tls if options.zookeeper_ssl else None)


def access_problems(options: AccessOptions, connect: str | None) -> Iterator[str]:
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
