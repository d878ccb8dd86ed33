"""Addresses of brokers as options have them: `host:port,host:port`, or `id:host:port,...` (0.7's broker.list)."""

from __future__ import annotations

from groundwork.decimals import MAX_INT32, decimal_int
from kafkawire.errors import LocalError
from kafkawire.model import Broker

PORTS = range(1, 65536)


def parse_address(text: str, where: str = "broker list") -> tuple[str, int]:
    """`host:port` (IPv6 as `[::1]:9092`) -> (host, port).  Raises LocalError naming the entry and its source
    (`where`)."""
    listener, scheme, address = text.strip().partition("://")
    if scheme:
        raise LocalError(
            f"{where}: {text.strip()!r} is a listener's address; give {address or 'host:port'} alone and set "
            f"security.protocol {listener}"
        )
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise LocalError(f"{where}: {text.strip()!r} is not host:port (an IPv6 host goes into brackets: [::1]:9092)")
    if not colon or not host:
        raise LocalError(f"{where}: {text.strip()!r} is not host:port (for example broker1:9092)")
    number = decimal_int(port, PORTS[0], PORTS[-1])
    if number is None:
        raise LocalError(f"{where}: port {port!r} in {text.strip()!r} is not a number from 1 to 65535")
    return host, number


def parse_addresses(text: str, where: str = "broker list") -> list[tuple[str, int]]:
    """`h1:p1,h2:p2` -> [(h1, p1), (h2, p2)].  Raises LocalError; also for an empty list."""
    entries = [entry for entry in text.split(",") if entry.strip()]
    if not entries:
        raise LocalError(f"{where}: no broker given (host:port, several separated by commas)")
    return [parse_address(entry, where) for entry in entries]


def parse_brokers(text: str, where: str = "broker list") -> dict[int, Broker]:
    """`1:h1:p1,2:h2:p2` (0.7's broker.list) -> brokers by id.  Raises LocalError; also for an id given twice."""
    brokers: dict[int, Broker] = {}
    for entry in text.split(","):
        named, colon, address = entry.strip().partition(":")
        number = decimal_int(named, most=MAX_INT32)
        if not colon or number is None:
            raise LocalError(f"{where}: {entry.strip()!r} is not id:host:port (for example 1:broker1:9092)")
        if number in brokers:
            raise LocalError(f"{where}: broker id {number} is given twice")
        brokers[number] = Broker(number, *parse_address(address, where))
    return brokers
