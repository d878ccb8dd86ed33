"""Policies for bad messages in a flow: a source partition in memory, a target that refuses what is too large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from groundwork.tasks import TaskGroup, sleep
from kafkawire.compression import GZIP
from kafkawire.dialects import dialect
from kafkawire.errors import BrokerError, CorruptMessage, RemoteError
from kafkawire.headers import packed
from kafkawire.model import Broker, Message, MessageSet, Part, Ticket, TopicPartition
from mirrormaker import quarantine as module
from mirrormaker.badmessages import Policies, Policy
from mirrormaker.deadletter import HEADERS_MAX, DeadLetter, read
from mirrormaker.flow import Flow
from mirrormaker.handler import Handler, MessageHandler
from mirrormaker.isolation import bad_message, isolated
from mirrormaker.options import TargetOptions
from mirrormaker.partitioning import NoSuchPartition
from mirrormaker.quarantine import DeadLetters, Quarantine, ReleaseRefused
from mirrormaker.routes import RouteRules, SourceTopic
from producer.conversion import MessageHandlerFailed
from producer.errors import TooLarge, Waiting
from zkconsumer.errors import OutOfRange
from zkconsumer.fetching.committable import DeliveryTicket, Parked, Progress

TP = TopicPartition("t", 0)
LARGE = 1000  # bytes of a value that the target refuses
Values = list[bytes | None]


class Delivered:
    """A set as its stream gives it: its tickets are of the progress that it was fetched for."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def ticket(self, resume_at: int, parts: int = 1) -> DeliveryTicket:
        return self._progress.ticket(resume_at, parts)

    def holding(self) -> Callable[[], bool]:
        return lambda: True


class Partition:
    """A source partition: entries in memory, fetched all at once each time; what a Source says of it."""

    def __init__(self, release: str) -> None:
        self.options = SimpleNamespace(version=release)
        self.name = "dc1"
        self.in_target, self.deleted = False, dict[str, str]()
        self.forward: Callable[[MessageSet, Delivered], None]
        self.log = b""
        self.begin = 1000 if release == "0.7.2" else 0
        self.progress = Progress(self.begin)
        self.fetched = 0
        self.owned = True
        self.period, self.reset = "one", None
        self.dialect = self._dialect = dialect(release)

    topic_id: int | None = None

    def topic(self, name: str) -> SourceTopic:
        return SourceTopic(1, 1)

    def parked(self) -> dict[TopicPartition, Parked]:
        return {TP: self.progress.parked} if self.progress.parked is not None and self.owned else {}

    def drained(self, tp: TopicPartition) -> bool:
        return self.progress.idle

    def unpark(self, tp: TopicPartition, *, go_on_at: int | None = None, measure: bool = False) -> bool:
        if self.progress.parked is None or not self.progress.idle:
            return False
        at = self.progress.committable
        self.fetch(at if go_on_at is None else max(at, go_on_at))
        return True

    def fetch(self, at: int) -> None:
        self.progress.close()  # a set from before, of which some is forwarded yet, counts no more
        self.progress = Progress(at)
        self.fetched += 1
        data = self.log if self.begin == 0 else self.log[at - self.begin :]
        found, scan = self._dialect.messages.message_set("t", 0, at, memoryview(data), None)
        assert scan.damage is None
        if found.runs:
            self.forward(found, Delivered(self.progress))


class Target:
    """Stores messages; a part with one that is too large fails there, as after a split."""

    def __init__(self) -> None:
        self.dialect = dialect("0.8.2")
        self.options = TargetOptions(brokers=(("b", 1),), message_max_bytes=100_000)
        self.topics = self
        self.outage = ""
        self.values: Values = []
        self.letters: list[DeadLetter] = []
        self.takes_letters = True
        self.refuses: Exception = CorruptMessage("wrong crc (sent to t/0)", 0)
        self.held: list[tuple[Part, Ticket]] | None = None

    def sender_of(self, source: str) -> Target:
        return self

    def prepare(self, topic: str, source: SourceTopic) -> range:
        if topic == "dead" and not self.takes_letters:
            raise RemoteError("nobody answers")
        return range(1)

    def submit(self, part: Part, ticket: Ticket) -> None:
        if self.held is not None:
            self.held.append((part, ticket))
            return
        if not ticket.may_send():
            return
        entries = memoryview(bytes(part.entries))
        for message in self.dialect.messages.message_set("t", 0, 0, entries, None)[0].messages():
            value = message.value or b""
            if part.tp.topic == "dead":
                self.letters.append(read(value))
                continue
            if len(value) >= LARGE:
                ticket.failed(TooLarge(f"t/0: {len(value)} bytes are too large", len(value), Broker(0, "b", 1)), None)
                return
            if value.startswith(b"refuse"):
                ticket.failed(self.refuses, None)
                return
            self.values.append(value)
        ticket.done()


