"""Responses of brokers of all generations, requests as `kafkawire decode` and the 0.7 broker take them, and blobs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

from kafkawire.decode.generations import generation
from kafkawire.dialects import DIALECTS, Dialect
from kafkawire.errors import RemoteError, WireError
from kafkawire.model import BrokerPartition, ProducerId, TopicPartition
from kafkawire.net.sasl import Unexpected, oauthbearer, scram
from kafkawire.net.session import Session
from kafkawire.protocol import grouprequests as groups
from kafkawire.protocol import transactionrequests as transactions
from kafkawire.protocol.adminrequests import NewTopic, create_partitions, create_topics, describe_topics
from kafkawire.protocol.offsetrecords import read_record
from kafkawire.protocol.schema import Array, Blob, Boolean, Integer, Row, String, Struct, Switched
from kafkawire.protocol.stableoffsets import StableOffsetFetch
from kafkawire.protocol.subscriptions import Subscription, assignment_bytes, read_assignment, read_subscription
from localkafka.seven.entries import Refused
from localkafka.seven.handling import Handler
from localkafka.seven.logs import IllegalTopic
from localkafka.seven.settings import Settings, settings
from tests.fuzz.engine import Target

TP = TopicPartition("t", 0)
TP7 = TopicPartition("t", BrokerPartition(0, 0))
RELEASES = (
    "0.8.0",
    "0.8.1",
    "0.8.2",
    "0.9",
    "0.10.0",
    "0.10.1",
    "0.11",
    "1.0",
    "1.1",
    "2.1",
    "2.3",
    "2.7",
    "4.3",
)
PRODUCER = ProducerId(7, 1)


def _requests(d: Dialect) -> list[Any]:
    """Every request of a release that has a response."""
    r = d.requests
    builders = [
        lambda: r.fetch(d, 100, 1, [(TP, 0, 4096)]),
        lambda: r.produce(d, -1, 100, {TP: [b"x"]}, magic=2 if d.record_batches else 0),
        lambda: r.list_offsets(d, {TP: -1}),
        lambda: r.metadata(d, ["t"]),
        lambda: r.metadata(d, None),
        lambda: r.api_versions(d),
        lambda: r.group_coordinator(d, "g"),
        lambda: r.offset_commit(d, "g", {TP: (1, "")}),
        lambda: r.offset_fetch(d, "g", [TP]),
        lambda: r.offset_fetch(d, "g", None),
        lambda: r.offset_fetch(d, "g", [TP], "zookeeper"),
        lambda: r.describe_groups(d, ["g"]),
        lambda: r.list_groups(d),
        lambda: groups.join_group(
            d,
            "g",
            "",
            session_timeout_ms=1,
            rebalance_timeout_ms=1,
            protocol_type="consumer",
            protocols=[],
        ),
        lambda: groups.sync_group(d, "g", 1, "m", {}),
        lambda: groups.heartbeat(d, "g", 1, "m"),
        lambda: groups.leave_group(d, "g", "m"),
        lambda: transactions.init_producer_id(d, None, 1),
        lambda: transactions.add_partitions(d, "x", PRODUCER, [TP]),
        lambda: transactions.add_offsets(d, "x", PRODUCER, "g"),
        lambda: transactions.txn_offset_commit(d, "x", PRODUCER, "g", {TP: (1, "")}),
        lambda: transactions.end_txn(d, "x", PRODUCER, True),
        lambda: transactions.find_coordinator(d, "x", True),
        lambda: create_topics(d, {"t": NewTopic(1, 1)}, 1),
        lambda: create_partitions(d, {"t": 2}, 1),
        lambda: describe_topics(d, ["t"]),
    ]
    made = []
    for builder in builders:
        try:
            made.append(builder())
        except WireError:
            continue
    return made


@cache
def requests() -> list[Any]:
    """One of each api and version; a fetch with quiet rows is read by the same parser."""
    found: dict[Any, Any] = {}
    for release in RELEASES:
        for request in _requests(DIALECTS[release]):
            found.setdefault((request.api.key, request.version, getattr(request.finish, "__name__", "")), request)
    return [*found.values(), StableOffsetFetch("g", TopicPartition("t", 0))]


def sample(kind: Any, version: int, random: Random, name: str = "") -> Any:
    """A value of a type of the tables."""
    if isinstance(kind, Switched):
        return sample(kind.of(version), version, random, name)
    if isinstance(kind, Struct):
        return {field: sample(of, version, random, field) for field, of in kind.fields(version)}
    if isinstance(kind, Array):
        return [sample(kind.of, version, random, name) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    if isinstance(kind, Row):
        return tuple(sample(of, version, random) for of in kind.of)
    if isinstance(kind, String):
        if kind.nullable:
            return random.choice((None, "t", ""))
        return random.choice(("t", "topic", "é", "")) or "t" * kind.least_bytes
    if isinstance(kind, Blob):
        return random.choice((b"", b"\0" * 9, random.randbytes(30)))
    if isinstance(kind, Boolean):
        return random.random() < 0.5
    assert isinstance(kind, Integer)
    return random.choice((0, 0, 1, 2)) if name in ("error", "partition") else random.choice((0, 1, -1, 5, 99))


def _reply_seeds() -> list[bytes]:
    """(number of the request, chunking) and a frame that answers it."""
    seeds, random = [], Random(1)
    for number, request in enumerate(requests()):
        for _ in range(3):
            if isinstance(request, StableOffsetFetch):
                row = struct.pack(">iqi", 0, 5, -1) + b"\x01\0\0\0"
                body = b"\0" + bytes(4) + b"\x02\x02t\x02" + row + b"\0\0\0\0"
            else:
                body = request.api.encode_reply(request.version, sample(request.api.reply, request.version, random))
            seeds.append(struct.pack(">Bxii", number, len(body) + 4, 0) + body)
    return seeds


def reply(data: bytes) -> None:
    """A request, and what a broker answers, in chunks as a socket gives them."""
    if len(data) < 2:
        return
    asked = requests()
    _received(asked[data[0] % len(asked)], data[2:], data[1])


def _received(request: Any, data: bytes, chunk: int) -> None:
    session = Session("fuzz")
    session.send(request)
    size = chunk or len(data)
    while data and session.outstanding:
        place = session.wanted()
        count = min(size, len(place), len(data))
        place[:count] = data[:count]
        session.received(count)
        data = data[count:]


@cache
def _requests07() -> list[Any]:
    d = DIALECTS["0.7.2"]
    return [
        d.requests.fetch(d, 0, 0, [(TP7, 0, 100)]),
        d.requests.fetch(d, 0, 0, [(TP7, 0, 100), (TopicPartition("u", BrokerPartition(0, 1)), 0, 100)]),
        d.requests.list_offsets(d, {TP7: -1}, 5),
        d.requests.list_offsets(d, {TP7: -1, TopicPartition("u", BrokerPartition(0, 1)): -2}, 5),
        d.requests.barrier(d, TP7),
    ]


def _reply_seeds07() -> list[bytes]:
    def framed(number: int, body: bytes) -> bytes:
        return struct.pack(">Bxi", number, len(body)) + body

    part = struct.pack(">ih", 12, 0) + b"x" * 10
    offsets = struct.pack(">hiqq", 0, 2, 100, 0)
    return [
        framed(0, b"\0\0" + b"x" * 40), framed(0, b"\0\x01"), framed(1, b"\0\0" + part * 2), framed(1, b"\xff\xff"),
        framed(2, offsets), framed(3, offsets) + struct.pack(">i", len(offsets)) + offsets, framed(4, offsets),
    ]  # fmt: skip


def reply07(data: bytes) -> None:
    if len(data) < 2:
        return
    asked = _requests07()
    _received(asked[data[0] % len(asked)], data[2:], data[1])


def _request_seeds() -> list[bytes]:
    return [b"\0" + b"".join(request.frame(3, "c")) for request in requests()]


def request_document(data: bytes) -> None:
    """As `kafkawire decode` shows it; the first byte: framed or not."""
    generation("4.3").request(data[1:], not data[:1] or data[0] < 128, 0)


def _response_document(data: bytes) -> None:
    if data:
        request = requests()[data[0] % (len(requests()) - 1)]  # the last one has no table
        generation("4.3").answer(request.api.name, request.version)(data[2:], True, 0)


def _request_seeds07() -> list[bytes]:
    d = DIALECTS["0.7.2"]
    found = [b"".join(request.frame(0, "")) for request in _requests07()]
    sets = {TP7: [b"\0\0\0\x05\x01\0\0\0\0\0"], TopicPartition("u", BrokerPartition(0, 1)): [b""]}
    found += [b"".join(d.requests.produce(d, 0, 0, sets).frame(0, ""))]
    return [*found, b"".join(d.requests.produce(d, 0, 0, {TP7: sets[TP7]}).frame(0, ""))]


def request_document07(data: bytes) -> None:
    generation("0.7").request(data, True, 0)


class _NoLogs:
    """Logs of a broker that has none: what is tested is what it reads of a request."""

    def chosen(self, topic: str) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        def refuse(*args: object) -> Any:
            raise IllegalTopic("no logs here")

        return refuse


@cache
def _settings07() -> Settings:
    return settings({"brokerid": "0", "log.dir": "unused", "enable.zookeeper": "false"})


def broker_request07(data: bytes) -> None:
    Handler(_settings07(), _NoLogs()).answer(memoryview(data)[4:])  # type: ignore[arg-type]


def _set_documents(data: bytes) -> None:
    generation("0.7" if data[:1] < b"\x40" else "4.3").message_set(data[1:], 0)


def _set_seeds() -> list[bytes]:
    from tests.fuzz.targets import sets

    return [b"\0" + data for data in sets._seeds07()] + [b"\xff" + data for data in sets._seeds_mixed()]


def _blob_seeds() -> list[bytes]:
    key = struct.pack(">hh1sh1si", 1, 1, b"g", 1, b"t", 0)
    group = struct.pack(">hh1s", 2, 1, b"g")
    value = struct.pack(">hqh2sqq", 1, 17, 2, b"md", 5, 6)
    member = struct.pack(">hh8sih5sh1si", 0, 8, b"consumer", 1, 5, b"range", 1, b"m", 0)
    subscription = Subscription(("t", "u"), b"user").encode()
    assignment = assignment_bytes([TP, TopicPartition("u", 3)], b"user")
    return [b"\x10" + key + value, b"\x07" + group + member, b"\x00" + subscription, b"\x00" + assignment]


def blobs(data: bytes) -> None:
    """Records of __consumer_offsets (the first byte: bytes of the key) and what members tell each other."""
    size, data = data[0] if data else 0, data[1:]
    for read in (read_subscription, read_assignment):
        try:
            read(data)
        except RemoteError:
            pass
    read_record(data[:size], data[size:] or None)


def _login_seeds() -> list[bytes]:
    return [
        b"r=fixed+more,s=c2FsdA==,i=4096\nv=AAAA", b"e=other-error\n",
        b'r=fixed+more,s=!,i=1\n{"status":"invalid_token"}',
        b"r=fixed+x,s=c2FsdA==,i=4096,m=ext\n\xff",
    ]  # fmt: skip


def login(data: bytes) -> None:
    """What a server says in a login, a line each."""
    for begin in (lambda: scram("SCRAM-SHA-256", "u", "p", nonce=lambda: "fixed"), lambda: oauthbearer("token", {})):
        conversation = begin()
        try:
            next(conversation)
            for said in data.split(b"\n"):
                conversation.send(said)
        except (StopIteration, Unexpected):
            pass


TARGETS: Sequence[Target] = (
    Target("replies", _reply_seeds, reply, (RemoteError,)),
    Target("replies-0.7", _reply_seeds07, reply07, (RemoteError,)),
    Target("requests-decoded", _request_seeds, request_document, (WireError,)),
    Target("responses-decoded", _reply_seeds, _response_document, (WireError,)),
    Target("requests-decoded-0.7", _request_seeds07, request_document07, (WireError,)),
    Target("sets-decoded", _set_seeds, _set_documents, (WireError,), cpu_s=4, memory_bytes=400 << 20),
    Target("broker-requests-0.7", _request_seeds07, broker_request07, (Refused,)),
    Target("blobs", _blob_seeds, blobs, (RemoteError,)),
    Target("logins", _login_seeds, login, ()),
)
