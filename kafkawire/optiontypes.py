"""What values the options take that name a release or brokers: functions from a file's value to the option's own.

Each raises ValueError with what it expected; who reads the file makes the sentence.
"""

from __future__ import annotations

from groundwork.optionvalues import BadValue
from kafkawire.cluster.addresses import parse_addresses, parse_brokers
from kafkawire.dialects import SeveralReleases, dialect
from kafkawire.errors import LocalError
from kafkawire.model import Broker


def release(raw: object) -> str:
    """A Kafka release, such as 0.8.2 (in YAML, 0.9 without quotes is a number, and will do)."""
    said = str(raw).strip()
    try:
        dialect(said)
    except SeveralReleases as exc:
        raise BadValue(f"a Kafka release: {exc}") from exc  # quotes around it would not help
    except LocalError as exc:
        raise ValueError(f"a Kafka release: {exc}") from exc
    return said


def brokers(raw: object) -> tuple[tuple[str, int], ...]:
    """`host:port,host:port`."""
    try:
        return tuple(parse_addresses(str(raw)))
    except LocalError as exc:
        raise ValueError(f"host:port, several separated by commas ({exc})") from exc


def numbered_brokers(raw: object) -> tuple[Broker, ...]:
    """`id:host:port,id:host:port`, 0.7's broker.list."""
    try:
        return tuple(parse_brokers(str(raw)).values())
    except LocalError as exc:
        raise ValueError(f"id:host:port, several separated by commas ({exc})") from exc