class Mirrored:
    """A flow out of the partition into the target, with its quarantine at work."""

    def __init__(self, tasks: TaskGroup, release: str, policies: Policies, handler: Handler | None, dead: bool) -> None:
        self.source, self.target, self.failed = Partition(release), Target(), list[str]()
        source, target = self.source, self.target
        letters = DeadLetters("dead", "dc1", target) if dead else None  # type: ignore[arg-type]
        self.quarantine = Quarantine(
            source, tasks, policies=lambda topic: policies, letters=letters, on_fail=self.failed.append,  # type: ignore[arg-type]
        )  # fmt: skip
        rules = RouteRules(
            source=dialect(release),
            target=target.dialect,
            message_max_bytes=100_000,
            handler="a:b" if handler else "",
        )
        made = MessageHandler(handler, "a:b", "dc1", target.dialect) if handler else None
        self.flow = Flow(source, target, rules, tasks, handler=made, quarantine=self.quarantine)  # type: ignore[arg-type]
        source.forward = self.flow.take  # type: ignore[assignment]
        tasks.spawn("quarantine", self.quarantine.run)
        self._encode = dialect(release).messages.encode
        self._next = 0

    def add(self, *values: bytes, codec: int = 0) -> None:
        numbers = range(self._next, self._next + len(values))
        self.source.log += self._encode([(n, None, v, None) for n, v in zip(numbers, values, strict=True)], codec=codec)
        self._next += len(values)

    def start(self) -> None:
        self.source.fetch(self.source.begin)

    @property
    def end(self) -> int:
        return self.source.begin + len(self.source.log) if self.source.begin else self._next

    def until(self, condition: Callable[[], object]) -> None:
        for _ in range(800):
            if condition():
                return
            sleep(0.01)
        raise AssertionError(f"{self.flow.waiting} {self.target.values} {self.source.progress.parked}")

    def until_done(self) -> None:
        self.until(lambda: self.source.progress.committable == self.end)


Start = Callable[..., Mirrored]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setattr(module, "POLL_S", 0.01)
    monkeypatch.setattr(module, "BUSY_POLL_S", 0.01)
    monkeypatch.setattr(module, "backoff_s", lambda refetched: 0.01)
    tasks = TaskGroup()

    def made(policies: Policies, release: str = "0.8.2", handler: Handler | None = None, dead: bool = True) -> Mirrored:
        return Mirrored(tasks, release, policies, handler, dead)

    yield made
    tasks.stop(2)
    assert tasks.death is None


def large(n: int) -> bytes:
    return b"%d" % n * LARGE


def picky(message: Message) -> Any:
    """A handler that changes what it is given before it raises."""
    value, message.value = message.value, b"changed"
    if value is not None and value.startswith(b"raise"):
        raise ValueError("not for me")
    return message.key, value


@pytest.mark.parametrize("release", ["0.8.2", "0.7.2"])
@pytest.mark.parametrize("policy", ["dead-letter", "skip"])
def test_exactly_the_large_messages_are_left_out_also_of_wrappers(start: Start, release: str, policy: str) -> None:
    mirrored = start(Policies(oversize=policy), release)  # type: ignore[arg-type]
    for value in (b"0", b"1", large(2), b"3"):
        mirrored.add(value)
    mirrored.add(b"4", large(5), b"6", large(7), codec=GZIP)
    mirrored.add(b"8")
    mirrored.start()
    mirrored.until_done()
    assert list(dict.fromkeys(mirrored.target.values)) == [b"0", b"1", b"3", b"4", b"6", b"8"]
    assert [letter.data for letter in mirrored.target.letters] == (
        [large(2), large(5), large(7)] if policy == "dead-letter" else []
    )
    word = "oversize dead-letter" if policy == "dead-letter" else "oversize skipped"
    assert mirrored.flow.left_out == {("t", word): 3}


