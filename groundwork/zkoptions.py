"""The options that say who we are to a ZooKeeper and whether its links are TLS: the same after each prefix.

Field factories of option classes: prefix is "zookeeper" or "target.zookeeper".  What they say together is an Access.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from groundwork.options import Secret, option
from groundwork.optionvalues import filled
from groundwork.zkaccess import Access, Tls, identity, tls_problems


def _password(raw: object) -> Secret:
    return Secret(filled(raw))


def auth(prefix: str, whom: str) -> Any:
    """zookeeper_auth.  whom: how the meaning calls the server."""
    meaning = f"who we are to {whom}: digest:USER:PASSWORD; masked wherever it is printed"
    return option(f"{prefix}.auth", None, meaning, kind=identity, secret=True)


def ca(prefix: str) -> Any:
    """zookeeper_ssl_ca."""
    meaning = "PEM file of the authorities to trust; the system's when empty"
    return option(f"{prefix}.ssl.ca.location", None, meaning, kind=filled)


def certificate(prefix: str) -> Any:
    """zookeeper_ssl_certificate."""
    meaning = "PEM file of our certificate, where the server asks for one"
    return option(f"{prefix}.ssl.certificate.location", None, meaning, kind=filled)


def key(prefix: str) -> Any:
    """zookeeper_ssl_key."""
    meaning = "PEM file of its key; the certificate's file when empty"
    return option(f"{prefix}.ssl.key.location", None, meaning, kind=filled)


def key_password(prefix: str) -> Any:
    """zookeeper_ssl_key_password."""
    meaning = "password of the key; masked wherever it is printed"
    return option(f"{prefix}.ssl.key.password", None, meaning, kind=_password, secret=True)


def verify(prefix: str) -> Any:
    """zookeeper_ssl_verify."""
    meaning = f"the server's certificate must be trusted and name the host of {prefix}.connect"
    return option(f"{prefix}.ssl.verify", True, meaning)


class AccessFields(Protocol):
    """The fields of an option class that these factories make."""

    @property
    def zookeeper_auth(self) -> Secret | None: ...
    @property
    def zookeeper_ssl(self) -> bool: ...
    @property
    def zookeeper_ssl_ca(self) -> str | None: ...
    @property
    def zookeeper_ssl_certificate(self) -> str | None: ...
    @property
    def zookeeper_ssl_key(self) -> str | None: ...
    @property
    def zookeeper_ssl_key_password(self) -> Secret | None: ...
    @property
    def zookeeper_ssl_verify(self) -> bool: ...


def access_of(fields: AccessFields, prefix: str, set_acl: bool = False) -> Access:
    """How a session shows itself to the ZooKeeper that the options describe."""
    tls = Tls(
        fields.zookeeper_ssl_ca,
        fields.zookeeper_ssl_certificate,
        fields.zookeeper_ssl_key,
        fields.zookeeper_ssl_key_password,
        fields.zookeeper_ssl_verify,
        f"{prefix}.ssl",
    )
    return Access(fields.zookeeper_auth, set_acl, tls if fields.zookeeper_ssl else None)


def access_problems(fields: AccessFields, prefix: str, connect: str | None) -> Iterator[str]:
    """What is wrong between these options, and with the ZooKeeper that they are for (none: None or empty): sentences
    without the file's name."""
    files = (fields.zookeeper_ssl_ca, fields.zookeeper_ssl_certificate, fields.zookeeper_ssl_key)
    yield from tls_problems(f"{prefix}.ssl", fields.zookeeper_ssl, *files)
    if not connect and (fields.zookeeper_auth is not None or fields.zookeeper_ssl):
        yield f"'{prefix}.auth' and '.ssl' say how '{prefix}.connect' is reached, which is not given"
