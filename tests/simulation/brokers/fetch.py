"""Fetch: what each partition answers, how much of it, and when (3)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.brokers import entries as formats
from tests.simulation.brokers.entries import Entry
from tests.simulation.brokers.produce import hold_back
from tests.simulation.brokers.replica import Replica
from tests.simulation.brokers.serving import Request

if TYPE_CHECKING:
    from tests.simulation.brokers.broker import SimBroker

OUT_OF_RANGE, UNKNOWN, NOT_LEADER, NO_REPLICA, NO_DOWNCONVERSION = 1, 3, 6, 9, 35
NO_SESSION, FENCED_EPOCH, UNKNOWN_EPOCH = 70, 74, 75
ANY, READ_COMMITTED = 0, 1
FROM_FOLLOWERS, FIRST_WHOLE, SESSIONS, EPOCHS, PARTITION_LIMITS = 11, 3, 7, 9, 2
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_ROW_V0, _ROW_V4, _ROW_V5 = struct.Struct(">ihq"), struct.Struct(">ihqq"), struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_NULL = b"\xff\xff\xff\xff"
_PADDING = struct.Struct(">qi")


class Answered(NamedTuple):
    """One partition's answer."""

    code: int = 0
    hw: int = -1
    stable: int = -1
    start: int = -1
    aborted: list[tuple[int, int]] | None = None
    data: bytes | None = b""
    preferred: int = -1
    available: int = 0  # bytes that count for min_bytes


Rows = list[tuple[str, dict[str, Any]]]


class FetchWait:
    """A fetch that waits for min_bytes or the end of its time (DelayedFetch)."""

    __slots__ = ("_aside", "_broker", "_done", "_min_bytes", "_request", "_rows")

    def __init__(self, broker: SimBroker, request: Request, rows: Rows, aside: Rows, min_bytes: int) -> None:
        self._broker = broker
        self._request = request
        self._rows = rows
        self._aside = aside
        self._min_bytes = min_bytes
        self._done = False
        for topic, row in rows:
            replica = broker.replicas.get((topic, row["partition"]))
            if replica is not None:
                replica.fetches[self] = None
        broker.after(request.body["max_wait_ms"] / 1000, self.complete)

    def look(self) -> None:
        if not self._done and self._is_due():
            self.complete()

    def _is_due(self) -> bool:
        """DF.tryComplete (3.2)."""
        broker, request = self._broker, self._request
        rules, committed = broker.rules, request.body.get("isolation_level") == READ_COMMITTED
        found = 0
        for topic, row in self._rows:
            replica = broker.replicas.get((topic, row["partition"]))
            if replica is None:
                if rules.polls_wake_on_leader_change:
                    return True
                continue
            if not replica.leads and not (request.version >= FROM_FOLLOWERS and rules.followers_serve):
                if rules.polls_wake_on_leader_change:
                    return True
                continue
            if request.version >= EPOCHS and 0 <= row["current_leader_epoch"] < replica.epoch:
                return True
            log, offset = replica.log, row["fetch_offset"]
            end = log.stable_end() if committed else log.hw
            if offset != end or not rules.poll_counts_limits:
                if not log.same_segment(offset, end):
                    return True
                if offset < end:
                    size = log.bytes_from(offset, end)
                    found += min(size, row["max_bytes"]) if rules.poll_counts_limits else size
        return found >= self._min_bytes

    def complete(self) -> None:
        """Read all partitions again and answer."""
        if self._done:
            return
        self._done = True
        broker = self._broker
        for topic, row in self._rows:
            replica = broker.replicas.get((topic, row["partition"]))
            if replica is not None:
                replica.fetches.pop(self, None)
        connection = self._request.connection
        if not connection.open or connection.gone:
            self._request.answer_bytes(b"")
            return
        answered, _, _ = read_all(broker, self._request, self._rows)
        respond(broker, self._request, self._rows, answered, self._aside)


def fetch(broker: SimBroker, request: Request) -> None:
    """The handler of Fetch."""
    body, version, rules = request.body, request.version, broker.rules
    if version >= SESSIONS and body["session_id"] != 0:
        request.answer({**_empty(), "error": NO_SESSION})
        return
    rows: Rows = []
    aside: Rows = []
    for topic in body["topics"]:
        name = topic["topic"]
        known = rules.unknown_cuts_poll or name in broker.cache.topics
        for row in topic["partitions"]:
            if known and (not rules.known_elsewhere_is_6 or broker.cache.has((name, row["partition"]))):
                rows.append((name, row))
            else:
                aside.append((name, row))
    answered, failed, available = read_all(broker, request, rows)
    min_bytes = body["min_bytes"]
    if version >= FIRST_WHOLE:
        min_bytes = min(min_bytes, body["max_bytes"])
    if body["max_wait_ms"] <= 0 or not rows or failed or available >= min_bytes:
        respond(broker, request, rows, answered, aside)
    else:
        FetchWait(broker, request, rows, aside, min_bytes)


