"""Option http.listen: its address, why it may be unsafe, and whether the server is installed.  Does not import the
server."""

from __future__ import annotations

import ipaddress
from importlib.util import find_spec
from typing import NamedTuple

from groundwork.decimals import decimal_int

LOCAL = "127.0.0.1"


class Address(NamedTuple):
    """Address on which a server listens."""

    host: str
    port: int

    @property
    def local(self) -> bool:
        """True if only programs on this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen_address(raw: object) -> Address:
    """Return the address in a text: host:port, or a port on 127.0.0.1.  Raises ValueError that says what is
    expected."""
    text = str(raw).strip()
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    brackets_missing = ":" in host and not text.startswith("[")
    number = decimal_int(port, 1, 65535)
    if isinstance(raw, bool) or brackets_missing or number is None:
        raise ValueError("host:port, or a port of 127.0.0.1, such as 9308")
    return Address(host or LOCAL, number)


def unsafe(address: Address) -> str:
    """Return a sentence saying why listening there may be unsafe, or ""."""
    if address.local:
        return ""
    return (
        f"http.listen={address}: its clients read topics, offsets and reasons without a password; "
        f"{address.port} alone listens on {LOCAL}"
    )


def missing() -> str:
    """Return a sentence saying which library the server needs, or "" if it is installed."""
    if find_spec("prometheus_client") is not None:
        return ""
    return "option 'http.listen' needs prometheus-client: pip install 'kafka-legacy-mirror[metrics]'"
