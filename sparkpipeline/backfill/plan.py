"""What a backfill is to do and what it has done: values, and their texts.  Pure.

Request     what the operator asked for; the same command again asks for the same
Lane        one source partition: [start, until), and where its messages go: the target partition of its number, of
            0.7, whose partitions belong to brokers, the one of its place among all of the topic
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
from sparkpipeline.ledger.model import utc
from sparkpipeline.ranges import OffsetRange, in_steps, partition_of

FORMAT = 1
BYTES_OF_07 = 64 << 20  # the chunk of a backfill from 0.7, unless another is asked for
Boundary = Callable[[TopicPartition, int, int, int], int]  # as cluster.boundaries has it
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
    """Whether an option is; options are taken in any case."""
    return name.lower() in SECRETS


def is_given_anew(name: str) -> bool:
    """True for an option that each command gives: it is never written down, nor taken from a folder.

    Those are secrets, and what names code: whoever may write the folder would have it run."""
    return is_secret(name) or name.lower() in CODE


def is_connection(name: str) -> bool:
    """True for an option that says where a cluster is or how its servers prove who they are, and is no secret."""
    return (name.lower() in _ADDRESSES or name.lower().startswith(_SECURITY)) and not is_given_anew(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """source, target: options of format kafka08, under the names its tables have."""

    source: Mapping[str, str]
    target: Mapping[str, str]
    partitioning: str = "identity"  # or key
    shared: bool = False  # others write the target partitions too: no comparing, so at least once
    codec: str = ""  # of the target; "": as the source has it
    chunk: int = 500_000  # offsets that are copied between two marks; of 0.7 bytes, which is little
    group: str | None = None  # whose positions are written at the end
    storage: str = "zookeeper"

    @property
    def exclusive(self) -> bool:
        """Whether nothing is repeated after a crash."""
        return self.partitioning == "identity" and not self.shared

    def without_secrets(self) -> Request:
        """Return what may be written down."""
        return replace(
            self,
            source={k: v for k, v in self.source.items() if not is_given_anew(k)},
            target={k: v for k, v in self.target.items() if not is_given_anew(k)},
        )

    def without_connections(self) -> Request:
        """Return what may be written down, without addresses and security of the clusters."""
        kept = self.without_secrets()
        return replace(
            kept,
            source={k: v for k, v in kept.source.items() if not is_connection(k)},
            target={k: v for k, v in kept.target.items() if not is_connection(k)},
        )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a lane: source offsets [start, until)."""

    lane: int
    number: int
    start: int
    until: int


@dataclass(frozen=True, slots=True)
class Lane:
    """partition: of the source; of 0.7 "broker-index".  target_start: where the target's log ended when this was
    planned; None where others may write it.  target: partition of the target; None: the same number."""

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

    def chunks(self, size: int, first: int = 0) -> Iterator[Chunk]:
        """Its chunks from number `first` on."""
        for number, step in enumerate(in_steps(self.range, size)):
            if number >= first:
                yield Chunk(self.number, number, step.start, step.until)

    def byte_chunks(self, size: int, before: Done | None, boundary: Boundary) -> Iterator[Chunk]:
        """Of 0.7: its chunks behind a mark, each of at least `size` bytes, as far as there are, up to where an entry
        begins."""
        number, at = (0, self.start) if before is None else (before.chunk + 1, before.until)
        while at < self.until:
            end = boundary(self.tp, at, min(at + size, self.until), self.until)
            yield Chunk(self.number, number, at, end)
            number, at = number + 1, end


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    created_ms: int
    request: Request
    source_release: str
    target_release: str
    lanes: tuple[Lane, ...]
    version: str

    @property
    def count(self) -> int:
        """Offsets to copy: at least as many as messages; of 0.7 bytes."""
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
        """Raises LedgerDamaged."""
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
            raise LedgerDamaged(f"is no plan of a backfill: {exc}", file=where) from None


@dataclass(frozen=True, slots=True)
class Copied:
    """What a task did with a chunk."""

    messages: int
    bytes: int  # of keys and values
    kept: int = 0  # of the messages: were there already, compared and not sent again
    may_repeat: int = 0  # sent again without knowing: at most so many are there twice
    resyncs: int = 0  # times that the target's tail was read because an answer was missing
    target_until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The mark of a chunk.  total_: of its lane up to and with it."""

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
        """Raises LedgerDamaged."""
        row = _document(text, where)
        try:
            return cls(**{field.name: row[field.name] for field in fields(cls)})
        except (KeyError, TypeError) as exc:
            raise LedgerDamaged(f"is no mark of a backfill: {exc}", file=where) from None

    @classmethod
    def after(cls, before: Done | None, chunk: Chunk, copied: Copied, now_ms: int) -> Done:
        """The mark of a chunk behind another."""
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
    """What a second command asks for that the plan does not say: sentences."""
    found = []
    for field in fields(Request):
        was, is_ = getattr(planned, field.name), getattr(asked.without_secrets(), field.name)
        if was != is_:
            found.append(f"{field.name} {_shown(is_)} is asked for, {_shown(was)} was planned")
    return found


def unconfirmed(planned: Request, given: Request) -> list[str]:
    """What the plan says of a cluster's addresses and security, and the command does not confirm: sentences.

    A command that gives a secret for a cluster says whom it is for: whoever may write the folder would be told it."""
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
    """Connection options by name in lower case; a name in several cases is there several times."""
    return sorted(
        ((name.lower(), value) for name, value in options.items() if is_connection(name)), key=lambda pair: pair[0]
    )


def _of(pairs: list[tuple[str, Any]], name: str) -> str:
    return " and ".join(_shown(value) for key, value in pairs if key == name) or "nothing"


def check(request: Request) -> None:
    """Raises OptionRefused for what contradicts itself."""
    if request.partitioning not in ("identity", "key"):
        raise OptionRefused(f"{request.partitioning} is neither identity nor key", option="--partitioning")
    if request.chunk < 1:
        raise OptionRefused("a chunk has at least one offset", option="--chunk")
    if request.group is not None and not request.source.get("zookeeper.connect") and request.storage != "kafka":
        raise OptionRefused(
            "a queue looks in the source's ZooKeeper whether a daemon is at work: give --source-zookeeper, or for a"
            " group of a cluster without ZooKeeper --offsets-storage kafka",
            option="--group",
        )
    chosen = {name.lower() for name in request.source} & {"subscribe", "subscribepattern", "assign"}
    if len(chosen) != 1:
        raise OptionRefused(
            "one of --topics, --topics-pattern and --partitions says what is copied:"
            f" {'several are' if chosen else 'none is'} given",
            option="--topics",
        )
    for side, options in (("source", request.source), ("target", request.target)):
        if not _REACHED_BY & {name.lower() for name in options}:
            raise OptionRefused(f"or --{side}-zookeeper says where the cluster is", option=f"--{side}-brokers")


def _shown(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _document(text: str, where: str) -> dict[str, Any]:
    try:
        row = json_value(text)
    except ValueError as exc:
        raise LedgerDamaged(f"is no JSON: {exc}", file=where) from None
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise LedgerDamaged("was written by another version", file=where)
    return row
