"""A client's TLS context from PEM files, for plain sockets or for those of a hub.  Imports no gevent."""

from __future__ import annotations

import ssl
from typing import Any


class TlsUnusable(Exception):
    """A file of certificates or keys cannot be read or parsed; the text names the file."""


def plain_tls(*, ca: str | None, certificate: str | None, key: str | None, password: str | None, verify: bool) -> Any:
    """Return a TLS context for plain blocking sockets.  For arguments and errors see configured()."""
    return configured(
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        ca=ca,
        certificate=certificate,
        key=key,
        password=password,
        verify=verify,
    )


def configured(
    context: Any, *, ca: str | None, certificate: str | None, key: str | None, password: str | None, verify: bool
) -> Any:
    """Give `context` certificate authorities (ca; None: the system's) and the client's certificate and key.

    verify: the server's certificate must be signed by one of the authorities and name the host.  TLS 1.2 is the oldest
    that is spoken.  Raises OSError (ssl.SSLError is one) for a file that cannot be read or parsed.
    """
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(ca)
    if certificate is not None:
        context.load_cert_chain(certificate, key, password or "")  # "": never ask a terminal
    return context