def test_messages_that_share_an_offset_are_not_stored_again_by_each_try(start: Start) -> None:
    mirrored = start(Policies(oversize="skip"), "0.7.2")
    mirrored.add(*[b"%d" % n for n in range(5)], large(5), *[b"%d" % n for n in range(6, 9)], large(9), codec=GZIP)
    mirrored.start()
    mirrored.until_done()
    stored = mirrored.target.values
    assert list(dict.fromkeys(stored)) == [b"%d" % n for n in (0, 1, 2, 3, 4, 6, 7, 8)]
    assert max(stored.count(value) for value in stored) <= 2  # before it was known which one is large, and alone


@pytest.mark.parametrize("policy", ["dead-letter", "skip"])
@pytest.mark.parametrize("codec", [0, GZIP])
def test_what_a_handler_raises_for_is_left_out_without_a_stop(start: Start, policy: str, codec: int) -> None:
    mirrored = start(Policies(handler=policy), handler=picky)  # type: ignore[arg-type]
    mirrored.add(b"0", b"raise 1", b"2", codec=codec)
    mirrored.until(lambda: mirrored.quarantine._letters is not None and mirrored.quarantine._letters.partitions)
    mirrored.start()
    mirrored.until_done()
    assert mirrored.target.values == [b"0", b"2"]
    assert mirrored.source.fetched == 1
    assert [(letter.offset, letter.kind, letter.data) for letter in mirrored.target.letters] == (
        [(1, "handler", b"raise 1")] if policy == "dead-letter" else []
    )
    assert "a:b raised ValueError: not for me" in "".join(letter.reason for letter in mirrored.target.letters) or (
        policy == "skip"
    )


def test_while_the_dead_letter_topic_is_away_a_partition_is_parked_and_says_so(start: Start) -> None:
    mirrored = start(Policies(handler="dead-letter"), handler=picky)
    mirrored.target.takes_letters = False
    mirrored.add(b"0", b"raise 1", b"2")
    mirrored.start()
    mirrored.until(lambda: mirrored.flow.waiting)
    assert mirrored.flow.waiting == {"t/0": "t/0 at 1: its dead letter cannot be stored in dead: nobody answers"}
    assert mirrored.target.values == [b"0"]
    assert mirrored.source.progress.committable == 1
    assert not mirrored.quarantine.holds(TP)  # parked.retry.ms tries it again
    mirrored.target.takes_letters = True
    assert mirrored.source.unpark(TP)
    mirrored.until_done()
    mirrored.until(lambda: not mirrored.flow.waiting)
    assert mirrored.target.values == [b"0", b"2"]
    assert [letter.offset for letter in mirrored.target.letters] == [1]


def test_the_source_goes_on_only_once_the_dead_letter_is_acknowledged(start: Start) -> None:
    mirrored = start(Policies(oversize="dead-letter"))
    mirrored.add(b"0", large(1), b"2")
    mirrored.quarantine._letters.prepare()  # type: ignore[union-attr]
    mirrored.start()
    submit, letters = mirrored.target.submit, []

    def hold(part: Part, ticket: Ticket) -> None:
        (letters.append((part, ticket)) if part.tp.topic == "dead" else submit(part, ticket))

    mirrored.flow.sender.submit = hold  # type: ignore[method-assign,assignment]
    mirrored.until(lambda: letters)
    sleep(0.1)
    assert mirrored.source.progress.parked is not None
    assert mirrored.source.progress.committable == 1
    assert mirrored.flow.left_out == {}
    submit(*letters.pop())
    mirrored.until_done()
    assert mirrored.flow.left_out == {("t", "oversize dead-letter"): 1}


