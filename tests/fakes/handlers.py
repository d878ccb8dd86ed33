"""What each request does to a fake cluster, and the body of its answer.  The cluster's lock is held."""

from __future__ import annotations

import struct
import time
import zlib
from typing import TYPE_CHECKING, Any

from tests.fakes.actions import Fail, LeaveOut, Nothing, Throttle, refused
from tests.fakes.entries import opened, walk
from tests.fakes.frames import string, topics

if TYPE_CHECKING:
    from tests.fakes.broker import FakeCluster

NAME_NO_OFFSET = frozenset({-1, 56})  # an answer with such a code has base offset -1 whatever was appended


def produce(cluster: FakeCluster, broker: int, body: dict[str, Any], action: Any) -> bytes | None:
    answers: dict[str, list[bytes]] = {}
    for (topic, partition), data in body["sets"].items():
        code = _refusal(cluster, broker, (topic, partition), data)
        base = -1
        failed = refused(action, (topic, partition))
        if code == 0 and (not failed or action.store):
            base = cluster.append(topic, partition, data)
        if failed:
            code, base = action.code, -1 if action.code in NAME_NO_OFFSET else base
        answers.setdefault(topic, []).append(struct.pack(">ihq", partition, code, base))
    return None if body["acks"] == 0 else topics(answers)


def _refusal(cluster: FakeCluster, broker: int, tp: tuple[str, int], data: bytes) -> int:
    log = cluster.logs.get(tp)
    if log is None:
        return 3
    if log.leader != broker:
        return 6
    if tp[0] in cluster.compacted and any(key is None for _, key, _ in opened(data)):
        return 2
    wrapped = 0
    for _, _, piece in walk(data):
        if struct.unpack_from(">I", piece, 12)[0] != zlib.crc32(piece[16:]):
            return 2
        wrapped += len(piece) if piece[17] & 7 else 0
        if max(len(piece), wrapped) > cluster.message_max_bytes:
            return 10
    return 0


def fetch(cluster: FakeCluster, broker: int, body: dict[str, Any], action: Any) -> bytes:
    if isinstance(action, Throttle):
        return topics({})
    deadline = time.monotonic() + body["max_wait_ms"] / 1000
    while True:
        answers: dict[str, list[bytes]] = {}
        size = 0
        for (topic, partition), (offset, max_bytes) in body["wanted"].items():
            code, end, data = cluster.slice(broker, (topic, partition), offset, max_bytes)
            if refused(action, (topic, partition)):
                code, end, data = action.code, -1, b""
            size += len(data) if code == 0 else body["min_bytes"]  # an error is answered at once
            if action == LeaveOut((topic, partition)):
                continue
            answers.setdefault(topic, []).append(struct.pack(">ihqi", partition, code, end, len(data)) + data)
        left = deadline - time.monotonic()
        if size >= body["min_bytes"] or left <= 0:
            return topics(answers)
        cluster.changed.wait(left)


def list_offsets(cluster: FakeCluster, broker: int, body: dict[str, Any], action: Any) -> bytes:
    answers: dict[str, list[bytes]] = {}
    for (topic, partition), (when, most) in body["times"].items():
        log = cluster.logs.get((topic, partition))
        code = 3 if log is None else 6 if log.leader != broker else 0
        if refused(action, (topic, partition)):
            code = action.code
        offsets = [] if code or log is None else cluster.offsets_of(log, when)
        behind = log is not None and log.high_watermark is not None
        if log is not None and behind and body["replica_id"] != -2:  # a debugging one is told where the log itself ends
            offsets = [min(offset, log.shown) for offset in offsets]
        offsets = offsets[:most]
        if action == LeaveOut((topic, partition)):
            continue
        row = struct.pack(">ihi", partition, code, len(offsets)) + struct.pack(f">{len(offsets)}q", *offsets)
        answers.setdefault(topic, []).append(row)
    return topics(answers)


