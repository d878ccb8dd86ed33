"""Transactional ids at their coordinator: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, markers.

Every change is one record in __transaction_state, written before it holds; while it is written the id has a pending
state, and most requests get 51.  broker-model-coordinators.md 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.coordinators.host import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Host
from tests.simulation.coordinators.records import TopicPartition, TransactionRecord, encode, transaction_pair
from tests.simulation.coordinators.records import transaction_record as read_record
from tests.simulation.coordinators.rules import DAY_S, Codes
from tests.simulation.coordinators.shards import LOAD_BYTES_S, partition_of

NO_EPOCH = -1
LAST_EPOCH = 32766
MAX_TIMEOUT_MS = 15 * 60 * 1000
MARKER_S = 30.0  # request.timeout.ms of WriteTxnMarkers
AGAIN_S = 0.1
ENDED = ("CompleteCommit", "CompleteAbort")
ENDING = ("PrepareCommit", "PrepareAbort")
FENCE = "PrepareEpochFence"
_RETRIED = (3, 6, 7, 19, 20, 56)
_DROPPED = (35, 43)

Fields = dict[str, Any]
Done = Callable[[int], object]


class Transit(NamedTuple):
    """What an id becomes once this is written."""

    state: str
    producer_id: int
    epoch: int
    last_epoch: int
    timeout_ms: int
    partitions: dict[TopicPartition, None]
    started_ms: int
    updated_ms: int


class Transaction:
    """A transactional id.  pending: the state that is being written; failed_fence: its epoch was raised for an abort
    that could not be written."""

    __slots__ = (
        "epoch", "failed_fence", "id", "last_epoch", "last_producer_id", "partitions", "pending", "producer_id",
        "started_ms", "state", "timeout_ms", "updated_ms",
    )  # fmt: skip

    def __init__(self, id: str, producer_id: int, timeout_ms: int, now_ms: int) -> None:
        self.id = id
        self.producer_id = producer_id
        self.last_producer_id = -1
        self.epoch = self.last_epoch = NO_EPOCH
        self.timeout_ms = timeout_ms
        self.state = "Empty"
        self.partitions: dict[TopicPartition, None] = {}
        self.started_ms = -1
        self.updated_ms = now_ms
        self.pending: str | None = None
        self.failed_fence = False

    def become(self, state: str, now_ms: int, **changed: Any) -> Transit:
        self.pending = state
        transit = Transit(
            state, self.producer_id, self.epoch, self.last_epoch, self.timeout_ms, self.partitions, self.started_ms,
            now_ms,
        )  # fmt: skip
        return transit._replace(**changed)

    def apply(self, transit: Transit) -> None:
        if transit.producer_id != self.producer_id:
            self.last_producer_id = self.producer_id
        self.state, self.producer_id, self.epoch, self.last_epoch = transit[:4]
        self.timeout_ms, self.partitions, self.started_ms, self.updated_ms = transit[4:]
        self.pending = None


class Shard:
    """One partition of __transaction_state; epoch: of its leader, the coordinator's."""

    __slots__ = ("epoch", "ids", "number", "owned")

    def __init__(self, number: int, epoch: int) -> None:
        self.number = number
        self.epoch = epoch
        self.owned = False
        self.ids: dict[str, Transaction] = {}


class Markers:
    """The markers of one transaction that are still to be written."""

    __slots__ = ("committed", "epoch", "left", "producer_id", "shard", "transaction", "transit", "tries")

    def __init__(self, shard: Shard, transaction: Transaction, committed: bool, transit: Transit) -> None:
        self.shard = shard
        self.transaction = transaction
        self.committed = committed
        self.transit = transit
        self.producer_id = transaction.producer_id
        self.epoch = transaction.epoch
        self.left = dict.fromkeys(transaction.partitions, 0)
        self.tries = 0


