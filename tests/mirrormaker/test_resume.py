"""A partition is held back until it is known how much of it the target has; what cannot be told is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from groundwork.tasks import TaskGroup, sleep
from kafkawire import compression
from kafkawire.compression import GZIP
from kafkawire.dialects import dialect
from kafkawire.errors import LibraryMissing, LinkLost
from kafkawire.formats.v01 import messages as v08
from kafkawire.model import Broker, MessageSet, Part, TopicPartition
from kafkawire.protocol.request import ProducedPartition
from mirrormaker.offsetmap import resume
from mirrormaker.offsetmap.checkpoints import Checkpoint, TargetOffsets
from mirrormaker.offsetmap.file import FileStorage, file_of
from mirrormaker.offsetmap.recorder import MapRecorder
from mirrormaker.offsetmap.resume import Resumer, SourceEnd
from mirrormaker.offsetmap.tail import Tail, TailRefused, digest
from mirrormaker.offsetmap.tickets import PartTicket, counted
from mirrormaker.routes import RouteRules, SourceTopic, TopicRoute, but_the_first
from producer.batches import Batch, Batches, Limits
from producer.conversion import Placed, Rows, pass_through
from producer.outcomes import Outcomes, Patience
from zkconsumer.errors import ConsumerError
from zkconsumer.fetching.position import Reset
from zkconsumer.offsetmap.text import Header

TP = TopicPartition("t", 0)
SPEAKS = dialect("0.8.2")
RULES = RouteRules(source=SPEAKS, target=SPEAKS, message_max_bytes=1_000_000)
ROUTE = TopicRoute("t", SourceTopic(1, 1), range(1), RULES)


def fetched(start: int, count: int, codec: int = 0, high_watermark: int = 100) -> MessageSet:
    rows = [(start + n, None, b"v%d" % (start + n), None) for n in range(count)]
    return v08.message_set("t", 0, start, memoryview(v08.encode(rows, codec)), high_watermark)[0]


def digests(first: int, last: int) -> tuple[int, ...]:
    return tuple(digest(None, b"v%d" % n) for n in range(first, last))


class Share:
    """Tickets of one period, and what each was told."""

    topic: int | None = None
    reset: Reset | None = None

    def __init__(self, period: object = "one") -> None:
        self.period = period
        self.told: list[tuple[object, ...]] = []
        self.owned, self.over = True, False

    @property
    def ended(self) -> Callable[[], bool]:
        return lambda: self.over

    def holding(self) -> Callable[[], bool]:
        return lambda: self.owned

    def ticket(self, resume_at: int, parts: int = 1) -> Share:
        self.told.append(("ticket", resume_at))
        return self

    def may_send(self) -> bool:
        return True

    def reached(self, resume_at: int) -> None: ...

    def done(self) -> None:
        self.told.append(("done",))

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self.told.append(("failed", str(reason), resume_at))


class Tails:
    """Gives what it was told to give, once it may."""

    def __init__(self, *answers: Tail | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[int | None] = []
        self.ready = True

    def read(self, tp: TopicPartition, begin: int | None, wanted: Callable[[], bool]) -> Tail | None:
        self.asked.append(begin)
        while not self.ready:
            sleep(0.01)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if wanted() else None


class Flow:
    """A Resumer, and what it passed on: start of the set, and how many of its messages are not to be sent."""

    def __init__(self, folder: Path, tasks: TaskGroup, tails: Tails) -> None:
        self.recorder = MapRecorder(FileStorage(file_of(folder, "dc1"), Header("dc1", "g"), 1 << 20), 100)
        self.source_ends: list[SourceEnd | Exception] = [SourceEnd(0, None)]  # the last one from then on
        self.resumer = Resumer(
            "dc1", tasks, recorder=self.recorder, tails=tails, unpark=lambda tp: False, source_end=self._source_end
        )
        self.waiting = self.resumer.waiting
        self.passed: list[tuple[int, int]] = []

    def _source_end(self, tp: TopicPartition) -> SourceEnd:
        found = self.source_ends.pop(0) if len(self.source_ends) > 1 else self.source_ends[0]
        if isinstance(found, Exception):
            raise found
        return found

    def take(self, one: MessageSet, share: Share, topic: TopicRoute = ROUTE) -> None:
        self.resumer.admit(one, share, topic, lambda _, each, share, skipped: self.passed.append((each.start, skipped)))

    def checkpoint(self, offset: int, end: int, topic: int | None = None) -> None:
        self.recorder.begin(TP, TP, period="before", owned=lambda: True, offset=offset, end=end, topic=topic)


def until(condition: Callable[[], object]) -> None:
    for _ in range(500):
        if condition():
            return
        sleep(0.01)
    raise AssertionError("waited 5 s in vain")


def test_sets_wait_for_the_tail_and_those_that_are_there_are_not_sent(tmp_path: Path, tasks: TaskGroup) -> None:
    tails = Tails(Tail(50, 55, digests(10, 15), empty=False))
    tails.ready = False
    flow, share = Flow(tmp_path, tasks, tails), Share()
    flow.checkpoint(10, 50)
    for start in (8, 11, 14, 17):
        flow.take(fetched(start, 3), share)
    until(lambda: tails.asked == [50])
    assert flow.waiting == {"t/0": "resume: the target's end must not move for one request.timeout.ms"}
    assert flow.passed == []
    tails.ready = True
    until(lambda: len(flow.passed) == 2)
    assert flow.passed == [(14, 1), (17, 0)]
    assert share.told == [("ticket", 11), ("done",), ("ticket", 14), ("done",)]
    assert flow.recorder.checkpoint(TP, TP) == Checkpoint(15, 55)
    flow.take(fetched(20, 3), share)
    assert flow.passed[-1] == (20, 0)
    assert flow.waiting == {}


def test_a_set_is_compared_entry_by_entry_and_not_opened_behind_the_end_of_the_tail(
    tmp_path: Path, tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of all its messages was gigabytes where whoever writes to the topic wanted it so."""
    wrappers = [
        bytes(v08.encode([(3 * n + i, None, b"v%d" % (3 * n + i), None) for i in range(3)], GZIP)) for n in range(4)
    ]
    found = v08.message_set("t", 0, 0, memoryview(b"".join(wrappers)), 100)[0]
    opened: list[int] = []
    original = compression.opened
    monkeypatch.setattr(compression, "opened", lambda *args: (opened.append(1), original(*args))[1])
    flow = Flow(tmp_path, tasks, Tails(Tail(50, 54, digests(0, 4), False)))
    flow.checkpoint(0, 50)
    flow.take(found, Share())
    until(lambda: flow.passed == [(0, 4)])
    assert len(opened) == 2


