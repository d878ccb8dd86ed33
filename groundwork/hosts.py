"""Lists of hosts that an option takes: names, addresses, and suffixes of names such as .example.com.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

EVERY = "*"


def host_list(raw: object) -> tuple[str, ...]:
    """Option type: hosts in a list, or in text with commas.  .example.com is a whole domain, * any host."""
    found = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise ValueError("a list of hosts, such as kafka1.example.com, or .example.com for a whole domain")
    hosts = tuple(dict.fromkeys(_plain(each.strip()) for each in found if each.strip()))
    for host in hosts:
        if host != EVERY and (not host.strip(".") or any(c in "*/@ " or not c.isprintable() for c in host)):
            raise ValueError(f"hosts without ports, such as kafka1.example.com or .example.com; {host!r} is not one")
    return hosts


def is_listed(host: str, hosts: Sequence[str]) -> bool:
    """True if the list names the host, or a domain that it is in."""
    name, every = _plain(host), map(_plain, hosts)
    return any(
        listed == EVERY or name == listed or (listed.startswith(".") and name.endswith(listed)) for listed in every
    )


def _plain(host: str) -> str:
    """Return a name for comparison: case, brackets and a dot at the end do not matter."""
    return host.lower().strip("[]").removesuffix(".")