class Transactions:
    """next_id: a producer id that was never given.  write_marker: asks a broker to append a marker; done(code), -1: it
    could not be reached."""

    def __init__(
        self,
        host: Host,
        next_id: Callable[[], int],
        write_marker: Callable[[int, TopicPartition, Markers, Done], object],
    ) -> None:
        self.host = host
        self.rules = host.rules
        self.shards: dict[int, Shard] = {}
        self._next_id = next_id
        self._write_marker = write_marker
        self._count = host.registered_partitions(TRANSACTIONS_TOPIC)
        self.max_timeout_ms = host.setting("transaction.max.timeout.ms", MAX_TIMEOUT_MS)
        self.expiry_ms = host.setting("transactional.id.expiration.ms", 7 * DAY_S * 1000)
        if self.rules.has_transactions:
            names = (
                (
                    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
                    self.rules.timeout_check_s * 1000,
                    self._abort_timed_out,
                ),
                ("transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000.0, self._expire),
            )
            for name, default, check in names:
                self._every(host.setting(name, default) / 1000, check)

    def _every(self, seconds: float, check: Callable[[], object]) -> None:
        def again() -> None:
            check()
            self.host.after(seconds, again)

        self.host.after(seconds, again)

    # who coordinates -----------------------------------------------------------------------------------------------

    def number(self, name: str) -> int:
        if self._count is None:
            self._count = int(self.host.setting("transaction.state.log.num.partitions", 50))
        return partition_of(name, self._count)

    def elected(self, number: int, epoch: int) -> None:
        held = self.shards.get(number)
        if held is not None and held.epoch >= epoch:
            return
        shard = self.shards[number] = Shard(number, epoch)
        found: dict[str, TransactionRecord] = {}
        size = 0
        for bytes, batch in self.host.read((TRANSACTIONS_TOPIC, number)):
            size += bytes
            for _, key, value in batch.records:
                name, record = read_record(key, value)
                found.pop(name, None)
                if record is not None:
                    found[name] = record
        seconds = self.host.hand.load_s + 0.002 + 0.01 * self.host.rng.random()
        self.host.after(seconds + size / LOAD_BYTES_S, self._loaded, shard, found)

    def _loaded(self, shard: Shard, found: dict[str, TransactionRecord]) -> None:
        if self.shards.get(shard.number) is not shard:
            return
        shard.owned = True
        for name, record in found.items():
            held = Transaction(name, record.producer_id, record.timeout_ms, record.updated_ms)
            held.epoch, held.state, held.started_ms = record.epoch, record.state, record.started_ms
            held.partitions = dict.fromkeys(record.partitions)
            shard.ids[name] = held
            if held.state in ENDING:
                self._complete(shard, held)

    def resigned(self, number: int, epoch: int) -> None:
        held = self.shards.get(number)
        if held is not None and held.epoch <= epoch:
            del self.shards[number]

    def _find(self, name: str) -> tuple[int, Shard | None, Transaction | None]:
        shard = self.shards.get(self.number(name))
        if shard is None:
            return Codes.NOT_COORDINATOR, None, None
        if not shard.owned:
            return Codes.LOADING, None, None
        return 0, shard, shard.ids.get(name)

    def _owns(self, shard: Shard) -> bool:
        return self.shards.get(shard.number) is shard

    # the log -------------------------------------------------------------------------------------------------------

    def _write(self, shard: Shard, held: Transaction, transit: Transit, done: Done, retried: int | None = None) -> None:
        """Write what the id becomes, bounded by its own timeout; retried: the code after which its pending state stays.

        A failure leaves the state in memory as it was, though the record may be in the log (4.1).
        """
        record = TransactionRecord(
            held.id, transit.producer_id, transit.epoch, transit.timeout_ms, transit.state, tuple(transit.partitions),
            transit.updated_ms, transit.started_ms,
        )  # fmt: skip
        data = encode(2, [transaction_pair(record)], self.host.now_ms)

        def appended(code: int, base: int) -> None:
            if not self._owns(shard):
                done(Codes.NOT_COORDINATOR)
                return
            code = _code_of_write(code)
            if not code:
                held.apply(transit)
            elif code != retried:
                held.pending = None
            done(code)

        self.host.append((TRANSACTIONS_TOPIC, shard.number), data, -1, max(transit.timeout_ms, 1) / 1000, appended)

    # InitProducerId ------------------------------------------------------------------------------------------------

    def initialize(self, request: Any) -> None:
        body, version = request.body, request.version
        name: str | None = body["transactional_id"]
        timeout_ms: int = body["transaction_timeout_ms"]

        def refuse(code: int) -> None:
            if code == Codes.PRODUCER_FENCED and version < 4:
                code = Codes.INVALID_EPOCH
            request.answer(_producer(code, -1, -1))

        if name is None:
            request.answer(_producer(0, self._next_id(), 0))
            return
        if not name:
            refuse(Codes.INVALID_REQUEST)
            return
        if not 0 < timeout_ms <= self.max_timeout_ms:
            refuse(Codes.INVALID_TXN_TIMEOUT)
            return
        code, shard, held = self._find(name)
        if shard is None:
            refuse(code)
            return
        if held is None:
            held = shard.ids[name] = Transaction(name, self._next_id(), timeout_ms, self.host.now_ms)
        code, transit = self._initialized(held, timeout_ms, body.get("producer_id", -1), body.get("producer_epoch", -1))
        if transit is None:
            refuse(code)
        elif transit.state == FENCE:
            self._end(
                name, transit.producer_id, transit.epoch, False,
                lambda code: refuse(code or Codes.CONCURRENT), from_client=False,
            )  # fmt: skip
        else:
            initialized = transit
            self._write(
                shard, held, initialized,
                lambda code: refuse(code) if code
                else request.answer(_producer(0, initialized.producer_id, initialized.epoch)),
            )  # fmt: skip

    def _initialized(
        self, held: Transaction, timeout_ms: int, producer_id: int, epoch: int
    ) -> tuple[int, Transit | None]:
        """The code that refuses a producer, or what the id becomes (TC.prepareInitProducerIdTransit)."""
        if held.pending is not None:
            return Codes.CONCURRENT, None
        named = producer_id >= 0
        ours = held.epoch == NO_EPOCH or producer_id == held.producer_id
        if named and not ours and not (producer_id == held.last_producer_id and epoch >= LAST_EPOCH):
            return Codes.PRODUCER_FENCED, None
        if held.state in ENDING:
            return Codes.CONCURRENT, None
        now_ms = self.host.now_ms
        if held.state == "Ongoing":
            return 0, self._fence(held)
        fresh = {"timeout_ms": timeout_ms, "partitions": {}, "started_ms": -1}
        if held.epoch >= LAST_EPOCH and (not named or epoch == held.epoch):
            last = held.epoch if named else NO_EPOCH
            return 0, held.become("Empty", now_ms, producer_id=self._next_id(), epoch=0, last_epoch=last, **fresh)
        raised = held.epoch if held.failed_fence else held.epoch + 1
        if not named:
            return 0, held.become("Empty", now_ms, epoch=raised, last_epoch=NO_EPOCH, **fresh)
        if epoch == held.epoch or held.epoch == NO_EPOCH:
            return 0, held.become("Empty", now_ms, epoch=raised, last_epoch=held.epoch, **fresh)
        if epoch == held.last_epoch:  # a retry: the answer was lost
            return 0, held.become("Empty", now_ms, **fresh)
        return Codes.PRODUCER_FENCED, None

    def _fence(self, held: Transaction) -> Transit:
        """Raise the epoch of an open transaction, to abort it (TM.prepareFenceProducerEpoch)."""
        epoch = held.epoch if held.failed_fence else held.epoch + 1
        return held.become(FENCE, held.updated_ms, epoch=epoch, last_epoch=NO_EPOCH)

    # AddPartitionsToTxn, AddOffsetsToTxn ---------------------------------------------------------------------------

    def add_partitions(self, request: Any) -> None:
        body = request.body
        asked = [(topic["topic"], number) for topic in body["topics"] for number in topic["partitions"]]
        unknown = [tp for tp in asked if not self._knows(tp)]
        if unknown:
            request.answer(_each(asked, lambda tp: Codes.UNKNOWN_TOPIC if tp in unknown else Codes.NOT_ATTEMPTED))
            return
        self._add(request, asked, lambda code: request.answer(_each(asked, lambda tp: code)))

    def _knows(self, tp: TopicPartition) -> bool:
        count = self.host.partitions(tp[0])
        return count is not None and tp[1] < count

    def add_offsets(self, request: Any) -> None:
        count = self.host.partitions(OFFSETS_TOPIC)
        if count is None:
            count = int(self.host.setting("offsets.topic.num.partitions", 50))
        tp = (OFFSETS_TOPIC, partition_of(request.body["group"], count))
        self._add(request, [tp], lambda code: request.answer({"throttle_time_ms": 0, "error": code}))

    def _add(self, request: Any, asked: list[TopicPartition], done: Done) -> None:
        body = request.body

        def answer(code: int) -> None:
            done(self._fenced(code, request.version))

        if not body["transactional_id"]:
            answer(Codes.INVALID_REQUEST)
            return
        code, shard, held = self._find(body["transactional_id"])
        if shard is None or held is None:
            answer(code or Codes.UNKNOWN_PRODUCER)
            return
        code = self._stranger(held, body["producer_id"], body["producer_epoch"])
        if not code and (held.pending is not None or held.state in ENDING):
            code = Codes.CONCURRENT
        if code or (held.state == "Ongoing" and all(tp in held.partitions for tp in asked)):
            answer(code)
            return
        now_ms = self.host.now_ms
        started_ms = held.started_ms if held.state == "Ongoing" else now_ms
        partitions = held.partitions | dict.fromkeys(asked)
        self._write(shard, held, held.become("Ongoing", now_ms, partitions=partitions, started_ms=started_ms), answer)

    @staticmethod
    def _stranger(held: Transaction, producer_id: int, epoch: int) -> int:
        if held.producer_id != producer_id:
            return Codes.UNKNOWN_PRODUCER
        return 0 if held.epoch == epoch else Codes.PRODUCER_FENCED

    def _fenced(self, code: int, version: int) -> int:
        """90 is told from 2.7 on, to versions that know it; else 47 (4.2)."""
        if code == Codes.PRODUCER_FENCED and version < self.rules.fenced_since_version:
            return Codes.INVALID_EPOCH
        return code

    def verify(self, name: str, producer_id: int, epoch: int, tp: TopicPartition) -> int:
        """Whether a partition is in the open transaction of an id: 0, or why not (4.6)."""
        code, _, held = self._find(name)
        if code or held is None:
            return code or Codes.UNKNOWN_PRODUCER
        code = self._stranger(held, producer_id, epoch)
        if not code and held.state in ENDING:
            code = Codes.CONCURRENT
        return code or (0 if tp in held.partitions else Codes.INVALID_TXN_STATE)

    # EndTxn --------------------------------------------------------------------------------------------------------

    def end(self, request: Any) -> None:
        body = request.body

        def answer(code: int) -> None:
            request.answer({"throttle_time_ms": 0, "error": self._fenced(code, request.version)})

        if not body["transactional_id"]:
            answer(Codes.INVALID_REQUEST)
        else:
            self._end(body["transactional_id"], body["producer_id"], body["producer_epoch"], body["commit"], answer)

    def _end(
        self, name: str, producer_id: int, epoch: int, committed: bool, done: Done, *, from_client: bool = True
    ) -> None:
        """End a transaction: 0 once that is written, before any marker (4.3)."""
        code, shard, held = self._find(name)
        if shard is None or held is None:
            done(code or Codes.UNKNOWN_PRODUCER)
            return
        exact = from_client and not self.rules.higher_epoch_ends
        if held.producer_id != producer_id:
            code = Codes.UNKNOWN_PRODUCER
        elif epoch < held.epoch or (exact and epoch != held.epoch):
            code = Codes.PRODUCER_FENCED
        elif held.pending is not None and held.pending != FENCE:
            code = Codes.CONCURRENT
        elif held.state != "Ongoing":
            code = self._again(held.state, committed)
            if not code:
                done(0)
                return
        if code:
            done(code)
            return
        fence = held.pending == FENCE and not committed
        if fence:
            held.pending = None
            held.epoch, held.last_epoch = epoch, NO_EPOCH
        transit = held.become("PrepareCommit" if committed else "PrepareAbort", self.host.now_ms)
        owner, ending = shard, held

        def written(code: int) -> None:
            if code:
                ending.failed_fence = ending.failed_fence or fence
                done(code)
                return
            ending.failed_fence = False
            self._complete(owner, ending)
            done(0)

        self._write(shard, held, transit, written)

    @staticmethod
    def _again(state: str, committed: bool) -> int:
        """The answer to an EndTxn where no transaction is open (4.3)."""
        if state == ("CompleteCommit" if committed else "CompleteAbort"):
            return 0
        if state == ("PrepareCommit" if committed else "PrepareAbort"):
            return Codes.CONCURRENT
        return Codes.INVALID_TXN_STATE

    # markers -------------------------------------------------------------------------------------------------------

    def _complete(self, shard: Shard, held: Transaction) -> None:
        """Write the markers of a transaction that is ended, then that all of them are there."""
        committed = held.state == "PrepareCommit"
        transit = held.become(
            "CompleteCommit" if committed else "CompleteAbort", self.host.now_ms, partitions={}, started_ms=-1
        )
        markers = Markers(shard, held, committed, transit)
        for tp in list(markers.left):
            self._mark(markers, tp)
        self._all_marked(markers)

    def _mark(self, markers: Markers, tp: TopicPartition) -> None:
        if not self._owns(markers.shard) or tp not in markers.left:
            return
        if not self._knows(tp):  # deleted
            self._marked(markers, tp, _DROPPED[0])
            return
        leader = self.host.leader(tp)
        if leader is None:
            self.host.after(AGAIN_S, self._mark, markers, tp)
            return
        markers.tries += 1
        number = markers.left[tp] = markers.tries
        self._write_marker(leader, tp, markers, lambda code: self._marked(markers, tp, code, number))
        self.host.after(MARKER_S, self._unanswered, markers, tp, number)

    def _unanswered(self, markers: Markers, tp: TopicPartition, number: int) -> None:
        if markers.left.get(tp) == number:
            self._mark(markers, tp)

    def _marked(self, markers: Markers, tp: TopicPartition, code: int, number: int | None = None) -> None:
        if not self._owns(markers.shard) or (number is not None and markers.left.get(tp) != number):
            return
        if not code or code in _DROPPED:
            markers.left.pop(tp, None)
            self._all_marked(markers)
        elif code == -1 or code in _RETRIED:
            self.host.after(AGAIN_S, self._mark, markers, tp)
        # else 47, 52: nobody sends it any more, and the id answers 51 until its coordinator moves (4.5)

    def _all_marked(self, markers: Markers) -> None:
        if markers.left or not self._owns(markers.shard):
            return

        def written(code: int) -> None:
            if code == Codes.NOT_AVAILABLE:
                self.host.after(AGAIN_S, self._all_marked, markers)

        self._write(markers.shard, markers.transaction, markers.transit, written, retried=Codes.NOT_AVAILABLE)

    # timers --------------------------------------------------------------------------------------------------------

    def _abort_timed_out(self) -> None:
        """Start and timeout are in the log, and a failover does not reset them (4.4)."""
        now_ms = self.host.now_ms
        for shard in list(self.shards.values()):
            for held in list(shard.ids.values()):
                if held.state == "Ongoing" and held.pending is None and held.started_ms + held.timeout_ms < now_ms:
                    fence = self._fence(held)
                    self._end(held.id, fence.producer_id, fence.epoch, False, lambda code: None, from_client=False)

    def _expire(self) -> None:
        """Forget ids that have not changed for seven days; they answer 49 (4.4)."""
        now_ms = self.host.now_ms
        for shard in list(self.shards.values()):
            if shard.owned:
                for held in list(shard.ids.values()):
                    idle = held.pending is None and (held.state == "Empty" or held.state in ENDED)
                    if idle and held.updated_ms + self.expiry_ms <= now_ms:
                        self._remove(shard, held)

    def _remove(self, shard: Shard, held: Transaction) -> None:
        held.pending = "Dead"
        key, _ = transaction_pair(
            TransactionRecord(held.id, held.producer_id, held.epoch, held.timeout_ms, "Empty", (), -1, -1)
        )

        def appended(code: int, base: int) -> None:
            held.pending = None
            if not code and self._owns(shard):
                shard.ids.pop(held.id, None)

        data = encode(2, [(key, None)], self.host.now_ms)
        self.host.append((TRANSACTIONS_TOPIC, shard.number), data, -1, MARKER_S, appended)


def _code_of_write(code: int) -> int:
    """broker-model-coordinators.md 4.1."""
    if code in (3, 7, 19, 20):
        return Codes.NOT_AVAILABLE
    if code in (6, 56):
        return Codes.NOT_COORDINATOR
    return -1 if code else 0


def _producer(code: int, producer_id: int, epoch: int) -> Fields:
    return {"throttle_time_ms": 0, "error": code, "producer_id": producer_id, "producer_epoch": epoch}


def _each(asked: list[TopicPartition], code: Callable[[TopicPartition], int]) -> Fields:
    topics: dict[str, list[Fields]] = {}
    for topic, partition in asked:
        topics.setdefault(topic, []).append({"partition": partition, "error": code((topic, partition))})
    return {"throttle_time_ms": 0, "topics": [{"topic": name, "partitions": rows} for name, rows in topics.items()]}