def test_damage_is_fetched_again_three_times_before_it_is_left_out(start: Start) -> None:
    mirrored = start(Policies(corrupt="skip"))
    mirrored.add(b"0")
    mirrored.add(b"refuse 1")
    mirrored.add(b"2")
    mirrored.start()
    mirrored.until_done()
    assert list(dict.fromkeys(mirrored.target.values)) == [b"0", b"2"]
    assert mirrored.source.fetched == 1 + 1 + 3 + 1  # at first, one by one, three times again, behind it
    assert mirrored.flow.left_out == {("t", "corrupt skipped"): 1}


def test_damage_that_is_gone_when_it_is_fetched_again_is_not_left_out(start: Start) -> None:
    mirrored = start(Policies(corrupt="skip"))
    mirrored.add(b"0")
    mirrored.add(b"refuse 1")
    mirrored.start()
    mirrored.until(lambda: mirrored.source.fetched == 3)
    mirrored.source.log = mirrored.source.log.replace(b"refuse 1", b"accept 1")
    mirrored.source.log = dialect("0.8.2").messages.encode([(0, None, b"0", None), (1, None, b"accept 1", None)])
    mirrored.until_done()
    assert list(dict.fromkeys(mirrored.target.values)) == [b"0", b"accept 1"]
    assert mirrored.flow.left_out == {}


@pytest.mark.parametrize("kind", ["oversize", "handler", "corrupt"])
def test_fail_names_the_message_and_what_helps(start: Start, kind: str) -> None:
    mirrored = start(Policies(**{kind: "fail"}), handler=picky if kind == "handler" else None)
    bad = {"oversize": large(1), "handler": b"raise", "corrupt": b"refuse"}[kind]
    for value in (b"0", bad, b"2"):
        mirrored.add(value)
    mirrored.start()
    mirrored.until(lambda: mirrored.failed)
    sleep(0.05)
    [sentence] = mirrored.failed
    assert sentence.startswith("source dc1: t/0 at 1: ")
    assert "policy is fail: " in sentence
    assert mirrored.source.progress.committable == 1


def test_park_fetches_nothing_again_where_the_reason_names_the_message(start: Start) -> None:
    mirrored = start(Policies(oversize="skip", refused="skip", handler="skip"))
    mirrored.add(b"0", b"refuse 1")
    mirrored.start()
    sleep(0.2)
    assert mirrored.source.fetched == 1
    assert mirrored.source.progress.parked is not None
    assert not mirrored.quarantine.holds(TP)


@pytest.mark.parametrize(
    ("reason", "kind"), [(BrokerError(87, "t/0"), "refused"), (BrokerError(-1, "t/0"), "unclear"), (None, "oversize")]
)
@pytest.mark.parametrize("codec", [0, GZIP])
def test_what_a_target_refuses_parks_at_the_message_behind_all_that_it_takes(
    start: Start, codec: int, reason: Exception | None, kind: str
) -> None:
    mirrored = start(Policies(), dead=False)
    if reason is not None:
        mirrored.target.refuses = reason
    bad = b"refuse 2" if reason is not None else large(2)
    mirrored.add(b"0", b"1", bad, b"3", codec=codec)
    mirrored.start()
    mirrored.until(lambda: mirrored.source.progress.committable == 2 and mirrored.source.parked())
    where = mirrored.source.parked()[TP]
    assert where.position == 2
    assert mirrored.target.values[-2:] == [b"0", b"1"]
    mirrored.until(lambda: not mirrored.quarantine.holds(TP))  # parked.retry.ms may try it again
    fetched = mirrored.source.fetched
    for _ in range(3):  # each retry finds it again, and holds one of it
        assert mirrored.source.unpark(TP)
        mirrored.until(lambda: mirrored.source.parked() and not mirrored.quarantine.holds(TP))
        assert mirrored.source.parked()[TP].position == 2
    assert mirrored.source.fetched == fetched + 3
    found = mirrored.quarantine.at_fault(TP, mirrored.source.parked()[TP])
    assert found is not None
    assert (found.offset, found.kind, found.resume_at) == (2, kind, 3)
    assert found.named == f"the message at 2 with no key, a value of {len(bad)} bytes"
    assert mirrored.quarantine.kinds(TP, mirrored.source.parked()[TP]) == {kind}
    mirrored.flow.release(TP, "skip")
    mirrored.until_done()
    assert mirrored.target.values[-1] == b"3"
    assert mirrored.flow.left_out == {("t", f"{kind} skipped"): 1}