def read_all(broker: SimBroker, request: Request, rows: Rows) -> tuple[list[Answered], bool, int]:
    """The answers of all partitions in the order of the request, whether one failed, and how many bytes there are."""
    body, version = request.body, request.version
    left = min(body["max_bytes"], broker.rules.fetch_cap_bytes) if version >= FIRST_WHOLE else 1 << 62
    whole = version >= FIRST_WHOLE  # the first partition with data gives its first batch whole
    answered, failed, available = [], False, 0
    replicas = broker.replicas
    for topic, row in rows:
        replica = replicas.get((topic, row["partition"]))
        one = _read(broker, request, replica, topic, row, left, whole)
        if one.code:
            failed = True
        if one.available:
            available += one.available
            whole = False
            left = max(0, left - one.available)
        answered.append(one)
    return answered, failed, available


def _read(
    broker: SimBroker, request: Request, replica: Replica | None, topic: str, row: dict[str, Any], left: int,
    whole: bool,
) -> Answered:  # fmt: skip
    """One partition, checked in the order of 3.1 and 2.5."""
    rules, version = broker.rules, request.version
    if replica is None:
        return Answered(broker.role_code((topic, row["partition"])))
    if version >= EPOCHS and rules.epochs_are_checked:
        epoch = row["current_leader_epoch"]
        if epoch >= 0 and epoch != replica.epoch:
            return Answered(FENCED_EPOCH if epoch < replica.epoch else UNKNOWN_EPOCH)
    if not replica.leads and not (version >= FROM_FOLLOWERS and rules.followers_serve):
        return Answered(NOT_LEADER)
    log, offset = replica.log, row["fetch_offset"]
    if not log.start <= offset <= log.end:
        return Answered(OUT_OF_RANGE)
    hw = log.hw
    if offset > hw and offset < log.end and rules.above_hw_fails:
        return Answered(-1)
    stable = log.stable_end() if version >= 4 else hw
    committed = version >= 4 and request.body["isolation_level"] == READ_COMMITTED
    until = stable if committed else hw
    if not committed and not rules.tells_stable_end:
        stable = -1
    if replica.leads and version >= FROM_FOLLOWERS and request.body["rack_id"]:
        preferred = broker.cluster.preferred(replica, request.body["rack_id"], offset)
        if preferred is not None:
            return Answered(0, hw, stable, log.start, [] if committed else None, b"", preferred)
    if offset >= until:
        return Answered(0, hw, stable, log.start, [] if committed else None)
    if row["max_bytes"] < 0:
        return Answered(-1)
    limit = min(row["max_bytes"], left)
    found = log.between(offset, until)
    code, data, available = _cut(broker, found, offset, limit, whole, version)
    if code:
        return Answered(code)
    aborted = None
    if committed:
        end = found[-1].last + 1 if found else until
        at = 0
        for entry in found:
            at += len(entry.data)
            if at >= len(data):
                end = entry.last + 1
                break
        aborted = log.aborted(offset, end) if data else []
    return Answered(0, hw, stable, log.start, aborted, data, -1, available)


def _cut(
    broker: SimBroker, found: list[Entry], offset: int, limit: int, whole: bool, version: int
) -> tuple[int, bytes, int]:
    """Code, bytes of entries up to a limit as the version wants them (3.3), and how many count for min_bytes."""
    rules = broker.rules
    if not found:
        return 0, b"", 0
    magic = 0 if version < 2 else 1 if version < 4 else 2
    first = len(found[0].data)
    if version >= FIRST_WHOLE and first > limit:
        if not whole:
            return 0, b"", 0
        limit = first
    size, taken, whole_ones = 0, [], 0
    for entry in found:
        taken.append(entry)
        size += len(entry.data)
        if size <= limit:
            whole_ones += 1
        if size >= limit:
            break
    size = min(size, limit)
    if version < 10 and any(formats.is_zstd(entry) for entry in taken):
        return formats.ZSTD_TOO_OLD, b"", 0
    if rules.message_format > magic and any(entry.magic > magic for entry in taken):
        if not broker.settings.downconverts:
            return NO_DOWNCONVERSION, b"", 0
        if not whole_ones and rules.nothing_if_cut:
            return 0, b"", 0
        if whole_ones or rules.pads_converted:
            if rules.message_format == 1:
                return 0, formats.converted_as_one(taken[:whole_ones]), size
            return 0, _converted(taken[:whole_ones], magic, offset, size, rules.pads_converted), size
    data = b"".join([entry.data for entry in taken]) if len(taken) > 1 else taken[0].data
    return 0, data[:size] if len(data) > size else data, size