def test_an_empty_target_is_begun_and_the_checkpoint_is_on_the_disk_before_anything_is_sent(
    tmp_path: Path, tasks: TaskGroup
) -> None:
    flow = Flow(tmp_path, tasks, Tails(Tail(7, 7, (), empty=True)))
    flow.take(fetched(30, 3), Share())
    until(lambda: flow.passed)
    assert flow.passed == [(30, 0)]
    assert flow.recorder.checkpoint(TP, TP) == Checkpoint(30, 7)


def test_a_target_that_does_not_answer_is_asked_again(tmp_path: Path, tasks: TaskGroup) -> None:
    flow = Flow(tmp_path, tasks, Tails(LinkLost("broker 1 is away"), Tail(0, 0, (), empty=True)))
    flow.take(fetched(0, 3), Share())
    until(lambda: flow.waiting == {"t/0": "resume: broker 1 is away"})
    until(lambda: flow.passed == [(0, 0)])


def test_another_period_reads_the_tail_again_and_what_the_old_one_held_is_forgotten(
    tmp_path: Path, tasks: TaskGroup
) -> None:
    tails = Tails(Tail(0, 0, (), empty=True), Tail(0, 0, (), empty=True))
    tails.ready = False
    flow, old, new = Flow(tmp_path, tasks, tails), Share("one"), Share("two")
    flow.take(fetched(0, 3), old)
    until(lambda: tails.asked)
    old.owned, old.over = False, True
    flow.take(fetched(0, 3), new)
    tails.ready = True
    until(lambda: flow.passed)
    assert flow.passed == [(0, 0)]
    assert old.told == []