def test_a_message_is_searched_until_what_it_is_searched_in_is_done(start: Start) -> None:
    mirrored = start(Policies())
    assert not mirrored.quarantine.searches(TP, 0)
    for value in (b"0", large(1), b"2"):
        mirrored.add(value)
    mirrored.start()
    mirrored.until(lambda: mirrored.quarantine.searches(TP, mirrored.source.progress.committable))
    assert not mirrored.quarantine.searches(TP, 3)


@pytest.mark.parametrize("action", ["dead-letter", "skip"])
def test_an_operator_releases_one_message_and_only_that(start: Start, action: str) -> None:
    mirrored = start(Policies())
    for value in (b"0", large(1), b"2", large(3), b"4"):
        mirrored.add(value)
    mirrored.start()
    mirrored.until(mirrored.source.parked)
    sentence = mirrored.flow.release(TP, action)
    assert sentence.startswith(
        f"t/0 at 1: {'skipped' if action == 'skip' else 'sent to the dead-letter topic'}, 1 message (oversize): "
    )
    mirrored.until(lambda: mirrored.source.parked() and mirrored.source.progress.committable >= 2)
    sleep(0.1)
    assert list(dict.fromkeys(mirrored.target.values)) == [b"0", b"2"]
    assert [letter.offset for letter in mirrored.target.letters] == ([1] if action == "dead-letter" else [])
    mirrored.flow.release(TP, action)
    mirrored.until_done()
    assert list(dict.fromkeys(mirrored.target.values)) == [b"0", b"2", b"4"]


def test_what_is_not_parked_because_of_a_message_is_not_released(start: Start) -> None:
    mirrored = start(Policies(), dead=False)
    mirrored.add(b"0")
    mirrored.start()
    with pytest.raises(ReleaseRefused, match="t/0 is not parked here"):
        mirrored.flow.release(TP, "skip")
    for reason in (OutOfRange(TP, 1, 2, 3, "b"), NoSuchPartition("t/0: none")):
        mirrored.source.progress.parked = Parked(reason, 1)
        with pytest.raises(ReleaseRefused, match="about no single message"):
            mirrored.flow.release(TP, "skip")
    with pytest.raises(ReleaseRefused, match="choose dead-letter or skip"):
        mirrored.flow.release(TP, "park")
    with pytest.raises(ReleaseRefused, match=r"give mirror\.dead\.letter\.topic"):
        mirrored.flow.release(TP, "dead-letter")


def test_a_partition_that_moves_while_its_dead_letter_is_sent_is_left_alone(start: Start) -> None:
    mirrored = start(Policies(oversize="dead-letter"))
    mirrored.add(b"0", large(1))
    mirrored.start()
    mirrored.until(lambda: mirrored.source.fetched >= 2 or mirrored.target.letters)
    mirrored.source.owned = False
    sleep(0.1)
    fetched = mirrored.source.fetched
    sleep(0.1)
    assert mirrored.source.fetched == fetched


def test_a_partition_that_parks_farther_on_for_another_reason_is_fetched_again(start: Start) -> None:
    mirrored = start(Policies())
    mirrored.add(b"0", b"1")
    submit, refusals = mirrored.target.submit, [BrokerError(-1, "t/0 on b:1")]

    def refuse_once(part: Part, ticket: Ticket) -> None:
        ticket.failed(refusals.pop(), None) if refusals else submit(part, ticket)

    mirrored.flow.sender.submit = refuse_once  # type: ignore[method-assign,assignment]
    mirrored.start()
    mirrored.until_done()  # one by one
    mirrored.target.refuses = Waiting(TP, "no leader")
    mirrored.add(b"refuse 2")
    mirrored.source.fetch(2)
    assert mirrored.source.progress.parked is not None
    mirrored.until(lambda: not mirrored.quarantine.holds(TP))  # parked.retry.ms fetches it again