def _converted(taken: list[Entry], magic: int, offset: int, size: int, pads: bool) -> bytes:
    """Entries in an older format.

    From 2.0 on the answer is as long as the stored bytes: padded with an entry of offset -1 that is larger than the
    rest; and if it begins with a control batch the next batch comes twice (LazyDownConversionRecordsSend).
    """
    pieces = [piece for entry in taken if (piece := formats.converted(entry, magic, offset))]
    if pieces and taken[0].control and pads:
        pieces.insert(0, pieces[0])
    data = b"".join(pieces)
    if pads and len(data) < size:
        rest = size - len(data) if data or not taken else len(_PADDING.pack(0, 0))
        data += (_PADDING.pack(-1, max(rest + 1, formats.OVERHEAD)) + bytes(max(0, rest - 12)))[:rest]
    return data


def _empty() -> dict[str, Any]:
    return {"throttle_time_ms": 0, "error": 0, "session_id": 0, "topics": []}


def respond(broker: SimBroker, request: Request, rows: Rows, answered: list[Answered], aside: Rows) -> None:
    """Send the answer: partitions in the order of the request, those of unknown topics last."""
    version = request.version
    size = sum(len(one.data or b"") for one in answered)
    throttle_ms = broker.cluster.quotas.fetched(request.client_id, size)
    if throttle_ms and broker.rules.throttles_after_answer:  # no topics at all; the data is asked for again (7)
        request.throttle_s = throttle_ms / 1000
        request.answer({**_empty(), "throttle_time_ms": throttle_ms})
        return
    parts: list[bytes] = []
    if version >= 1:
        parts.append(_INT32.pack(throttle_ms))
    if version >= SESSIONS:
        parts.append(b"\0\0\0\0\0\0")
    groups: list[tuple[str, list[bytes]]] = []
    for (topic, row), one in zip(rows, answered, strict=True):
        if not groups or groups[-1][0] != topic:
            groups.append((topic, []))
        if one.code == formats.ZSTD_TOO_OLD and broker.rules.null_sets:
            one = one._replace(data=None)
        _row(groups[-1][1], version, row["partition"], one)
    lists_nothing = broker.rules.unknown_lists_nothing
    for topic, row in aside:
        if not groups or groups[-1][0] != topic:
            groups.append((topic, []))
        code = UNKNOWN if not broker.cache.has((topic, row["partition"])) else NOT_LEADER
        _row(groups[-1][1], version, row["partition"], Answered(code, aborted=[] if lists_nothing else None))
    parts.append(_INT32.pack(len(groups)))
    counted = 3 if version < 11 else 4
    for topic, pieces in groups:
        name = topic.encode()
        parts.append(_INT16.pack(len(name)) + name + _INT32.pack(len(pieces) // counted))
        parts += pieces
    hold_back(request, throttle_ms, lambda: request.answer_bytes(b"".join(parts)))


def _row(parts: list[bytes], version: int, partition: int, one: Answered) -> None:
    """A partition's answer as three pieces (four from v11 on)."""
    if version < 4:
        parts.append(_ROW_V0.pack(partition, one.code, one.hw))
        parts.append(b"")
    else:
        if version < 5:
            parts.append(_ROW_V4.pack(partition, one.code, one.hw, one.stable))
        else:
            parts.append(_ROW_V5.pack(partition, one.code, one.hw, one.stable, one.start))
        if one.aborted is None:
            parts.append(_NULL)
        else:
            parts.append(_INT32.pack(len(one.aborted)) + b"".join(_ABORTED.pack(*pair) for pair in one.aborted))
        if version >= 11:
            parts.append(_INT32.pack(one.preferred))
    parts.append(_NULL if one.data is None else _INT32.pack(len(one.data)) + one.data)
