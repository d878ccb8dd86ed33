"""The option http.listen: an address, what is unsafe about it, and whether there can be a server.  Imports none."""

from __future__ import annotations

import ipaddress
from importlib.util import find_spec
from typing import NamedTuple

from groundwork.decimals import decimal_int

LOCAL = "127.0.0.1"


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    @property
    def local(self) -> bool:
        """Only programs of this machine reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen_address(raw: object) -> Address:
    """An address of text: host:port, or a port, which is one of 127.0.0.1.  Raises ValueError with what is expected."""
    text = str(raw).strip()
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    brackets_missing = ":" in host and not text.startswith("[")
    number = decimal_int(port, 1, 65535)
    if isinstance(raw, bool) or brackets_missing or number is None:
        raise ValueError("host:port, or a port of 127.0.0.1, such as 9308")
    return Address(host or LOCAL, number)


def unsafe(address: Address) -> str:
    """Why it may be unsafe to listen there: a sentence; "": it is not."""
    if address.local:
        return ""
    return (
        f"http.listen={address}: its clients read topics, offsets and reasons without a password; "
        f"{address.port} alone listens on {LOCAL}"
    )


def missing() -> str:
    """Why the server cannot be had: a sentence; "": it can."""
    if find_spec("prometheus_client") is not None:
        return ""
    return "option 'http.listen' needs prometheus-client: pip install 'kafka-legacy-mirror[metrics]'"
