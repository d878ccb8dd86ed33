"""A client's TLS context from PEM files, of whichever kind: plain sockets' or greenlets'.  Knows no greenlet."""

from __future__ import annotations

import ssl
from typing import Any


class TlsUnusable(Exception):
    """A file of certificates or keys that cannot be read, or makes no sense; the sentence names it."""


def plain_tls(ca: str | None, certificate: str | None, key: str | None, password: str | None, verify: bool) -> Any:
    """One for plain blocking sockets.  Arguments and errors: as configured()."""
    return configured(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ca, certificate, key, password, verify)


def configured(
    context: Any, ca: str | None, certificate: str | None, key: str | None, password: str | None, verify: bool
) -> Any:
    """A fresh context, configured whom to trust and who we are; ca None: the system's authorities.

    verify: the server's certificate must be signed by one of them and name the host.  Raises OSError for a file that
    cannot be read or makes no sense (ssl.SSLError is one).
    """
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
