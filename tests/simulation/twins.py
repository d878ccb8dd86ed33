"""Facts that are asked of a real and of a simulated broker and have to be equal: formats, errors, transactions.

    formats        sets of every format, produced in every version that the release has, and read back by every
                   version of Fetch and ListOffsets: codes, offsets, bytes, messages
    errors         what is refused, and limits over several partitions
    settings       topics with append time, compaction, a limit of time
    producers      sequences of idempotent producers, deleted records
    transactions   three transactions beside other messages, read after each step

cluster: tests.simulation.sequences.cluster.Cluster, with one broker and message.max.bytes=2000.  No expectations are
written here: the real broker is right.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any

from kafkawire.protocol import apis, groupapis, transactionapis
from kafkawire.protocol.api import Api
from tests.fakes.entries import entry, gzipped
from tests.kafkawire.recordbatches import CONTROL, TRANSACTIONAL, batch, rows_of, sealed
from tests.simulation.asking import Tp, fetch_fields, produce_fields, values_of
from tests.simulation.brokers.entries import stored
from tests.simulation.brokers.releases import Rules
from tests.simulation.brokers.topics import DELETE_RECORDS
from tests.simulation.sequences.cluster import Cluster, Gone
from tests.simulation.sequences.sequence import until

SETTINGS = {"message.max.bytes": "2000", "log.cleaner.enable": "false", "transaction.state.log.num.partitions": "1"}
WITHOUT_OLD = (4,)  # releases without Produce below v3 and Fetch below v4
Facts = dict[str, Any]


class Asker:
    """Requests to the one broker of a cluster, each on a connection of its own."""

    def __init__(self, cluster: Cluster, now_ms: int) -> None:
        """now_ms: the time of messages.  It has to be the same for both clusters: compressed sizes depend on it."""
        self.cluster = cluster
        self.rules = Rules(cluster.release)
        self.old = int(cluster.release.split(".")[0]) < WITHOUT_OLD[0]
        self.now_ms = now_ms

    def versions(self, api: Api) -> range:
        lowest = 0 if self.old else {apis.PRODUCE.key: 3, apis.FETCH.key: 4, apis.LIST_OFFSETS.key: 1}.get(api.key, 0)
        return range(lowest, min(self.rules.highest.get(api.key, -1), api.newest) + 1)

    def ask(self, api: Api, version: int, fields: Mapping[str, Any]) -> Any:
        connection = self.cluster.connect(self.cluster.brokers[0])
        try:
            return connection.begin(api, version, fields).answer(10)
        finally:
            connection.close()

    def produce(self, tp: Tp, data: bytes, version: int, acks: int = 1, name: str | None = None) -> Any:
        fields = produce_fields(data, acks, version, tp, 1000)
        told = self.ask(apis.PRODUCE, version, fields | ({"transactional_id": name} if version >= 3 else {}))
        if isinstance(told, Gone):
            return told
        row = told["topics"][0]["partitions"][0]
        return row["error"], row["base_offset"], row.get("timestamp", -1) > 0, row.get("log_start_offset")

    def fetch(self, tps: list[tuple[Tp, int]], version: int, max_bytes: int = 1 << 20, **more: Any) -> Any:
        total = more.pop("total", None)
        fields = fetch_fields(version, tps, 0, max_bytes, **more)
        told = self.ask(apis.FETCH, version, fields | ({} if total is None else {"max_bytes": total}))
        if isinstance(told, Gone):
            return told
        rows = [
            (topic["topic"], row["partition"], row["error"], row["high_watermark"], row.get("last_stable_offset"),
             row.get("log_start_offset"), len(row.get("aborted") or ()), row.get("aborted") is None,
             len(row["message_set"] or b""), row["message_set"] is None, values_of(row["message_set"] or b""))
            for topic in told["topics"]
            for row in topic["partitions"]
        ]  # fmt: skip
        return rows if version >= 3 else sorted(rows, key=str)  # before, any order

    def walk(self, tp: Tp, version: int, max_bytes: int, **more: Any) -> list[Any]:
        """Answers of one fetch after the other, up to the end."""
        found: list[Any] = []
        at = 0
        while len(found) < 60:
            fields = fetch_fields(version, [(tp, at)], 0, max_bytes, **more)
            told = self.ask(apis.FETCH, version, fields)
            if isinstance(told, Gone):
                return [*found, told]
            row = told["topics"][0]["partitions"][0]
            data = bytes(row["message_set"] or b"")
            found.append((at, row["error"], row["high_watermark"], row.get("aborted"), len(data), values_of(data)))
            entries = stored(data)
            following = entries[-1].last + 1 if entries else at + 1  # a message that is larger than the fetch
            if not data or following <= at:
                following = at + 1
            at = following
            if at >= row["high_watermark"]:
                break
        return found


def _v1(value: bytes, at_ms: int, attributes: int = 0, offset: int = 0) -> bytes:
    body = struct.pack(">bbqii", 1, attributes, at_ms, -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def _gzipped_v1(*entries: bytes, at_ms: int) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return _v1(packer.compress(b"".join(entries)) + packer.flush(), at_ms, 1, len(entries) - 1)


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _batch(at_ms: int, count: int, attributes: int = 0, value: bytes = b"value", **more: Any) -> bytes:
    rows = [row._replace(timestamp_ms=at_ms + n) for n, row in enumerate(rows_of(0, count, value))]
    return batch(rows, attributes, **{"producer": -1, **more})


def _sets(at_ms: int) -> dict[str, tuple[int, bytes]]:
    """Version of Produce and set by name."""
    one = entry(b"a")
    return {
        "plain": (0, one + entry(b"b", b"k")),
        "null": (0, entry(None, b"k")),
        "wrapper": (0, gzipped(*(entry(b"g%d" % n, offset=n) for n in range(3)))),
        "two wrappers": (0, gzipped(one, entry(b"b", offset=1)) + gzipped(entry(b"c"))),
        "wrapper among plain": (0, entry(b"p") + gzipped(entry(b"q")) + entry(b"r")),
        "nested": (0, gzipped(gzipped(entry(b"n")))),
        "empty wrapper": (0, gzipped()),
        "damaged": (0, one + _flipped(entry(b"bbbb"), 28)),
        "damaged inside": (0, gzipped(one, _flipped(entry(b"bbbb", offset=1), 28))),
        "cut": (0, one + entry(b"cccc")[:20]),
        "empty": (0, b""),
        "only cut": (0, entry(b"cccc")[:20]),
        "size 5": (0, struct.pack(">qi", 0, 5) + bytes(20)),
        "does not open": (0, entry(b"garbage", codec=1)),
        "codec 7": (0, entry(b"garbage", codec=7)),
        "too large": (0, one + entry(bytes(3000))),
        "v1": (2, _v1(b"one", at_ms) + _v1(b"two", at_ms + 5)),
        "v1 without time": (2, _v1(b"one", -1)),
        "v1 wrapper": (2, _gzipped_v1(_v1(b"x", at_ms), _v1(b"y", at_ms + 9, offset=1), at_ms=at_ms)),
        "v1 wrapper from 5": (
            2, _gzipped_v1(_v1(b"x", at_ms, offset=5), _v1(b"y", at_ms + 9, offset=6), at_ms=at_ms)
        ),
        "v1 with append time": (2, _v1(b"one", at_ms, 8)),
        "v0 and v1": (2, one + _v1(b"b", at_ms)),
        "v1 in v0": (0, _v1(b"poison", at_ms)),
        "v1 wrapper in v0": (0, _gzipped_v1(_v1(b"poison", at_ms), at_ms=at_ms)),
        "batch": (3, _batch(at_ms, 3)),
        "batch, gzip": (3, _batch(at_ms, 3, 1)),
        "two batches": (3, _batch(at_ms, 1) * 2),
        "no batch": (3, b""),
        "batch from 5": (3, struct.pack(">q", 5) + _batch(at_ms, 2)[8:]),
        "batch that tells more": (3, _batch(at_ms, 2, last=4)),
        "batch, damaged": (3, _flipped(_batch(at_ms, 2), 70)),
        "batch with append time": (3, _batch(at_ms, 2, 8)),
        "batch, control": (3, _batch(at_ms, 1, CONTROL | TRANSACTIONAL, producer=9)),
        "batch, transactional": (3, _batch(at_ms, 1, TRANSACTIONAL)),
        "batch, cut": (3, _batch(at_ms, 2)[:-3]),
        "batch with more behind": (3, _batch(at_ms, 2, tail=b"xx")),
        "batch without records": (3, batch([], base=0, last=0, producer=-1)),
        "v0 in v3": (3, one),
        "batch, too large": (3, _batch(at_ms, 1, value=bytes(3000))),
        "batch in v2": (2, _batch(at_ms, 2)),
        "batch of a producer": (3, _batch(at_ms, 2, producer=7)),
        "the same again": (3, _batch(at_ms, 2, producer=7)),
        "behind it": (3, _batch(at_ms, 2)),
    }  # fmt: skip


def formats(cluster: Cluster, now_ms: int) -> Facts:
    asker, found = Asker(cluster, now_ms), {}
    cluster.create_topic("formats")
    tp = ("formats", 0)
    for name, (version, data) in _sets(asker.now_ms).items():
        if version in asker.versions(apis.PRODUCE):
            found[name] = asker.produce(tp, data, version)
    for version in asker.versions(apis.FETCH):
        for max_bytes in (1 << 20, 300, 100):
            for isolation in (0, 1) if version >= 4 else (0,):
                more = {"isolation_level": isolation}
                found[f"Fetch v{version} {max_bytes} {isolation}"] = asker.walk(tp, version, max_bytes, **more)
    for version in asker.versions(apis.LIST_OFFSETS):
        for when in (-1, -2, asker.now_ms + 4):
            if version or when < 0:
                found[f"ListOffsets v{version} {min(when, 0)}"] = _listed(asker, tp, version, when)
    return found


def _listed(asker: Asker, tp: Tp, version: int, when: int) -> Any:
    row: dict[str, Any] = {"partition": tp[1]}
    row |= {"timestamp": when} if version else {"time": when, "max_offsets": 5}
    row |= {"current_leader_epoch": -1} if version >= 4 else {}
    fields = {"replica_id": -1, "topics": [{"topic": tp[0], "partitions": [row]}]}
    told = asker.ask(apis.LIST_OFFSETS, version, fields | ({"isolation_level": 0} if version >= 2 else {}))
    if isinstance(told, Gone):
        return told
    told = told["topics"][0]["partitions"][0]
    stamp = told.get("timestamp", -1)
    return told["error"], told.get("offsets"), told.get("offset"), stamp - asker.now_ms if stamp >= 0 else stamp


def errors(cluster: Cluster, now_ms: int) -> Facts:
    asker, found = Asker(cluster, now_ms), {}
    cluster.create_topic("errors", [list(cluster.brokers[:1])] * 3)
    newest = min(asker.versions(apis.PRODUCE)[-1], 3)

    def some(count: int, value: bytes = b"value") -> bytes:
        if newest == 3:
            return _batch(asker.now_ms, count, value=value)
        return b"".join(entry(value, b"k%d" % n) for n in range(count))

    for tp in (("nowhere", 0), ("errors", 99)):
        found[f"Produce to {tp}"] = asker.produce(tp, some(1), newest)
    for acks in (2, 5, -1):
        found[f"Produce, acks {acks}"] = asker.produce(("errors", 0), some(1), newest, acks)
    for version in asker.versions(apis.PRODUCE):
        data = _batch(asker.now_ms, 1) if version >= 3 else entry(b"x")
        found[f"Produce v{version}"] = asker.produce(("errors", 0), data, version)
    for partition in range(3):
        found[f"Produce to {partition}"] = asker.produce(("errors", partition), some(3, bytes(200)), newest)
    everything = [(("errors", n), 0) for n in (2, 0, 1)]
    strange = [(("errors", 0), 99), (("errors", 7), 0), (("nowhere", 0), 0), (("errors", 1), -1)]
    for version in asker.versions(apis.FETCH):
        found[f"Fetch v{version}"] = asker.fetch(everything, version)
        found[f"Fetch v{version}, 400 each"] = asker.fetch(everything, version, 400)
        found[f"Fetch v{version}, strange"] = asker.fetch(strange, version)
        found[f"Fetch v{version}, negative"] = asker.fetch([(("errors", 1), 0)], version, -5)
        if version >= 3:
            for total in (900, 10):
                found[f"Fetch v{version}, {total} in all"] = asker.fetch(everything, version, total=total)
    for version in asker.versions(apis.LIST_OFFSETS):
        for tp in (("nowhere", 0), ("errors", 9)):
            found[f"ListOffsets v{version} of {tp}"] = _listed(asker, tp, version, -1)
    return found


def settings(cluster: Cluster, now_ms: int) -> Facts:
    """Topics with append time, with compaction, and with a limit of time."""
    asker, found = Asker(cluster, now_ms), {}
    newest = asker.versions(apis.PRODUCE)[-1]

    def keyed(keys: list[bytes | None]) -> bytes:
        if newest < 3:
            return b"".join(entry(b"x", key) for key in keys)
        rows = [
            row._replace(timestamp_ms=now_ms, key=key) for row, key in zip(rows_of(0, len(keys)), keys, strict=True)
        ]
        return batch(rows, producer=-1)

    if asker.rules.refuses_keyless:
        cluster.create_topic("compacted", config={"cleanup.policy": "compact"})
        for name, keys in {
            "without key": [None],
            "empty key": [b""],
            "one without": [b"k", None],
            "keys": [b"k"],
        }.items():
            found[name] = asker.produce(("compacted", 0), keyed(keys), min(newest, 3))
        if asker.old:
            found["wrapper without key"] = asker.produce(("compacted", 0), gzipped(entry(b"x")), 0)
    if asker.rules.message_format:
        cluster.create_topic("appended", config={"message.timestamp.type": "LogAppendTime"})
        tp = ("appended", 0)
        for version in asker.versions(apis.PRODUCE):
            old = entry(b"x") + entry(b"y") if version < 2 else _v1(b"x", now_ms) + _v1(b"y", now_ms)
            found[f"appended by v{version}"] = asker.produce(tp, old if version < 3 else _batch(now_ms, 2), version)
        for version in asker.versions(apis.FETCH):
            told = asker.ask(apis.FETCH, version, fetch_fields(version, [(tp, 0)]))
            data = bytes(told["topics"][0]["partitions"][0]["message_set"])
            found[f"appended, Fetch v{version}"] = [
                (one.base, one.last, one.magic, one.attributes, one.timestamp > 0, len(one.data))
                for one in stored(data)
            ]
        name = "message.timestamp.difference.max.ms" if asker.old else "message.timestamp.before.max.ms"
        cluster.create_topic("timely", config={name: "1000"})
        for age_ms in (10 * 365 * 86_400_000, -1):
            at_ms = now_ms - age_ms if age_ms > 0 else -1
            data = _v1(b"x", at_ms) if newest < 3 else _batch(at_ms, 1)
            found[f"older by {age_ms}"] = asker.produce(("timely", 0), data, min(newest, 3))
    return found


def _numbered(at_ms: int, producer: tuple[int, int, int], count: int, attributes: int = 0) -> bytes:
    """A batch of a producer: its id, epoch and the first sequence."""
    checked = bytearray(_batch(at_ms, count, attributes)[21:])
    struct.pack_into(">qhi", checked, 22, *producer)
    return sealed(0, bytes(checked))


def producers(cluster: Cluster, now_ms: int) -> Facts:
    """From 0.11 on."""
    asker, found = Asker(cluster, now_ms), {}
    cluster.create_topic("producers")
    tp = ("producers", 0)

    def send(id: int, epoch: int, sequence: int, count: int = 1) -> None:
        data = _numbered(asker.now_ms, (id, epoch, sequence), count)
        found[f"{len(found)}: {id} {epoch} {sequence} {count}"] = asker.produce(tp, data, 3)

    for sequence in (*range(8), 7, 2, 4):
        send(5, 0, sequence)
    send(5, 0, 6, 2)  # grouped in another way
    for id, epoch, sequence in (
        (5, 0, 12),
        (5, 1, 4),
        (5, 1, 0),
        (5, 0, 8),
        (5, 1, 1),
        (6, 0, 3),
        (6, 0, 0),
        (6, 0, 1),
    ):
        send(id, epoch, sequence)
    for id, epoch, sequence in ((8, 0, -1), (8, -1, 0), (9, 0, 0)):
        send(id, epoch, sequence)
    for offset in (3, -1, 99, -7):
        rows = [{"topic": "producers", "partitions": [{"partition": 0, "offset": offset}]}]
        found[f"deleted to {offset}"] = asker.ask(DELETE_RECORDS, 0, {"topics": rows, "timeout_ms": 1000})
    for id, epoch, sequence in ((6, 0, 1), (6, 0, 5), (5, 1, 2)):
        send(id, epoch, sequence)
    return found


def transactions(cluster: Cluster, now_ms: int) -> Facts:
    """From 0.11 on."""
    asker, found = Asker(cluster, now_ms), {}
    cluster.create_topic("transactions")
    tp, name = ("transactions", 0), "twins"
    beginning = {"transactional_id": name, "transaction_timeout_ms": 20_000}
    find = {"group": name, "key_type": groupapis.OF_TRANSACTION}
    until(cluster, lambda: asker.ask(groupapis.GROUP_COORDINATOR, 1, find)["error"] == 0)
    told: dict[str, Any] = {}

    def begun() -> bool:
        told.update(asker.ask(transactionapis.INIT_PRODUCER_ID, 0, beginning))
        return told["error"] == 0

    until(cluster, begun)
    id, epoch = told["producer_id"], told["producer_epoch"]
    known = {"transactional_id": name, "producer_id": id, "producer_epoch": epoch}

    def added() -> bool:
        rows = [{"topic": tp[0], "partitions": [tp[1]]}]
        answer = asker.ask(transactionapis.ADD_PARTITIONS_TO_TXN, 0, known | {"topics": rows})
        return bool(answer["topics"][0]["partitions"][0]["error"] == 0)

    def ended(commit: bool) -> bool:
        return bool(asker.ask(transactionapis.END_TXN, 0, known | {"commit": commit})["error"] == 0)

    def look(when: str, offsets: tuple[int, ...]) -> None:
        for version in asker.versions(apis.FETCH):
            for isolation in (0, 1) if version >= 4 else (0,):
                for at in offsets:
                    seen = asker.fetch([(tp, at)], version, isolation_level=isolation)
                    found[f"{when}: Fetch v{version} {isolation} from {at}"] = seen

    def stable() -> bool:
        row = asker.fetch([(tp, 0)], 4, isolation_level=1)[0]
        return bool(row[3] == row[4])

    for number, commit in enumerate((True, False, True)):
        assert until(cluster, added)
        data = _numbered(asker.now_ms, (id, epoch, 2 * number), 2, TRANSACTIONAL)
        found[f"{number}: produced"] = asker.produce(tp, data, 3, name=name)
        found[f"{number}: beside it"] = asker.produce(tp, _batch(asker.now_ms, 1), 3)
        found[f"{number}: no part of it"] = asker.produce(tp, _numbered(asker.now_ms, (id, epoch, 9), 1), 3)
        look(f"{number} open", (0, 1, 3))
        assert until(cluster, lambda commit=commit: ended(commit))  # type: ignore[misc]
        assert until(cluster, stable)
        look(f"{number} ended", (0, 1, 3, 4, 7, 8))
    return found