@pytest.mark.parametrize("known", [True, False])
def test_of_a_topic_that_was_created_again_nothing_counts_as_being_there(
    tmp_path: Path, tasks: TaskGroup, known: bool
) -> None:
    """The checkpoint is at 10 of the former log: without a new period the first 10 messages would be left out."""
    flow, share = (
        Flow(tmp_path, tasks, Tails(Tail(60, 60, (), empty=False), Tail(60, 63, digests(0, 3), False))),
        Share(),
    )
    flow.checkpoint(10, 50, 7 if known else None)
    share.topic, share.reset = 9, None if known else Reset(0, 10, former=True)
    flow.take(fetched(0, 20), share)
    until(lambda: flow.passed == [(0, 0)])
    assert flow.recorder.checkpoint(TP, TP) == Checkpoint(0, 60)
    again = Share("parked, and read again")
    again.topic, again.reset = share.topic, share.reset
    flow.take(fetched(0, 20), again)
    until(lambda: flow.passed == [(0, 0), (0, 3)])  # of its own log it goes by the map


def test_after_a_reset_that_goes_back_nothing_counts_as_being_there_and_that_once(
    tmp_path: Path, tasks: TaskGroup
) -> None:
    """The log was cut below the checkpoint at 10: without a new period what came since would be left out."""
    tails = Tails(Tail(60, 60, (), empty=False), Tail(60, 63, digests(0, 3), False))
    flow, share = Flow(tmp_path, tasks, tails), Share()
    flow.checkpoint(10, 50)
    share.reset = Reset(0, 10)
    flow.take(fetched(0, 20), share)
    until(lambda: flow.passed == [(0, 0)])
    assert flow.recorder.checkpoint(TP, TP) == Checkpoint(0, 60)
    again = Share("parked, and read again")
    again.reset = share.reset
    flow.take(fetched(0, 20), again)
    until(lambda: flow.passed == [(0, 0), (0, 3)])


def test_a_reset_over_messages_that_are_gone_leaves_the_checkpoint_as_it_is(tmp_path: Path, tasks: TaskGroup) -> None:
    flow, share = Flow(tmp_path, tasks, Tails(Tail(50, 52, digests(10, 12), False))), Share()
    flow.checkpoint(10, 50)
    share.reset = Reset(8, 4)
    flow.take(fetched(8, 10), share)
    until(lambda: flow.passed == [(8, 4)])


def test_a_lease_that_lapses_and_is_renewed_holds_nothing_up(tmp_path: Path, tasks: TaskGroup) -> None:
    tails = Tails(Tail(0, 0, (), empty=True), Tail(0, 0, (), empty=True))
    tails.ready = False
    flow, share = Flow(tmp_path, tasks, tails), Share()
    flow.take(fetched(0, 3), share)
    until(lambda: tails.asked)
    share.owned, tails.ready = False, True
    until(lambda: len(tails.answers) == 1)
    share.owned = True
    until(lambda: flow.passed == [(0, 0)])