def metadata(cluster: FakeCluster, broker: int, body: dict[str, Any], action: Any) -> bytes:
    if broker in cluster.uninformed or cluster.uncreatable & set(body["topics"]):
        failed = [struct.pack(">h", -1) + string(topic) + struct.pack(">i", 0) for topic in body["topics"]]
        return struct.pack(">ii", 0, len(failed)) + b"".join(failed)
    code = action.code if isinstance(action, Fail) else 0
    known = sorted({topic for topic, _ in cluster.logs})
    rows, leaders = [], set()
    for topic in body["topics"] or known:
        if topic not in known:
            rows.append(struct.pack(">h", 5 if cluster.auto_create else 3) + string(topic) + struct.pack(">i", 0))
            cluster.create(topic, cluster.auto_create)
            continue
        partitions = [(p, log.leader) for (t, p), log in sorted(cluster.logs.items()) if t == topic]
        leaders |= {leader for _, leader in partitions}
        row = struct.pack(">h", code) + string(topic) + struct.pack(">i", 0 if code else len(partitions))
        for p, leader in () if code else partitions:
            alive = cluster.servers.get(leader) is not None or leader in cluster.stale
            row += struct.pack(">hii", 0 if alive else 5, p, leader if alive else -1)
            row += struct.pack(">ii", 1, leader) + (struct.pack(">ii", 1, leader) if alive else struct.pack(">i", 0))
        rows.append(row)
    alive_ids = [
        b
        for b in sorted(cluster.ports)
        if (cluster.servers.get(b) or b in cluster.stale) and (cluster.lists_all_brokers or b in leaders)
    ]
    reply = struct.pack(">i", len(alive_ids))
    for b in alive_ids:
        reply += struct.pack(">i", b) + string("127.0.0.1") + struct.pack(">i", cluster.ports[b])
    return reply + struct.pack(">i", len(rows)) + b"".join(rows)


def group_coordinator(cluster: FakeCluster, broker: int, body: dict[str, Any], action: Any) -> bytes:
    if isinstance(action, Fail):
        return struct.pack(">hi", action.code, -1) + string("") + struct.pack(">i", -1)
    who = cluster.coordinator
    return struct.pack(">hi", 0, who) + string("127.0.0.1") + struct.pack(">i", cluster.ports[who])


def offset_commit(cluster: FakeCluster, broker: int, body: dict[str, Any], action: Any) -> bytes:
    answers: dict[str, list[bytes]] = {}
    for (topic, partition), (offset, metadata) in body["offsets"].items():
        code = _offsets_code(cluster, broker, body["version"], (topic, partition), action)
        if code == 0:
            cluster.committed[body["version"], body["group"], topic, partition] = (offset, metadata)
        if action != LeaveOut((topic, partition)):
            answers.setdefault(topic, []).append(struct.pack(">ih", partition, code))
    return topics(answers)


def offset_fetch(cluster: FakeCluster, broker: int, body: dict[str, Any], action: Any) -> bytes:
    answers: dict[str, list[bytes]] = {}
    version = body["version"]
    for topic, partition in body["wanted"]:
        code = _offsets_code(cluster, broker, version, (topic, partition), action)
        held = None if action == Nothing() else cluster.committed.get((version, body["group"], topic, partition))
        offset, metadata = held if code == 0 and held is not None else (-1, "")
        if code == 0 and ((topic, partition) not in cluster.logs or (version == 0 and held is None)):
            code = 3
        if action != LeaveOut((topic, partition)):
            row = struct.pack(">iq", partition, offset) + string(metadata) + struct.pack(">h", code)
            answers.setdefault(topic, []).append(row)
    return topics(answers)


def _offsets_code(cluster: FakeCluster, broker: int, version: int, tp: tuple[str, int], action: Any) -> int:
    if refused(action, tp):
        return action.code
    return 16 if version > 0 and broker != cluster.coordinator else 0


HANDLERS = {
    "produce": produce,
    "fetch": fetch,
    "list_offsets": list_offsets,
    "metadata": metadata,
    "group_coordinator": group_coordinator,
    "offset_commit": offset_commit,
    "offset_fetch": offset_fetch,
}
