"""Keyed routes against a slow, obvious mirror: whatever a log holds, each message goes where its key says, in order."""

from __future__ import annotations

import random
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire import kernels
from kafkawire.columns import Part as Stretch
from kafkawire.compression import GZIP, LZ4, SNAPPY
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import CorruptMessage
from kafkawire.formats import mixed
from kafkawire.formats.compiled import Kernels
from kafkawire.formats.v01 import messages as v01
from kafkawire.formats.v01 import write
from kafkawire.headers import packed
from kafkawire.model import BrokerPartition, MessageSet, PartitionId, TopicPartition
from mirrormaker.losses import Losses
from mirrormaker.partitioning import ChosenPartitioner, Partitioner
from mirrormaker.routes import RouteRules, SourceTopic, TopicRoute
from producer.conversion import FieldLost, Lists, MessageHandlerFailed, Rows, Step
from producer.errors import PartitionerFailed
from producer.partitioners import (
    byte_array_partitioner,
    default_partitioner,
    masking_partitioner,
    murmur2_partitioner,
)
from producer.steps import PART_MAX_BYTES, STEP_BYTES

V07, V082, V010, V39, V40 = (dialect(one) for one in ("0.7", "0.8.2", "0.10.2", "3.9", "4.0"))
LIMIT = 1000012
Written = tuple[bytes | None, bytes | None, int | None, bytes | None]  # key, value, timestamp, headers
Read = tuple[bytes | None, bytes | None, int | None, object]
HEADERS = packed([("h", b"x"), ("h", None)])
BUILT_IN = (murmur2_partitioner, byte_array_partitioner, default_partitioner, masking_partitioner)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    kernels.prepare()


