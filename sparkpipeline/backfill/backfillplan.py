"""Plan and progress of a backfill: values, and their texts.  Pure.

Request     the operator's request; the same command makes the same request
Lane        one source partition: [start, until), and the target partition: the same number, for 0.7 its position among
            all partitions of the topic
BackfillPlan        request and lanes: written once, before anything is copied, and never changed
Done        one chunk of a lane, copied and acknowledged
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from groundwork.jsontext import json_value
from kafkawire.model import TopicPartition
from sparkpipeline.errors import LedgerDamaged, OptionRefused
from sparkpipeline.ledger.manifests import utc
from sparkpipeline.ranges import OffsetRange, partition_of

FORMAT = 1
BYTES_OF_07 = 64 << 20  # chunk of a backfill from 0.7, by default
Boundary = Callable[[TopicPartition, int, int, int], int]  # as in cluster.boundaries
_REACHED_BY = {
    "kafka.bootstrap.servers", "kafka.metadata.broker.list", "zookeeper.connect", "kafka.zookeeper.connect",
}  # fmt: skip
SECRETS = (
    "zookeeper.auth", "zookeeper.ssl.key.password", "kafka.ssl.key.password", "kafka.sasl.password",
    "kafka.sasl.oauthbearer.config",
)  # fmt: skip
CODE = ("kafka.sasl.oauthbearer.callback",)
_ADDRESSES = _REACHED_BY | {"kafka.broker.list"}
_SECURITY = ("kafka.security.", "kafka.ssl.", "kafka.sasl.", "zookeeper.ssl.")


def is_secret(name: str) -> bool:
    """True if an option is secret; names of options are not case-sensitive."""
    return name.lower() in SECRETS


def is_given_anew(name: str) -> bool:
    """True for an option that each command gives: it is never stored, nor read from a folder.

    These are secrets and names of code, which anyone with write access to the folder could otherwise have executed."""
    return is_secret(name) or name.lower() in CODE


def is_connection(name: str) -> bool:
    """True for an option with a cluster's addresses or the authentication of its servers that is not secret."""
    return (name.lower() in _ADDRESSES or name.lower().startswith(_SECURITY)) and not is_given_anew(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request of an operator. source, target: options of format kafka08, with the names of its tables."""

    source: Mapping[str, str]
    target: Mapping[str, str]
    partitioning: str = "identity"  # or key
    shared: bool = False  # others write the target partitions too: tails are not compared, so at least once
    codec: str = ""  # of the target; "": as in the source
    chunk: int = 500_000  # offsets between two marks; bytes for 0.7, for which it is little
    group: str | None = None  # group whose offsets are written at the end
    storage: str = "zookeeper"

    @property
    def exclusive(self) -> bool:
        """True if nothing is repeated after a crash."""
        return self.partitioning == "identity" and not self.shared

    def without_secrets(self) -> Request:
        """Return the request without secrets, as it may be stored."""
        return replace(
            self,
            source={k: v for k, v in self.source.items() if not is_given_anew(k)},
            target={k: v for k, v in self.target.items() if not is_given_anew(k)},
        )

    def without_connections(self) -> Request:
        """Return the request without secrets, and without addresses and security of the clusters."""
        kept = self.without_secrets()
        return replace(
            kept,
            source={k: v for k, v in kept.source.items() if not is_connection(k)},
            target={k: v for k, v in kept.target.items() if not is_connection(k)},
        )


@dataclass(frozen=True, slots=True)
class Chunk:
    """Piece of a lane: source offsets [start, until)."""

    lane: int
    number: int
    start: int
    until: int


@dataclass(frozen=True, slots=True)
class Lane:
    """One source partition of a plan. partition: of the source; for 0.7 "broker-index". target_start: the target's log
    end when this was planned; None if others may write it. target: partition of the target; None: the same number."""

    number: int
    topic: str
    partition: int | str
    start: int
    until: int
    target_start: int | None
    target: int | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, partition_of(self.partition))

    @property
    def target_tp(self) -> TopicPartition:
        return self.tp if self.target is None else TopicPartition(self.topic, self.target)

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(self.topic, partition_of(self.partition), self.start, self.until)

    def chunks(self, size: int, before: Done | None = None, boundary: Boundary | None = None) -> Iterator[Chunk]:
        """Yield its chunks after a mark.

        boundary: needed for 0.7, whose offsets are bytes: there a chunk has at least `size` bytes, if there are, and
        ends where an entry begins."""
        number, at = (0, self.start) if before is None else (before.chunk + 1, before.until)
        while at < self.until:
            end = min(at + size, self.until)
            end = end if boundary is None else boundary(self.tp, at, end, self.until)
            yield Chunk(self.number, number, at, end)
            number, at = number + 1, end


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """Plan of a backfill.  lanes: one for each source partition."""

    created_ms: int
    request: Request
    source_release: str
    target_release: str
    lanes: tuple[Lane, ...]
    version: str

    @property
    def count(self) -> int:
        """Return the offsets to copy: at least as many as messages; bytes for 0.7."""
        return sum(lane.until - lane.start for lane in self.lanes)

    def text(self) -> str:
        request = self.request.without_secrets()
        document = {
            "format": FORMAT,
            "kind": "backfill",
            "created": utc(self.created_ms),
            "created_ms": self.created_ms,
            "request": asdict(request),
            "source_release": self.source_release,
            "target_release": self.target_release,
            "lanes": [asdict(lane) for lane in self.lanes],
            "version": self.version,
        }
        return json.dumps(document, indent=1, sort_keys=True) + "\n"

    @classmethod
    def of(cls, text: str, where: str) -> BackfillPlan:
        """Parse a plan.  Raises LedgerDamaged."""
        row = _document(text, where)
        try:
            return cls(
                created_ms=row["created_ms"],
                request=Request(**row["request"]).without_secrets(),
                source_release=row["source_release"],
                target_release=row["target_release"],
                lanes=tuple(Lane(**lane) for lane in row["lanes"]),
                version=row["version"],
            )
        except (KeyError, TypeError, AttributeError) as exc:
            raise LedgerDamaged(f"is not a plan of a backfill: {exc}", file=where) from None


@dataclass(frozen=True, slots=True)
class Copied:
    """Result of a task for a chunk."""

    messages: int
    bytes: int  # of keys and values
    kept: int = 0  # messages that were stored already: compared and not sent again
    may_repeat: int = 0  # messages sent again after an unknown outcome: at most this many are stored twice
    resyncs: int = 0  # number of times that the target's tail was read because a response was missing
    target_until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Mark of a chunk. total_: of its lane up to and including it."""

    lane: int
    chunk: int
    start: int
    until: int
    total_messages: int
    total_bytes: int
    total_kept: int
    total_may_repeat: int
    total_resyncs: int
    target_until: int | None
    done_ms: int

    def text(self) -> str:
        return json.dumps({"format": FORMAT, "done": utc(self.done_ms), **asdict(self)}, sort_keys=True) + "\n"

    @classmethod
    def of(cls, text: str, where: str) -> Done:
        """Parse a mark.  Raises LedgerDamaged."""
        row = _document(text, where)
        try:
            return cls(**{field.name: row[field.name] for field in fields(cls)})
        except (KeyError, TypeError) as exc:
            raise LedgerDamaged(f"is not a mark of a backfill: {exc}", file=where) from None

    @classmethod
    def after(cls, before: Done | None, chunk: Chunk, copied: Copied, now_ms: int) -> Done:
        """Return the mark of a chunk that follows another."""
        return cls(
            lane=chunk.lane,
            chunk=chunk.number,
            start=chunk.start,
            until=chunk.until,
            total_messages=copied.messages + (before.total_messages if before else 0),
            total_bytes=copied.bytes + (before.total_bytes if before else 0),
            total_kept=copied.kept + (before.total_kept if before else 0),
            total_may_repeat=copied.may_repeat + (before.total_may_repeat if before else 0),
            total_resyncs=copied.resyncs + (before.total_resyncs if before else 0),
            target_until=copied.target_until,
            done_ms=now_ms,
        )


def differences(planned: Request, asked: Request) -> list[str]:
    """Return errors for requests of a second command that differ from the plan."""
    found = []
    for field in fields(Request):
        was, is_ = getattr(planned, field.name), getattr(asked.without_secrets(), field.name)
        if was != is_:
            found.append(f"{field.name} {_shown(is_)} is requested, {_shown(was)} was planned")
    return found


def unconfirmed(planned: Request, given: Request) -> list[str]:
    """Return errors for a cluster's addresses and security in the plan that the command does not confirm.

    A command with a secret for a cluster has to name the cluster: otherwise anyone with write access to the folder
    could redirect the secret."""
    found = []
    for side in ("source", "target"):
        was, is_ = _connection(getattr(planned, side)), _connection(getattr(given, side))
        if (is_ or any(map(is_given_anew, getattr(given, side)))) and was != is_:
            found += [
                f"{name} of the {side}: {_of(is_, name)} in the command, {_of(was, name)} in the plan"
                for name in sorted({name for name, _ in (*was, *is_)})
                if _of(was, name) != _of(is_, name)
            ]
    return found


def _connection(options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return connection options by name in lower case; a name in several cases occurs several times."""
    return sorted(
        ((name.lower(), value) for name, value in options.items() if is_connection(name)), key=lambda pair: pair[0]
    )


def _of(pairs: list[tuple[str, Any]], name: str) -> str:
    return " and ".join(_shown(value) for key, value in pairs if key == name) or "nothing"


def check(request: Request) -> None:
    """Raise OptionRefused for contradicting options."""
    if request.partitioning not in ("identity", "key"):
        raise OptionRefused(f"{request.partitioning} is neither identity nor key", option="--partitioning")
    if request.chunk < 1:
        raise OptionRefused("a chunk must have at least one offset", option="--chunk")
    if request.group is not None and not request.source.get("zookeeper.connect") and request.storage != "kafka":
        raise OptionRefused(
            "the source's ZooKeeper shows whether a daemon is at work: give --source-zookeeper, or for a"
            " group of a cluster without ZooKeeper --offsets-storage kafka",
            option="--group",
        )
    chosen = {name.lower() for name in request.source} & {"subscribe", "subscribepattern", "assign"}
    if len(chosen) != 1:
        raise OptionRefused(
            "give exactly one of --topics, --topics-pattern and --partitions: "
            f"{'several are' if chosen else 'none is'} given",
            option="--topics",
        )
    for side, options in (("source", request.source), ("target", request.target)):
        if not _REACHED_BY & {name.lower() for name in options}:
            raise OptionRefused(f"or --{side}-zookeeper is needed to find the cluster", option=f"--{side}-brokers")


def _shown(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _document(text: str, where: str) -> dict[str, Any]:
    try:
        row = json_value(text)
    except ValueError as exc:
        raise LedgerDamaged(f"is not JSON: {exc}", file=where) from None
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise LedgerDamaged("was written by another version", file=where)
    return row