def test_a_set_that_cannot_be_opened_here_parks_its_partition(
    tmp_path: Path, tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(self: MessageSet, check_crcs: bool = True) -> None:
        raise LibraryMissing("zstd needs a library")

    flow, share = Flow(tmp_path, tasks, Tails(Tail(50, 52, digests(10, 12), False))), Share()
    flow.checkpoint(10, 50)
    monkeypatch.setattr(MessageSet, "messages", missing)
    flow.take(fetched(10, 3), share)
    until(lambda: len(share.told) == 2)
    assert "the source cannot be compared: zstd needs a library" in str(share.told[1][1])
    assert tasks.death is None


REFUSALS = [
    ((10, 50), Tail(50, 52, (1, 2), False), "what it holds at 50 is not what the source has next"),
    ((10, 50), Tail(50, 53, (*digests(10, 12), 9), False), "what it holds at 52 is not what the source has next"),
    ((5, 50), Tail(50, 52, digests(5, 7), False), "2 messages lie behind the last checkpoint of the map, which is 5"),
    (None, Tail(9, 9, (), False), "the map has no checkpoint for it, and its log, which ends at 9, holds messages"),
    ((10, 50), TailRefused("offset 50 is missing in its log"), "offset 50 is missing in its log"),
]


@pytest.mark.parametrize(("checkpoint", "tail", "sentence"), REFUSALS)
def test_what_is_not_known_is_refused(
    tmp_path: Path, tasks: TaskGroup, checkpoint: tuple[int, int] | None, tail: Tail | Exception, sentence: str
) -> None:
    flow, share = Flow(tmp_path, tasks, Tails(tail)), Share()
    if checkpoint is not None:
        flow.checkpoint(*checkpoint)
    flow.take(fetched(10, 3), share)
    until(lambda: len(share.told) == 2)
    kind, reason, at = share.told[1]
    assert (kind, at) == ("failed", 10)
    assert str(reason).startswith(f"t/0 into t/0, resume: target-end: {sentence}")
    assert str(reason).endswith("or set resume: committed once")
    flow.take(fetched(13, 3), share)
    assert share.told[-1][0] == "failed"
    assert flow.passed == []


def test_the_first_messages_are_left_out_once() -> None:
    given: list[list[int]] = []

    def place(rows: Rows) -> list[Placed]:
        given.append(list(rows.offsets))
        return [Placed({}, rows.resume_at)]

    rest = but_the_first(4, place)
    for offsets in ([0, 1, 2], [3, 4], [5]):
        nothing: list[bytes | None] = [None] * len(offsets)
        list(rest(Rows(offsets, nothing, nothing, [None] * len(offsets), offsets[-1] + 1)))
    assert given == [[4], [5]]


def test_a_wrapper_is_opened_to_be_counted() -> None:
    [step] = pass_through(fetched(0, 30, codec=2), TP, SPEAKS, 1_000_000, aligned=True)
    [part] = step.parts
    assert (part.count, part.counted) == (1, False)
    found = counted(part, SPEAKS)
    assert (found.count, found.counted) == (30, True)
    assert counted(found, SPEAKS) is found


class Period:
    """What a PartTicket tells."""

    def __init__(self) -> None:
        self.over = False

    def sends(self, target: TopicPartition) -> TargetOffsets:
        return TargetOffsets(target, 0)

    def failed(self) -> None:
        self.over = True


def unknown_batch(once: bool) -> tuple[Outcomes, Batches, Batch, Share, list[str]]:
    """One batch in flight, with a ticket that must not be stored twice, or may."""
    said: list[str] = []
    share, batches = Share(), Batches(Limits())
    outcomes = Outcomes(batches, Patience(), v08, lambda level, event: said.append(event))
    again: list[str] = []
    unknown = (lambda: again.append("again")) if once else None
    part = Part(TP, v08.encode([(0, None, b"v", None)]), 0, 0, 1)
    batches.add(part, PartTicket(share, Period(), part, position=1, unknown=unknown), 0.0)  # type: ignore[arg-type]
    [batch] = batches.due(0.0, lambda tp: True)
    return outcomes, batches, batch, share, again


@pytest.mark.parametrize(
    "answer",
    [
        None,
        *[ProducedPartition(code, 5, version=8) for code in (3, 6, 7, 20)],
        *[ProducedPartition(code, -1, version=8) for code in (-1, 7, 20, 56)],
        *[ProducedPartition(6, -1, version=version) for version in range(4)],  # it may hide a 56
    ],
)
def test_what_may_be_stored_is_not_sent_again_but_looked_for(answer: ProducedPartition | None) -> None:
    outcomes, batches, batch, share, again = unknown_batch(once=True)
    if answer is None:
        outcomes.lost(batch, LinkLost("broker 1 is gone"), 1.0)
    else:
        outcomes.answered(batch, answer, Broker(1, "h", 1), 1.0)
    assert again == ["again"]
    [(kind, reason, _)] = share.told
    assert kind == "failed"
    assert str(reason).endswith("it is not known whether it is stored, so it is not sent again")
    assert not batches


@pytest.mark.parametrize(("once", "code"), [(False, None), (False, 7), (True, 6), (True, 5), (True, 3), (True, 19)])
def test_what_is_not_stored_or_may_be_twice_is_sent_again(once: bool, code: int | None) -> None:
    outcomes, batches, batch, share, again = unknown_batch(once)
    if code is None:
        outcomes.lost(batch, LinkLost("broker 1 is gone"), 1.0)
    else:
        outcomes.answered(batch, ProducedPartition(code, -1, version=4), Broker(1, "h", 1), 1.0)
    assert (share.told, again) == ([], [])
    assert len(batches) == 1


def test_a_route_that_does_not_keep_the_number_of_partitions_is_refused(tmp_path: Path, tasks: TaskGroup) -> None:
    flow, share = Flow(tmp_path, tasks, Tails()), Share()
    flow.take(fetched(0, 3), share, TopicRoute("t", SourceTopic(2, 1), range(1), RULES))
    (_, (kind, reason, at)) = share.told
    assert (kind, at) == ("failed", 0)
    assert str(reason).startswith("topic t: resume is target-end, which needs partitions that keep their number")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "RETRY_S", 0.02)


