"""Connect strings of ZooKeeper, `host:port,host:port/chroot`: one parser for every option and every command.  Pure.

A port that is not given is 2181.  The chroot stands once, behind the last host.  Blanks around hosts, commas at the end
and a slash behind the chroot mean nothing; what else ZooKeeper's clients would take for the name of a host, or for a
path that does not exist, is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from groundwork.decimals import decimal_int

FORM = "host:port,host:port/chroot"
PORT = 2181
_SERVER = re.compile(r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^:\[\]]*))(?::(.*))?")  # an IPv6 address, or a host; its port
_NO_HOST = re.compile(r"[^\w.:%-]")  # % begins the zone of an IPv6 address


@dataclass(frozen=True, slots=True)
class Connect:
    """servers: (host, port), as given but for the default port.  chroot: `/a/b`, or "" for none.

    text: the string, without what means nothing.
    """

    servers: tuple[tuple[str, int], ...]
    chroot: str
    text: str


def parse_connect(text: str) -> Connect:
    """Parse a connect string.  Raises ValueError, which says what is wrong."""
    text = text.strip()
    if not text:
        raise ValueError(f"{FORM}, and it is empty")
    if text[0] in "\"'" or text[-1] in "\"'":
        raise ValueError(f"{FORM}, without quotes")
    if "://" in text:
        raise ValueError(f"{FORM}, without {text.partition('://')[0]}://")
    listed, slash, path = text.partition("/")
    hosts = [host.strip() for host in listed.split(",") if host.strip()]
    if not hosts:
        raise ValueError(f"{FORM}, and no host is in front of the path")
    servers = tuple(_server(host) for host in hosts)
    chroot = _chroot(path, hosts) if slash else ""
    return Connect(servers, chroot, f"{','.join(hosts)}{chroot}")


def connect_string(raw: object) -> str:
    """Option type: a connect string."""
    if not isinstance(raw, str):
        raise ValueError(FORM)
    return parse_connect(raw).text


def connect_or_none(raw: object) -> str:
    """Option type: a connect string, or empty text for none."""
    return "" if isinstance(raw, str) and not raw.strip() else connect_string(raw)


def _server(text: str) -> tuple[str, int]:
    if ";" in text:
        raise ValueError(f"{FORM}, with commas between hosts and not ';'")
    if re.search(r"\s", text):
        raise ValueError(f"{FORM}, without blanks or a comment in it, and {text!r} has one")
    found = _SERVER.fullmatch(text)
    host = (found[1] or found[2]) if found else ""
    port = (found[3] if found else None) or ""
    if text.count(":") > 1 and not (found and found[1]):
        raise ValueError(f"{FORM}, and {text!r} has more than one colon (an IPv6 host goes into brackets: [::1]:2181)")
    if not host or _NO_HOST.search(host):
        raise ValueError(f"{FORM}, and {text!r} names no host")
    number = decimal_int(port, 1, 65535) if port or text.endswith(":") else PORT
    if number is None:
        raise ValueError(f"{FORM}, and port {port!r} of {text!r} is not a number from 1 to 65535")
    return host, number


def _chroot(path: str, hosts: list[str]) -> str:
    if "," in path:
        first = path.partition(",")[0].strip("/ ")
        others = [one.strip().partition("/")[0] for one in path.split(",")[1:]]
        helps = f": {','.join([*hosts, *filter(None, others)])}/{first}" if first else ""
        raise ValueError(f"{FORM}, with the chroot once, behind the last host{helps}")
    if re.search(r"\s", path.strip()):
        raise ValueError(f"{FORM}, without blanks or a comment in it, and '/{path}' has one")
    path = path.strip().rstrip("/")
    if not path:
        return ""
    if any(name in ("", ".", "..") for name in path.split("/")):
        raise ValueError(f"{FORM}, and '/{path}' is not a path of ZooKeeper")
    return f"/{path}"