def test_many_are_logged_a_few_times_and_counted(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    mirrored = start(Policies(handler="skip"), handler=picky)
    mirrored.add(*[b"raise %d" % n for n in range(50)])
    mirrored.start()
    mirrored.until_done()
    assert mirrored.flow.left_out == {("t", "handler skipped"): 50}
    assert sum("skipped, 1 message: handler" in record.message for record in caplog.records) == module.LOGGED
    mirrored.quarantine.left_out.log_counted()
    assert "topic t: 45 messages more: handler skipped; 50 since the start" in caplog.text


@pytest.mark.parametrize(
    ("release", "headers", "carried", "left_out"),
    [
        ("2.8", [("h", b"1"), ("h", None)], True, 0),
        ("2.8", None, False, 0),
        ("2.8", [("h", b"x" * HEADERS_MAX)], False, HEADERS_MAX + 6),
        ("0.10.1", [("h", b"1")], False, 5),
    ],
)
def test_a_dead_letter_has_the_headers_of_its_message_where_the_target_has_any(
    release: str, headers: Any, carried: bool, left_out: int
) -> None:
    """However the message came there: isolated out of a record batch, or as message.handler was given it."""
    target = Target()
    target.dialect = dialect(release)
    parts: list[Part] = []

    def store(part: Part, ticket: Ticket) -> None:
        parts.append(part)
        ticket.done()

    target.submit = store  # type: ignore[method-assign]
    letters = DeadLetters("dead", "dc1", target)  # type: ignore[arg-type]
    letters.prepare()
    block, of = packed(headers), dialect("2.8").messages
    stored = memoryview(bytes(of.encode([(0, b"k", b"v", 5)], 0, 2, [block])))
    message_set = of.message_set("t", 0, 0, stored, 9)[0]
    (one,) = isolated(message_set, 0, 1, dialect("2.8"))
    failed = MessageHandlerFailed("t/0 at 0: it raised")
    letters.send(bad_message(one, "handler", failed, dialect("2.8")), lambda sentence: None)
    (record,) = target.dialect.messages.message_set("dead", 0, 0, memoryview(bytes(parts[0].entries)), None)[
        0
    ].messages()
    assert (record.headers or ()) == (tuple(headers) if carried else ())
    letter = read(record.value or b"")
    assert (letter.key, letter.data, letter.headers_left_out) == (b"k", b"v", left_out)

    quarantine = Quarantine(
        Partition("2.8"), TaskGroup(), policies=lambda topic: Policies(handler="dead-letter"), letters=letters,  # type: ignore[arg-type]
    )  # fmt: skip
    (message,) = message_set.messages()
    (output,) = quarantine.handler_failed(message, failed)
    assert output.headers == (block if carried else None)
    assert read(output.value or b"").headers_left_out == left_out


@pytest.mark.parametrize("policy", ["skip", "park"])
def test_a_message_that_parks_while_one_in_front_of_it_is_in_flight_does_not_take_its_case(policy: Policy) -> None:
    """Each would be isolated in turn, for ever: the one behind parks first, and the one in front parks there again.

    policy: of the one behind, which is looked after, or stays where it parked."""
    front = Parked(TooLarge("t/0: too large", LARGE, Broker(0, "b", 1)), 3, 4)
    behind = Parked(CorruptMessage("wrong crc", 7), 7, 9)
    now_at, drained = front, True
    source: Any = SimpleNamespace(
        name="dc1", dialect=dialect("0.8.2"), parked=lambda: {TP: now_at}, drained=lambda tp: drained,
        unpark=lambda tp, **how: drained,
    )  # fmt: skip
    quarantine = Quarantine(source, TaskGroup(), policies=lambda topic: Policies(oversize="skip", corrupt=policy))
    fetched: Any = SimpleNamespace(tp=TP, start=3, resume_at=9)
    quarantine.look_after(1.0)
    case = quarantine.case(fetched)
    assert case is not None
    assert (case.begin, case.until) == (3, 4)
    now_at, drained = behind, False
    quarantine.look_after(2.0)
    assert quarantine.case(fetched) is case
    drained = True
    quarantine.look_after(3.0)
    found = quarantine.case(fetched)
    assert found is None if policy == "park" else found is not None and found.covers(behind)
