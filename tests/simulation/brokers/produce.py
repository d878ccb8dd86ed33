"""Produce: order of the checks, waits for acks -1, and the code each partition ends with (1.1, 1.2).

A code beside a base offset of 0 or more means: this leader has appended it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.simulation.brokers.entries import TRANSACTIONAL, Refused
from tests.simulation.brokers.replica import Appended, Replica, Tp
from tests.simulation.brokers.serving import Request

if TYPE_CHECKING:
    from tests.simulation.brokers.broker import SimBroker

UNKNOWN, NOT_LEADER, TIMED_OUT, INTERNAL_TOPIC, BAD_ACKS, NO_TRANSACTION = 3, 6, 7, 17, 21, 53
INTERNAL = ("__consumer_offsets", "__transaction_state")
ADMIN_CLIENT = "__admin_client"
_INT32 = struct.Struct(">i")
_ROW = (struct.Struct(">ihq"), struct.Struct(">ihqq"), struct.Struct(">ihqqq"))  # v0; v2 and its time; v5 and the start

Write = Callable[[Replica], Appended]


class Row:
    """One partition of a request.  pending: its wait is not over."""

    __slots__ = ("base", "code", "pending", "required", "start", "timestamp", "tp")

    def __init__(self, tp: Tp, code: int) -> None:
        self.tp = tp
        self.code = code
        self.base = -1
        self.required = 0
        self.timestamp = -1
        self.start = -1
        self.pending = False


def append_rows(
    broker: SimBroker, rows: Sequence[tuple[Tp, Write]], acks: int, timeout_ms: int,
    done: Callable[[list[Row]], object],
) -> None:  # fmt: skip
    """Append to partitions that this broker leads; done(rows) once all that was appended is acknowledged as wanted."""
    made: list[Row] = []
    pending = 0
    for tp, write in rows:
        row = Row(tp, broker.role_code(tp))
        made.append(row)
        if row.code:
            continue
        replica = broker.replicas[tp]
        try:
            row.base, row.required, row.timestamp = write(replica)
        except Refused as refused:
            row.code = refused.code if refused.code is not None else CLOSES
            continue
        row.start = replica.log.start
        if acks not in (0, 1) and row.base >= 0:
            code = replica.enough(row.required, acks)
            row.pending = code is None
            row.code = code if code is not None else TIMED_OUT
            pending += row.pending
    if pending:
        ProduceWait(broker, made, acks, timeout_ms, done)
    else:
        done(made)


CLOSES = 1 << 16  # the connection is closed instead of an answer


class ProduceWait:
    """A request with acks -1 that waits for its partitions (DelayedProduce).

    Each partition is settled once; the answer goes out when all are.
    """

    __slots__ = ("_acks", "_broker", "_done", "_left", "_rows")

    def __init__(
        self, broker: SimBroker, rows: list[Row], acks: int, timeout_ms: int, done: Callable[[list[Row]], object]
    ) -> None:
        self._broker = broker
        self._rows = rows
        self._acks = acks
        self._done: Callable[[list[Row]], object] | None = done
        self._left = sum(1 for row in rows if row.pending)
        for row in rows:
            if row.pending:
                broker.replicas[row.tp].produces[self] = None
        broker.after(max(0, timeout_ms) / 1000, self._complete)

    def look(self) -> None:
        if self._done is None:
            return
        replicas = self._broker.replicas
        for row in self._rows:
            if not row.pending:
                continue
            replica = replicas.get(row.tp)
            if replica is None:
                code: int | None = UNKNOWN
            elif not replica.leads:
                code = NOT_LEADER
            else:
                code = replica.enough(row.required, self._acks)
            if code is not None:
                row.code = code
                row.pending = False
                self._left -= 1
        if not self._left:
            self._complete()

    def _complete(self) -> None:
        """All are settled, or the time is over: what still waits gets 7."""
        done, self._done = self._done, None
        if done is None:
            return
        for row in self._rows:
            replica = self._broker.replicas.get(row.tp)
            if replica is not None:
                replica.produces.pop(self, None)
        done(self._rows)


def produce(broker: SimBroker, request: Request) -> None:
    """The handler of Produce."""
    body, version, rules = request.body, request.version, broker.rules
    acks = body["acks"]
    sets: dict[Tp, bytes] = {}  # a partition that is named twice: the last one wins
    size = 0
    for topic in body["topics"]:
        name = topic["topic"]
        for row in topic["partitions"]:
            data = bytes(row["message_set"])
            size += len(data)
            sets[name, row["partition"]] = data
            if version >= 3 and rules.closes_on_no_batch and not _one_batch(data):
                request.close()  # fails while it is parsed
                return
    nameless = version >= 3 and rules.transaction_needs_id and body["transactional_id"] is None
    if nameless and any(len(data) > 22 and data[16] == 2 and data[22] & TRANSACTIONAL for data in sets.values()):
        answer(broker, request, [Row(tp, NO_TRANSACTION) for tp in sets], acks, size)
        return
    refused: list[Row] = []
    writes: list[tuple[Tp, Write]] = []
    bad_acks = not rules.any_acks and acks not in (-1, 0, 1)
    for tp, data in sets.items():
        code = 0
        if rules.cache_before_log and not broker.cache.has(tp if rules.known_elsewhere_is_6 else tp[0]):
            code = UNKNOWN
        elif version >= 3 and not _one_batch(data):
            code = rules.invalid_record
        elif bad_acks:
            code = BAD_ACKS
        elif tp[0] in INTERNAL and request.client_id != ADMIN_CLIENT:
            code = INTERNAL_TOPIC
        if code:
            refused.append(Row(tp, code))
        else:
            writes.append((tp, _write(data, acks, version)))
    if sets and broker.cluster.verifies is not None and rules.verifies_transactions:
        writes, unverified = broker.cluster.verifies(broker, request, writes, sets)
        refused += [Row(tp, code) for tp, code in unverified]

    def done(rows: list[Row]) -> None:
        answer(broker, request, rows + refused, acks, size)

    append_rows(broker, writes, acks, body["timeout_ms"], done)


def _write(data: bytes, acks: int, version: int) -> Write:
    def write(replica: Replica) -> Appended:
        return replica.append(data, acks, version)

    return write


def _one_batch(data: bytes) -> bool:
    return len(data) >= 61 and data[16] == 2 and 12 + _INT32.unpack_from(data, 8)[0] == len(data)


def answer(broker: SimBroker, request: Request, rows: list[Row], acks: int, size: int) -> None:
    """Answer a Produce request; with acks 0 only a closed connection tells that a partition was refused."""
    told = broker.cluster.on_answer
    for hook in told:
        hook(broker, request, rows)
    throttle_ms = broker.cluster.quotas.produced(request.client_id, size)
    if acks == 0:
        if any(row.code for row in rows):
            request.close()
            return
        hold_back(request, throttle_ms, request.nothing)
        return
    if any(row.code == CLOSES for row in rows):
        request.close()
        return
    version = request.version
    layout = _ROW[0 if version < 2 else 1 if version < 5 else 2]
    by_topic: dict[str, list[bytes]] = {}
    for row in rows:
        code = row.code
        if version < 2:
            head = layout.pack(row.tp[1], code, row.base)
        elif version < 5:
            head = layout.pack(row.tp[1], code, row.base, row.timestamp)
        else:
            head = layout.pack(row.tp[1], code, row.base, row.timestamp, row.start)
        if version >= 8:
            head += b"\0\0\0\0\xff\xff"  # no errors of single records, no message
        by_topic.setdefault(row.tp[0], []).append(head)
    parts = [_INT32.pack(len(by_topic))]
    for name, heads in by_topic.items():
        text = name.encode()
        parts.append(len(text).to_bytes(2, "big") + text + _INT32.pack(len(heads)))
        parts += heads
    if version >= 1:
        parts.append(_INT32.pack(throttle_ms))
    hold_back(request, throttle_ms, lambda: request.answer_bytes(b"".join(parts)))


def hold_back(request: Request, throttle_ms: int, send: Callable[[], object]) -> None:
    """Send an answer as quotas want it (7): held back for that time, or at once and then nothing is read."""
    if throttle_ms and not request.broker.rules.throttles_after_answer:
        request.broker.after(throttle_ms / 1000, send)
        return
    request.throttle_s = throttle_ms / 1000
    send()