@pytest.fixture(params=["compiled", "python"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both forms of the loops, whichever numba is there."""
    if request.param == "python":
        in_python(monkeypatch)
    return str(request.param)


def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels._CHOICE, "kernels", None)
    monkeypatch.setattr(kernels._CHOICE, "settled", True)


# ---- the slow mirror ----------------------------------------------------------------------------------------------


def slow(message_set: MessageSet, choose: object, partitions: int, to: Dialect) -> dict[PartitionId, list[Read]]:
    """What readers of each target partition get, by one message after the other."""
    found: dict[PartitionId, list[Read]] = defaultdict(list)
    without = Partitioner("t", "key", range(partitions)).of_source(message_set.partition).partition
    for message in message_set.messages():
        index = without if message.key is None else choose(message.key, partitions)  # type: ignore[operator]
        stamp = None if not to.has_timestamps else -1 if message.timestamp_ms is None else message.timestamp_ms
        found[index].append((message.key, message.value, stamp, message.headers or ()))
    return dict(found)


def read(steps: list[Step]) -> dict[PartitionId, list[Read]]:
    """What readers of each target partition get of the parts that were sent; each part is what it says."""
    found: dict[PartitionId, list[Read]] = defaultdict(list)
    for part in (part for step in steps for part in step.parts):
        message_set, scan = mixed.message_set("t", 0, 0, memoryview(bytes(part.entries)), None)
        assert (scan.damage, scan.end) == (None, len(part.entries))
        assert {(run.magic, run.codec) for run in message_set.runs} == {(part.magic, part.codec)}
        messages = list(message_set.messages())
        assert part.count == len(messages)
        if part.codec or part.magic == 2:  # plain entries get their offsets at the target
            assert [message.offset for message in messages] == list(range(part.count))
        assert all(message.timestamp_type in (None, 0, -1) for message in messages)
        assert part.resume_at is None
        found[part.tp.partition] += [(m.key, m.value, m.timestamp_ms, m.headers or ()) for m in messages]
    return dict(found)


def route_to(
    to: Dialect,
    of: Dialect = V39,
    partitions: int = 3,
    partitioner: object = byte_array_partitioner,
    limit: int = LIMIT,
    **more: object,
) -> TopicRoute:
    chosen = ChosenPartitioner("own", partitioner, **more.pop("chosen", {}))  # type: ignore[arg-type]
    rules = RouteRules(source=of, target=to, message_max_bytes=limit, partitioner=lambda _: chosen, **more)  # type: ignore[arg-type]
    return TopicRoute("t", SourceTopic(partitions, 1), range(partitions), rules)


def steps_of(route: TopicRoute, message_set: MessageSet) -> list[Step]:
    return list(route.steps(message_set, aligned=False))


def well_formed(steps: list[Step], message_set: MessageSet) -> None:
    ends = [step.resume_at for step in steps]
    assert ends == sorted(set(ends))
    assert ends[-1] == message_set.resume_at
    for step in steps:
        tps = [tp for tp, _ in groupby(part.tp for part in step.parts)]
        assert len(tps) == len(set(tps))  # those of a partition stand together


# ---- logs -----------------------------------------------------------------------------------------------------------


Row = tuple[int, bytes | None, bytes | None, int | None]  # offset, key, value, timestamp


def batch(rows: list[Row], codec: int, headers: list[bytes | None]) -> bytes:
    """A record batch as a broker of 3.9 gives it."""
    return bytes(V39.messages.encode(rows, codec, 2, headers))


def log(stretches: list[tuple[int, int, bool, list[Written]]], hole: int) -> bytes:
    """Stretches of (format, codec, whether the broker stamped it, messages) as brokers of several releases left them.

    hole: offsets that are missing behind each.
    """
    data, offset = b"", 100
    for magic, codec, stamped, messages in stretches:
        rows = [(offset + n, key, value, stamp if magic else None) for n, (key, value, stamp, _) in enumerate(messages)]
        if magic == 2:
            data += batch(rows, codec, [headers for *_, headers in messages])
        else:
            data += as_appended(v01.encode(rows, codec, magic)) if stamped and magic else v01.encode(rows, codec, magic)
        offset += len(rows) + hole
    return data


def as_appended(entries: bytes) -> bytes:
    """Entries of format v1 with the bit of LogAppendTime."""
    out, at = bytearray(entries), 0
    while at < len(out):
        end = at + 12 + struct.unpack_from(">i", out, at + 8)[0]
        out[at + 17] |= v01.LOG_APPEND_TIME
        struct.pack_into(">I", out, at + 12, zlib.crc32(bytes(out[at + 16 : end])))
        at = end
    return bytes(out)


def fetched(data: bytes, start: int = 0) -> MessageSet:
    message_set, scan = mixed.message_set("t", 1, start, memoryview(data), None)
    assert scan.damage is None
    return message_set


KEYS = st.none() | st.binary(max_size=20) | st.sampled_from([b"a", b"b", b"c", b"same"])
MESSAGES = st.lists(
    st.tuples(KEYS, st.none() | st.binary(max_size=60), st.integers(-1, 1 << 41), st.none() | st.just(HEADERS)),
    min_size=1,
    max_size=70,
)
STRETCHES = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 2]), st.sampled_from([0, 0, GZIP, SNAPPY, LZ4]), st.booleans(), MESSAGES),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(
    stretches=STRETCHES,
    skipped=st.integers(0, 60),
    cut=st.integers(0, 30),
    hole=st.sampled_from([0, 0, 3]),
    to=st.sampled_from([V082, V010, V39, V40]),
    partitioner=st.sampled_from(BUILT_IN),
    partitions=st.sampled_from([1, 2, 3, 50]),
    limit=st.sampled_from([LIMIT, 700]),
    compiled=st.booleans(),
)
def test_whatever_a_log_holds_goes_where_its_keys_say(
    stretches: list[tuple[int, int, bool, list[Written]]],
    skipped: int,
    cut: int,
    hole: int,
    to: Dialect,
    partitioner: object,
    partitions: int,
    limit: int,
    compiled: bool,
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        if not compiled:
            in_python(patched)
        data = log(stretches, hole)
        data = data[: len(data) - min(cut, len(data) // 2)]
        message_set = fetched(data, min(100 + skipped, max(100, fetched(data, 100).resume_at - 1)))
        if not message_set.runs:
            return
        drop = frozenset(Losses(V39, to).fields)
        route = route_to(to, partitions=partitions, partitioner=partitioner, limit=limit, drop=drop)
        steps = steps_of(route, message_set)
        wanted = slow(message_set, partitioner, partitions, to)
        if "headers" in drop:
            wanted = {tp: [(*message[:3], ()) for message in messages] for tp, messages in wanted.items()}
        assert read(steps) == wanted
        well_formed(steps, message_set)
        assert {part.magic for step in steps for part in step.parts} <= {to.magic}


# ---- copied, or written again ------------------------------------------------------------------------------------


def many(count: int, magic: int = 0, codec: int = 0, size: int = 20, first: int = 100) -> bytes:
    rows = [(first + n, b"key%d" % (n % 40), b"v" * size, 5000 + n) for n in range(count)]
    return v01.encode(rows, codec, magic)


def apart(entries: bytes) -> list[bytes]:
    """Entries one by one."""
    found, at = [], 0
    while at < len(entries):
        end = at + 12 + struct.unpack_from(">i", entries, at + 8)[0]
        found.append(entries[at:end])
        at = end
    return found


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_entries_are_copied_with_their_checksums(
    form: str, magic: int, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is copied is what would be written again; a wrong checksum that nobody looked at stays wrong."""
    columns = fetched(many(200, magic, codec)).index()
    assert columns.entry_magic == magic
    part = Stretch(columns, 10, 170)
    again = Stretch(replace(columns, entry_magic=None), 10, 170)
    copied = apart(bytes(write.encode_columns([part], 0, magic)))
    assert [entry[8:] for entry in copied] == [
        entry[8:] for entry in apart(bytes(write.encode_columns([again], 0, magic)))
    ]
    first = 10 if codec and magic else 110  # inner offsets are relative in v1
    assert [struct.unpack_from(">q", entry)[0] for entry in copied] == list(range(first, first + 160))
    compressed = [bytes(write.encode_columns([one], GZIP, magic)) for one in (part, again)]
    assert compressed[0] == compressed[1]
    damaged = bytearray(many(200, magic))
    damaged[-1] ^= 1
    part = Stretch(fetched(bytes(damaged)).index(check_crcs=False), 150, 200)
    found = bytes(write.encode_columns([part], 0, magic))
    assert v01.check(found) is not None


@settings(max_examples=40, deadline=None)
@given(
    keys=st.lists(
        st.sampled_from([None, b"", b"a", b"b", b"abcd", b"abce", b"k" * 11, b"k" * 30]), min_size=90, max_size=130
    ),
    size=st.integers(0, 3),
    magic=st.integers(0, 1),
    to=st.sampled_from([V082, V010, V39]),
    partitioner=st.sampled_from(BUILT_IN),
    partitions=st.sampled_from([2, 3, 7, 300]),
    codec=st.sampled_from(["none", "gzip"]),
    compiled=st.booleans(),
)
def test_entries_of_a_few_shapes_go_where_their_keys_say(
    keys: list[bytes | None],
    size: int,
    magic: int,
    to: Dialect,
    partitioner: object,
    partitions: int,
    codec: str,
    compiled: bool,
) -> None:
    """Those that pure Python brings side by side by their shapes."""
    rows = [(100 + n, key, b"%03d" % n if n % 3 else b"v" * size, 5000 + n) for n, key in enumerate(keys)]
    message_set = fetched(v01.encode(rows, 0, magic), 100)
    with pytest.MonkeyPatch.context() as patched:
        if not compiled:
            in_python(patched)
        drop = frozenset(Losses(V39, to).fields)
        route = route_to(to, partitions=partitions, partitioner=partitioner, codec=codec, drop=drop)
        assert read(steps_of(route, message_set)) == slow(message_set, partitioner, partitions, to)


class Arriving:
    """Kernels that a thread of their own loads: they are there from the look of that number on."""

    def __init__(self, looks: int, loaded: Kernels) -> None:
        self.left, self._loaded = looks, loaded
        self.settled = True

    @property
    def kernels(self) -> Kernels | None:
        self.left -= 1
        return self._loaded if self.left < 0 else None


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("to", [V082, V010, V39], ids=lambda to: to.release)
@pytest.mark.parametrize("partitions", [2, 7, 300])
def test_kernels_that_arrive_while_a_set_is_shared_out_change_nothing(
    magic: int, to: Dialect, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread loads them beside us: any look may be the first that finds them."""
    rows = [(100 + n, (None, b"a", b"key%d" % (n % 40))[n % 3], b"%05d" % n, 5000 + n) for n in range(300)]
    plain = v01.encode(rows, 0, magic) if magic < 2 else batch(rows, 0, [None] * len(rows))
    loaded = kernels._CHOICE.kernels
    assert loaded is not None
    drop = frozenset(Losses(V39, to).fields)
    route = route_to(to, partitions=partitions, partitioner=byte_array_partitioner, drop=drop)
    wanted = slow(fetched(plain, 100), byte_array_partitioner, partitions, to)
    number, used = 0, False
    while not used:
        with monkeypatch.context() as patched:
            patched.setattr(kernels, "_CHOICE", arriving := Arriving(number, loaded))
            assert read(steps_of(route, fetched(plain, 100))) == wanted, f"kernels from look {number} on"
        number, used = number + 1, arriving.left >= 0
    assert number > 3


def test_what_a_broker_stamped_is_written_again_as_created(form: str) -> None:
    for data in (
        as_appended(many(60, 1)),
        as_appended(many(60, 1, GZIP)),
        many(30, 1) + as_appended(many(30, 1, first=130)),
    ):
        message_set = fetched(data, 100)
        steps = steps_of(route_to(V010), message_set)
        assert read(steps) == slow(message_set, byte_array_partitioner, 3, V010)


def test_attributes_that_no_producer_sets_do_not_travel(form: str) -> None:
    one = bytearray(many(1))
    one[17] |= 0x40
    struct.pack_into(">I", one, 12, zlib.crc32(bytes(one[16:])))
    data = bytes(one) + many(50, first=101)
    steps = steps_of(route_to(V082), fetched(data, 100))
    for part in (part for step in steps for part in step.parts):
        assert v01.check(bytes(part.entries)) is None
        at = 0
        while at < len(part.entries):
            assert part.entries[at + 17] == 0
            at += 12 + struct.unpack_from(">i", part.entries, at + 8)[0]


def test_no_message_is_looked_at_by_itself(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a message object, nor with the compiled form a list of keys or values."""

    def never(*_: object) -> None:
        raise AssertionError("messages were made")

    message_set = fetched(many(500) + many(100, 0, SNAPPY, first=600), 100)
    wanted = slow(message_set, byte_array_partitioner, 3, V082)
    monkeypatch.setattr("kafkawire.model.Message.__init__", never)
    monkeypatch.setattr("kafkawire.model.made", never)
    if form == "compiled":
        monkeypatch.setattr(Stretch, "values", never)
        monkeypatch.setattr(Stretch, "keys", never)
    for to in (V082, V39):
        steps = steps_of(route_to(to), message_set)
        assert sum(part.count for step in steps for part in step.parts) == 600
    monkeypatch.undo()
    assert {tp: len(messages) for tp, messages in read(steps).items()} == {tp: len(one) for tp, one in wanted.items()}


# ---- steps --------------------------------------------------------------------------------------------------------


def test_steps_of_large_sets_end_where_they_are_full(form: str) -> None:
    message_set = fetched(many(3000, size=1000), 100)
    steps = steps_of(route_to(V082), message_set)
    well_formed(steps, message_set)
    assert len(steps) > 2
    for step in steps[:-1]:
        assert STEP_BYTES // 2 < sum(len(part.entries) for part in step.parts) <= STEP_BYTES
    assert read(steps) == slow(message_set, byte_array_partitioner, 3, V082)
    assert all(len(part.entries) <= PART_MAX_BYTES for step in steps for part in step.parts)


@pytest.mark.parametrize(("to", "codec"), [(V082, "gzip"), (V39, ""), (V39, "snappy")])
def test_parts_stay_below_what_the_target_takes(form: str, to: Dialect, codec: str) -> None:
    rnd = random.Random(7)
    rows = [(100 + n, b"key%d" % n, rnd.randbytes(rnd.randrange(10, 3000)), None) for n in range(300)]
    message_set = fetched(v01.encode(rows), 100)
    steps = steps_of(route_to(to, limit=20_000, partitions=2, codec=codec), message_set)
    assert read(steps) == slow(message_set, byte_array_partitioner, 2, to)
    assert max(len(part.entries) for step in steps for part in step.parts) <= 20_000


def test_a_message_larger_than_the_target_takes_goes_alone(form: str) -> None:
    rows = [(100 + n, b"k", b"v" * (5000 if n == 40 else 10), None) for n in range(80)]
    steps = steps_of(route_to(V39, limit=2000), fetched(v01.encode(rows), 100))
    assert [part.count for step in steps for part in step.parts if len(part.entries) > 2000] == [1]
    assert sum(part.count for step in steps for part in step.parts) == 80


# ---- what stops ----------------------------------------------------------------------------------------------------


def until_it_fails(steps: Iterator[Step]) -> tuple[list[Step], Exception | None]:
    found: list[Step] = []
    try:
        for step in steps:
            found.append(step)
    except Exception as failed:
        return found, failed
    return found, None


@pytest.mark.parametrize("codec", [0, GZIP])
def test_damage_stops_behind_what_precedes_it(form: str, codec: int) -> None:
    data = bytearray(many(90) + many(50, 0, codec, first=190))
    at = len(many(90)) + (0 if codec else len(many(50)) // 2)
    data[at + 20] ^= 1
    message_set = fetched(bytes(data), 100)
    route = route_to(V082)
    steps, failed = until_it_fails(route.steps(message_set, False))
    assert isinstance(failed, CorruptMessage)
    before = 90 if codec else 115
    assert steps[-1].resume_at == 100 + before
    assert sum(part.count for step in steps for part in step.parts) == before


def test_a_partitioner_that_fails_stops_behind_what_precedes_its_message(form: str) -> None:
    def third(key: bytes, partitions: int) -> int:
        if key == b"key37":
            raise KeyError("no region")
        return 0

    for pure in (False, True):
        third.pure = pure  # type: ignore[attr-defined]
        route = route_to(V082, partitioner=third)
        steps, failed = until_it_fails(route.steps(fetched(many(60), 100), False))
        assert isinstance(failed, MessageHandlerFailed)
        assert failed.offset == 137
        assert str(failed) == "t/1 at 137: partitioner.class own raised KeyError: 'no region'"
        assert steps[-1].resume_at == 137
        assert sum(part.count for step in steps for part in step.parts) == 37
    steps, failed = until_it_fails(route.steps(fetched(many(60)[len(many(37)) :], 137), False))
    assert (steps, isinstance(failed, MessageHandlerFailed)) == ([], True)


def test_what_gives_no_index_is_refused_by_name(form: str) -> None:
    for wrong in (3, -1, True, "0", None):
        route = route_to(V082, partitioner=lambda key, partitions, wrong=wrong: wrong)
        _, failed = until_it_fails(route.steps(fetched(many(40), 100), False))
        given = wrong if type(wrong) is int else f"a {type(wrong).__name__}"  # which may be the key
        assert str(failed) == f"t/1 at 100: partitioner.class own gave back {given} for 3 partitions: 0 to 2 are there"


def test_a_field_that_may_not_be_lost_stops_at_its_message(form: str) -> None:
    rows = [(100 + n, b"key%d" % n, b"v", 5000) for n in range(50)]
    message_set = fetched(batch(rows, 0, [HEADERS if n == 33 else None for n in range(50)]), 100)
    route = route_to(V010)
    steps, failed = until_it_fails(route.steps(message_set, False))
    assert isinstance(failed, FieldLost)
    assert failed.offset == 133
    assert sum(part.count for step in steps for part in step.parts) == 33
    counts: dict[tuple[str, str], int] = {}
    rest = {"drop": frozenset({"headers", "timestamps"}), "dropped": counts}
    steps = steps_of(route_to(V082, **rest), message_set)
    assert counts == {("t", "headers"): 1, ("t", "timestamps"): 50}
    assert {len(message) for messages in read(steps).values() for message in messages} == {4}


# ---- messages of 0.7, which share offsets ------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["round-robin", "random", "sticky"])
def test_messages_of_0_7_are_spread_and_a_wrapper_is_all_of_a_step_or_none(form: str, way: str) -> None:
    plain = [(n, None, b"p%d" % n, None) for n in range(40)]
    wrapped = [(n, None, b"w%d" % n, None) for n in range(60)]
    first = V07.messages.encode(plain, 0, -1)
    data = first + V07.messages.encode(wrapped, GZIP, -1) + first
    message_set, _ = V07.messages.message_set("t", BrokerPartition(0, 1), 500, memoryview(data), None)
    route = route_to(V082, of=V07, partitioner=None, chosen={"unkeyed": way})
    steps = steps_of(route, message_set)
    well_formed(steps, message_set)
    found = read(steps)
    sent = [one[1] for messages in found.values() for one in messages]
    assert sorted(sent) == sorted(value for *_, value, _ in (*plain, *wrapped, *plain))
    if way == "round-robin":
        assert {len(messages) for messages in found.values()} <= {46, 47}
    damaged = bytearray(data)
    damaged[len(first) + 40] ^= 1
    message_set, _ = V07.messages.message_set("t", BrokerPartition(0, 1), 500, memoryview(bytes(damaged)), None)
    before, failed = until_it_fails(route.steps(message_set, False))
    assert isinstance(failed, CorruptMessage)
    assert before[-1].resume_at == 500 + len(first)
    assert sum(part.count for step in before for part in step.parts) == 40


# ---- partitioners of a program, and keys that are missing --------------------------------------------------------


def test_a_pure_partitioner_is_asked_once_for_each_key_of_a_set(form: str) -> None:
    asked: list[bytes] = []

    def own(key: bytes, partitions: int) -> int:
        asked.append(key)
        return int(key[3:]) % partitions

    message_set = fetched(many(400) + many(200, 0, GZIP, first=500), 100)
    wanted = slow(message_set, lambda key, partitions: int(key[3:]) % partitions, 3, V082)
    assert read(steps_of(route_to(V082, partitioner=own), message_set)) == wanted
    assert len(asked) == 600
    asked.clear()
    own.pure = True  # type: ignore[attr-defined]
    assert read(steps_of(route_to(V082, partitioner=own), message_set)) == wanted
    assert sorted(asked) == sorted(b"key%d" % n for n in range(40))


@pytest.mark.parametrize("partitioner", [murmur2_partitioner, byte_array_partitioner])
@pytest.mark.parametrize("way", ["", "round-robin", "random", "sticky", "batch"])
def test_messages_without_a_key_go_as_the_target_says(form: str, way: str, partitioner: object) -> None:
    rows = [(100 + n, None if n % 2 else b"key%d" % n, b"v%d" % n, None) for n in range(100)]
    message_set = fetched(v01.encode(rows), 100)
    found = read(steps_of(route_to(V082, partitioner=partitioner, chosen={"unkeyed": way}), message_set))
    keyed = {tp: [one for one in messages if one[0] is not None] for tp, messages in found.items()}
    wanted = slow(message_set, partitioner, 3, V082)
    for tp, messages in wanted.items():
        assert keyed[tp] == [one for one in messages if one[0] is not None]
    without = sorted(sum(one[0] is None for one in messages) for messages in found.values())
    assert sum(without) == 50
    if way in ("", "sticky", "batch"):
        assert without == [0, 0, 50]
    if way == "round-robin":
        assert without == [16, 17, 17]


def test_a_topic_without_keys_stays_together(form: str) -> None:
    rows = [(100 + n, None, b"v%d" % n, None) for n in range(100)]
    steps = steps_of(route_to(V082), fetched(v01.encode(rows), 100))
    ((_, messages),) = read(steps).items()
    assert [value for _, value, *_ in messages] == [b"v%d" % n for n in range(100)]


# ---- lists, as handlers and encoders make them -------------------------------------------------------------------

BLOCKS = st.sampled_from([None, None, HEADERS])
MADE = st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=5), st.none() | st.just(7), BLOCKS)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(MADE, max_size=100),
    st.sampled_from(BUILT_IN),
    st.sampled_from([1, 2, 3, 50]),
    st.booleans(),
    st.sampled_from([0, 0, 3]),
    st.none() | st.integers(0, 99),
)
def test_lists_go_where_their_keys_say(
    made: list[Written], built_in: object, partitions: int, compiled: bool, chosen_every: int, fails: int | None
) -> None:
    def own(key: bytes, partitions: int) -> int:
        if fails is not None and fails < len(made) and key == made[fails][0]:
            raise KeyError("no region")
        return built_in(key, partitions)  # type: ignore[no-any-return, operator]

    partitioner = built_in if fails is None else own
    with pytest.MonkeyPatch.context() as patched:
        if not compiled:
            in_python(patched)
        route = route_to(V39, partitions=partitions, partitioner=partitioner)
        source = TopicPartition("t", 1)
        offsets = list(range(100, 100 + len(made)))
        keys, values, stamps, blocks = ([one[n] for one in made] for n in range(4))
        rows = Rows(offsets, keys, values, stamps, 999, blocks if any(blocks) else None)  # type: ignore[arg-type]
        named = [0 if n % chosen_every == 0 else None for n in range(len(made))] if chosen_every else None
        wanted: dict[TopicPartition, list[Written]] = defaultdict(list)
        refused = None
        for n, one in enumerate(made):
            try:
                chosen = None if named is None else named[n]
                tp = route.partitioner.partition(1, one[0]) if chosen is None else route.partitioner.named(chosen)
            except PartitionerFailed as failed:
                refused = 100 + n, f"t/1 at {100 + n}: {failed}"
                break
            wanted[tp].append(one)
        into: dict[TopicPartition, Lists] = {}
        if refused is not None:
            with pytest.raises(MessageHandlerFailed) as raised:
                route.place(source, rows, into, named)
            assert ((raised.value.offset, str(raised.value)), into) == (refused, {})
            return
        route.place(source, rows, into, named)
        found = {
            tp: list(zip(*lists[:3], lists.headers or [None] * len(lists.keys), strict=True))
            for tp, lists in into.items()
        }
        assert found == wanted