def test_a_source_whose_new_leader_shows_less_than_was_copied_is_waited_for(
    tmp_path: Path, tasks: TaskGroup, soon: None
) -> None:
    """Its high watermark is below what it showed before the election, until its followers have fetched."""
    flow, share = Flow(tmp_path, tasks, Tails(Tail(50, 55, digests(10, 15), empty=False))), Share()
    flow.source_ends = [ConsumerError("no leader"), SourceEnd(20, 11)]
    flow.checkpoint(10, 50)
    flow.take(fetched(10, 1, high_watermark=11), share)
    until(lambda: "the source's leader shows its log up to 11" in flow.waiting.get("t/0", ""))
    assert share.told == []
    flow.take(fetched(11, 9, high_watermark=20), share)
    until(lambda: flow.passed == [(11, 4)])
    assert share.told == [("ticket", 11), ("done",)]
    assert flow.recorder.checkpoint(TP, TP) == Checkpoint(15, 55)
    until(lambda: not flow.waiting)


def test_a_source_that_ends_before_what_was_copied_is_refused(tmp_path: Path, tasks: TaskGroup, soon: None) -> None:
    flow, share = Flow(tmp_path, tasks, Tails(Tail(50, 55, digests(10, 15), empty=False))), Share()
    flow.source_ends = [SourceEnd(20, 11), SourceEnd(11, 11)]
    flow.checkpoint(10, 50)
    flow.take(fetched(10, 1, high_watermark=11), share)
    until(lambda: len(share.told) == 2)
    kind, reason, at = share.told[1]
    assert (kind, at) == ("failed", 10)
    assert "what it holds at 51 is not what the source has next" in str(reason)


def test_copies_at_the_end_of_the_tail_are_none_of_the_source_s_next_messages_once_it_has_no_more(
    tmp_path: Path, tasks: TaskGroup, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """11 and 12 are ends of transactions, which no set covers: they have been read."""
    monkeypatch.setattr(resume, "QUIET_S", 0.05)
    flow, share = Flow(tmp_path, tasks, Tails(Tail(50, 52, digests(10, 11) * 2, empty=False))), Share()
    flow.source_ends = [SourceEnd(13, 11), SourceEnd(13, 13)]
    flow.checkpoint(10, 50)
    flow.take(fetched(10, 1, high_watermark=11), share)
    until(lambda: share.told == [("ticket", 11), ("done",)])
    assert flow.recorder.checkpoint(TP, TP) == Checkpoint(11, 52)
