"""The transactions of a source partition, against a target that keeps transactions as Kafka does, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from groundwork.tasks import TaskGroup, now, sleep
from kafkawire.errors import CorruptMessage, LocalError
from kafkawire.model import Message, MessageSet, Part, ProducerId, TopicPartition
from kafkawire.protocol.stableoffsets import StableOffset
from kafkawire.protocol.transactionrequests import Initialized
from mirrormaker.exactlyonce.partition import Names, PartitionTransactions, Period, PeriodOver, Transacting
from mirrormaker.exactlyonce.position import metadata_of
from mirrormaker.exactlyonce.steps import Step
from mirrormaker.exactlyonce.transactions import SourceTransactions
from mirrormaker.flow import ShareTickets
from mirrormaker.options import MirrorOptions
from mirrormaker.target import Target
from producer import coordinators
from producer.outcomes import Counters
from producer.sender import Sender
from producer.sequences import Sequences
from producer.steps import Step as RouteStep
from producer.transaction import AddOffsets, AddPartitions, Ask, CommitOffsets, End, Initialize
from tests.fakes.tickets import Ticket
from tests.fakes.transacting import InMemory, Server
from zkconsumer.fetching.position import Reset

SOURCE, TARGET, BESIDE = TopicPartition("t", 0), TopicPartition("t", 3), TopicPartition("t", 4)
NAME, FORMER = "mirror-dc1-t-0", "mirror-dc1-t-0 of before"
NAMES = Names(NAME)
TOPIC = 7


def until(condition: Callable[[], object]) -> None:
    deadline = now() + 10
    while not condition():
        assert now() < deadline, "not within the time"
        sleep(0.005)


class FakeTarget(Server):
    """Transactions of one transactional id; what is committed, as a read_committed reader sees it.

    fail: what the next questions of a kind meet once the position was read: "over" (refused), "over after" (done, and
    refused); and at any time a code to refuse.  late_before: what comes late arrives before the next question of this
    kind.  store_s: a part takes so long; timeout_s: a transaction is aborted after that.
    """

    def __init__(self, **release: Any) -> None:
        super().__init__(**release)
        self.committed: list[bytes] = []
        self.open: list[bytes] = []
        self.fail: dict[type, list[str | int]] = {}
        self.ends = 0
        self.positions: list[StableOffset | None] = []  # all that were committed
        self.lapse: Member | None = None  # its lease lapses at the next commit of offsets
        self.late_before: type | None = None
        self.store_s, self.timeout_s, self._began = 0.0, 60.0, 0.0
        self._read_since = False  # the position, since the transactional id was initialized

    @property
    def position(self) -> StableOffset | None:
        group = self.group(NAME)
        group.catch_up()
        return group.committed.get(TARGET)

    @position.setter
    def position(self, row: StableOffset) -> None:
        self.group(NAME).committed[TARGET] = row

    @property
    def fenced(self) -> int:
        """How often the name of an earlier release was initialized."""
        return self.id(FORMER).epoch + 1

    def look_at_the_clock(self) -> None:
        """Abort the open transaction, if it is open for too long."""
        if self.id(NAME).state == "open" and now() - self._began > self.timeout_s:
            self.id(NAME).epoch += 1
            self.finish(NAME, False)

    def ask(self, name: str, producer: ProducerId | None, ask: Ask) -> Any:
        self.look_at_the_clock()
        if isinstance(ask, AddPartitions | AddOffsets) and self.id(NAME).state != "open":
            self._began = now()
        if type(ask) is self.late_before:
            self.late_before = None
            for arrive in self.late:
                arrive()
        met = self.fail.get(type(ask), [])
        what = met.pop(0) if met and (self._read_since or isinstance(met[0], int)) else ""
        if isinstance(ask, Initialize):
            self._read_since = False
        elif isinstance(ask, CommitOffsets) and self._read_since and self.lapse is not None:
            self.lapse.owned, self.lapse = False, None
        if what in ("", "over after"):
            reply = super().ask(name, producer, ask)
        if not what:
            return reply
        code = {"over": 59, "over after": 48}.get(str(what), what)
        return Initialized(code, ProducerId(-1, -1)) if isinstance(ask, Initialize) else {TARGET: code}

    def ended(self, name: str, committed: bool) -> None:
        if name != NAME:
            return
        if committed:
            self.committed += self.open
            self.ends += 1
            pending = self.group(NAME).pending.get(self.id(NAME).number, {})
            self.positions.append(pending.get(TARGET, self.positions[-1] if self.positions else None))
        self.open = []

    def cached_offsets(self, name: str) -> dict[str, Any]:
        self._read_since = self._read_since or name == NAME
        return super().cached_offsets(name)


class FakeSender:
    """Stores parts in the open transaction, a moment after they were submitted."""

    def __init__(self, target: FakeTarget, sequences: Sequences, tasks: TaskGroup) -> None:
        self._target, self._sequences, self._tasks = target, sequences, tasks
        self.counters = Counters()
        self.refuses: set[bytes] = set()
        self.dropped = self.closed = False
        self._waiting: list[tuple[Part, Any]] = []

    def submit(self, part: Part, ticket: Any) -> None:
        self._waiting.append((part, ticket))
        self._tasks.spawn("store", self.wake)

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for part, ticket in waiting:
            if not ticket.may_send():
                continue
            if self._sequences.producer is None or self._sequences.broken or part.tp not in self._target.id(NAME).added:
                self._waiting.append((part, ticket))
                continue
            if self._target.store_s:
                sleep(self._target.store_s)
                self._target.look_at_the_clock()
                if not ticket.may_send():
                    continue
            data = bytes(part.entries)
            if self._sequences.producer.epoch != self._target.id(NAME).epoch:
                self._sequences.broken, self._sequences.fenced = "ProducerFenced (90)", True
                self._sequences._want()
            elif data in self.refuses:
                ticket.failed(LocalError("too large"), None)
            else:
                self._target.open.append(data)
                ticket.done()

    def drop(self, unwanted: Callable[[Part, Any], bool]) -> int:
        self._waiting = [(part, ticket) for part, ticket in self._waiting if not unwanted(part, ticket)]
        return 0

    def close_links(self) -> None:
        self.dropped = True


class FakeShare:
    """Gives tickets out, and remembers them."""

    def __init__(self) -> None:
        self.tickets: dict[int, Ticket] = {}

    def ticket(self, resume_at: int, parts: int = 1) -> Ticket:
        return self.tickets.setdefault(resume_at, Ticket())


class Member:
    """A process that believes that it owns the partition.

    reset: that its period began with; followed: that an earlier period set the position back for.  sought: where it had
    the source read on.
    """

    def __init__(
        self,
        target: FakeTarget,
        tasks: TaskGroup,
        interval_s: float = 0.02,
        reset: Reset | None = None,
        followed: Reset | None = None,
        topic: int | None = TOPIC,
        names: Names = NAMES,
        timeout_ms: int = 60000,
        beside: TopicPartition = BESIDE,
    ) -> None:
        self.target, self.tasks, self.owned, self.over = target, tasks, True, False
        self.share = FakeShare()
        self.sought: list[int] = []
        self.lapses_behind: int | None = None  # its lease lapses once this set is passed on
        self.unparked = 0
        self.waiting: dict[str, str] = {}
        self.senders: list[FakeSender] = []
        period = Period(
            source=SOURCE, key=object(), owned=lambda: self.owned, ended=lambda: self.over, topic=topic, reset=reset,
            at=TARGET, beside=beside, pass_on=self._pass_on,
        )  # fmt: skip
        how = Transacting(
            interval_s=interval_s,
            timeout_ms=timeout_ms,
            max_bytes=lambda: 1000,
            coordinators=InMemory(target),
            sender=self._sender,
            retire=lambda transactions: setattr(transactions.sender, "closed", True),
        )
        self.transactions = PartitionTransactions(
            period, source="dc1", names=names, how=how, waiting=self.waiting, unpark=self._unpark, seek=self._seek,
            tasks=tasks, followed=followed,
        )  # fmt: skip
        self.task = tasks.spawn("transactions", self.transactions.run)

    def _sender(self, sequences: Sequences, transactional_id: str) -> Sender:
        assert transactional_id == NAME
        self.senders.append(FakeSender(self.target, sequences, self.tasks))
        return cast(Sender, self.senders[-1])

    def _unpark(self, tp: TopicPartition) -> bool:
        self.unparked += 1
        return True

    def _seek(self, tp: TopicPartition, offset: int) -> None:
        self.sought.append(offset)
        self.over = True

    def _pass_on(self, fetched: Any, share: Any) -> None:
        if fetched.resume_at == self.lapses_behind:
            self.owned = False
        for message in fetched.messages():
            part = Part(TARGET, message.value, 2, 0, 1, message.offset + 1)
            self.transactions.enqueue(Step(message.offset + 1, [(part, share.ticket(message.offset + 1))]))

    def give(self, first: int, last: int) -> None:
        """A fetched set of the messages first to last."""
        messages = [Message("t", 0, n, None, b"%d" % n, None, None, None, n + 1) for n in range(first, last + 1)]
        self.transactions.admit(cast(MessageSet, FakeSet(messages)), cast(Any, self.share))

    def told(self, resume_at: int) -> list[Any]:
        ticket = self.share.tickets.get(resume_at)
        return [] if ticket is None else [what[0] for what in ticket.told]


class FakeSet:
    tp = SOURCE

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self.start, self.resume_at = messages[0].offset, messages[-1].offset + 1

    def messages(self) -> list[Message]:
        return self._messages


@contextmanager
def members(target: FakeTarget, count: int = 1, **period: Any) -> Iterator[list[Member]]:
    tasks = TaskGroup()
    made = [Member(target, tasks, **period) for _ in range(count)]
    try:
        yield made
        assert tasks.death is None
    finally:
        for member in made:
            member.over = True
        tasks.stop(5)


def values(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last + 1)]


def test_messages_and_the_position_behind_them_are_committed_together():
    target = FakeTarget()
    with members(target) as (member,):
        member.give(0, 9)
        member.give(10, 19)
        until(lambda: member.told(20))
        assert target.committed == values(0, 19)
        assert target.position == StableOffset(20, metadata_of(TOPIC), 0)
        assert [member.told(n) for n in (1, 20)] == [["done"], ["done"]]
        member.give(20, 29)
        until(lambda: member.told(30))
        assert target.committed == values(0, 29)


def test_what_the_target_has_is_not_sent_again():
    target = FakeTarget()
    target.position = StableOffset(15, metadata_of(TOPIC), 0)
    with members(target) as (member,):
        member.give(0, 9)
        member.give(10, 19)
        until(lambda: member.senders[0].closed)
        assert member.sought == [15]
        assert not member.share.tickets
    with members(target) as (member,):
        member.give(15, 19)
        until(lambda: member.told(20))
        assert target.committed == values(15, 19)
        assert member.sought == []


def test_a_period_that_ends_while_its_position_is_read_moves_the_source_nowhere():
    """Another period of the partition may have begun elsewhere meanwhile."""

    class Slow(FakeTarget):
        member: Member

        def cached_offsets(self, name: str) -> dict[str, Any]:
            self.member.over = True
            return super().cached_offsets(name)

    target = Slow()
    target.position = StableOffset(15, metadata_of(TOPIC), 0)
    with members(target) as (member,):
        target.member = member
        member.give(0, 9)
        until(lambda: member.senders[0].closed)
        assert member.sought == []


CUT, NOTHING_COMMITTED = Reset(0, 200), Reset(0)


@pytest.mark.parametrize(
    ("reset", "metadata", "topic"),
    [
        (CUT, metadata_of(TOPIC), TOPIC),
        (CUT, "", None),
        (NOTHING_COMMITTED, "", None),
        (Reset(0, 200, former=True), "", TOPIC),
    ],
    ids=["the log was cut", "the same, creation unknown", "nothing committed, creation unknown", "a former topic"],
)
def test_after_a_reset_that_goes_back_everything_is_copied_and_the_position_goes_back(
    reset: Reset, metadata: str, topic: int | None, caplog: pytest.LogCaptureFixture
):
    target = FakeTarget()
    target.position = StableOffset(200, metadata, 0)
    with members(target, reset=reset, topic=topic) as (member,):
        member.give(0, 199)
        until(lambda: member.told(200))
        assert target.committed == values(0, 199)
        assert target.positions[0] == StableOffset(0, metadata_of(topic), 0)  # before anything is sent
        assert target.position == StableOffset(200, metadata_of(topic), 0)
        assert member.sought == []
        assert member.transactions.followed is reset
    assert "resumes at 0 after a reset, and the position in the target was set back from 200" in caplog.text


@pytest.mark.parametrize(
    ("reset", "followed"),
    [(NOTHING_COMMITTED, None), (Reset(5, 2), None), (CUT, CUT), (Reset(0, 3, former=True), None)],
    ids=["of this creation", "a gap", "set back for it before", "of this creation, the committed offset is not"],
)
def test_after_any_other_start_what_the_target_has_is_not_sent_again(reset: Reset, followed: Reset | None):
    target = FakeTarget()
    target.position = StableOffset(15, metadata_of(TOPIC), 0)
    with members(target, reset=reset, followed=followed) as (member,):
        member.give(5, 19)
        until(lambda: member.sought)
        assert (member.sought, target.committed, target.position.offset) == ([15], [], 15)


@pytest.mark.parametrize("ask", [CommitOffsets, End])
@pytest.mark.parametrize("how", ["over", "over after"])
def test_a_position_whose_set_back_fails_is_set_back_again(ask: type, how: str):
    target = FakeTarget()
    target.position = StableOffset(200, "", 0)
    target.fail[ask] = [how]
    with members(target, reset=CUT) as (member,):
        member.give(0, 9)
        until(lambda: member.told(10))
        assert target.committed == values(0, 9)
        assert target.position.offset == 10


def test_a_position_under_the_name_of_an_earlier_release_counts_and_who_used_it_is_fenced():
    target = FakeTarget()
    target.group(FORMER).committed = {
        TARGET: StableOffset(15, metadata_of(TOPIC), 0),
        SOURCE._replace(topic="u"): StableOffset(90, "", 0),
    }
    names = Names(NAME, FORMER)
    with members(target, names=names) as (member,):
        member.give(0, 19)
        until(lambda: member.sought)
        assert (member.sought, target.fenced) == ([15], 1)
    with members(target, names=names) as (member,):
        member.give(15, 19)
        until(lambda: member.told(20))
        assert target.position == StableOffset(20, metadata_of(TOPIC), 0)
    with members(target, names=names) as (member,):
        member.give(20, 29)
        until(lambda: member.told(30))
        assert (target.committed, target.fenced) == (values(15, 29), 2)  # a position of its own is all that counts


@pytest.mark.parametrize("committed", ["", metadata_of(TOPIC + 1)])
def test_a_position_under_a_former_name_that_may_be_another_partitions_does_not_count(committed: str):
    target = FakeTarget()
    target.group(FORMER).committed = {TARGET: StableOffset(15, committed, 0)}
    with members(target, names=Names(NAME, FORMER, shared=True)) as (member,):
        member.give(0, 19)
        until(lambda: member.told(20))
        assert target.committed == values(0, 19)


def test_a_lease_that_lapses_and_is_renewed_leaves_no_step_behind():
    target = FakeTarget()
    with members(target) as (member,):
        member.owned = False  # while the position is read
        member.give(0, 9)
        sleep(0.15)
        member.owned = True
        until(lambda: member.told(10))
        member.owned = False  # while nothing is sent
        sleep(0.7)
        member.owned = True
        member.give(10, 19)
        until(lambda: member.told(20))
        target.lapse = member  # in the middle of a transaction
        member.give(20, 29)
        until(lambda: not member.owned)
        member.give(30, 39)
        sleep(0.15)
        member.owned = True
        until(lambda: member.told(40))
        assert target.committed == values(0, 39)
        assert member.unparked == 0


def test_what_is_held_while_the_lease_lapses_is_overtaken_by_nothing():
    target = FakeTarget()
    with members(target) as (member,):
        member.lapses_behind = 10
        member.give(0, 9)
        member.give(10, 19)
        until(lambda: not member.owned)
        member.give(20, 29)
        sleep(0.15)
        member.owned = True
        until(lambda: member.told(30))
        assert target.committed == values(0, 29)


def test_the_position_of_a_deleted_topic_says_nothing_of_a_new_one():
    target = FakeTarget()
    target.position = StableOffset(500, metadata_of(TOPIC + 1), 0)
    with members(target) as (member,):
        member.give(0, 9)
        until(lambda: member.told(10))
        assert target.committed == values(0, 9)


@pytest.mark.parametrize("ask", [AddPartitions, CommitOffsets, End])
def test_a_transaction_that_is_over_is_sent_again(ask: type):
    target = FakeTarget()
    target.fail[ask] = ["over"]
    with members(target) as (member,):
        member.give(0, 9)
        until(lambda: member.told(10))
        assert target.committed == values(0, 9)
        assert member.unparked == 0


@pytest.mark.parametrize("how", ["answer", "question"])
@pytest.mark.parametrize("late", [AddPartitions, AddOffsets, CommitOffsets, End])
@pytest.mark.parametrize("arrives", [AddOffsets, CommitOffsets, End])
def test_a_request_that_was_not_answered_and_comes_late_changes_no_later_transaction(
    late: type, how: Any, arrives: type
):
    """A copy of it arrives while the next transaction is open."""
    target = FakeTarget()
    with members(target) as (member,):
        member.give(0, 9)
        until(lambda: member.told(10))
        target.lose[late] = [how]
        member.give(10, 19)
        until(lambda: member.told(20))
        assert len(target.late) == 1
        target.late_before = arrives
        member.give(20, 29)
        until(lambda: member.told(30))
        assert target.late_before is None
        assert target.committed == values(0, 29)
        assert [row and row.offset for row in target.positions] == [10, 20, 30]
        assert target.position == target.positions[-1]
        assert member.unparked == 0


@pytest.mark.parametrize("whose", ["the producer id of now", "one that the transactional id had before it expired"])
def test_an_offset_that_came_late_into_no_transaction_holds_up_nobody_and_does_not_count(whose: str):
    """Up to 3.6 nobody asks whether the transaction is open, so that it is pending for ever."""
    target = FakeTarget()
    with members(target) as (member,):
        member.give(0, 9)
        until(lambda: member.told(10))
    assert target.position == StableOffset(10, metadata_of(TOPIC), 0)
    number = target.id(NAME).number if whose == "the producer id of now" else 99
    target.group(NAME).pending[number] = {TARGET: StableOffset(5, metadata_of(TOPIC), 0)}
    with members(target) as (owner,):
        owner.give(10, 19)
        until(lambda: owner.told(20))
        assert owner.sought == []
        assert target.committed == values(0, 19)


@pytest.mark.parametrize("stable", [True, False], ids=["from 2.5", "up to 2.4"])
def test_a_new_owner_reads_the_position_behind_all_that_was_committed_before(stable: bool):
    """The first position of the partition is in the log, and not in the table that the coordinator answers from."""
    target = FakeTarget(stable=stable)
    with members(target) as (member,):
        member.give(0, 9)
        until(lambda: member.told(10))
    target.lag = 8
    with members(target) as (owner,):
        owner.give(0, 19)
        until(lambda: owner.sought)
        assert owner.sought == [10]
    with members(target) as (owner,):
        owner.give(10, 19)
        until(lambda: owner.told(20))
        assert target.committed == values(0, 19)


@pytest.mark.parametrize("ask", [AddOffsets, CommitOffsets, End])
def test_a_lease_that_lapses_while_the_position_is_probed_ends_nothing(ask: type):
    class Lapsing(FakeTarget):
        member: Member | None = None

        def ask(self, name: str, producer: ProducerId | None, asked: Ask) -> Any:
            if type(asked) is ask and self.member is not None:
                self.member.owned, self.member = False, None
            return super().ask(name, producer, asked)

    target = Lapsing()
    with members(target) as (member,):
        target.member = member
        member.give(0, 9)
        until(lambda: not member.owned)
        member.owned = True
        until(lambda: member.told(10))
        assert (target.committed, member.unparked) == (values(0, 9), 0)


def test_a_target_topic_that_is_created_again_with_fewer_partitions_is_probed_elsewhere():
    class Fewer(FakeTarget):
        def ask(self, name: str, producer: ProducerId | None, ask: Ask) -> Any:
            if isinstance(ask, CommitOffsets) and BESIDE in ask.offsets:
                return {BESIDE: 3}
            return super().ask(name, producer, ask)

    target = Fewer()
    with members(target) as (member,):
        member.give(0, 9)
        until(lambda: target.asked.count(AddOffsets(NAME)) > 0)
        member.transactions.reroute(TARGET, coordinators.OFFSETS_0, member.transactions.period.pass_on)
        until(lambda: member.told(10))
        assert target.committed == values(0, 9)


@pytest.mark.parametrize("stable", [True, False], ids=["from 2.5", "up to 2.4"])
def test_without_leave_to_commit_offsets_of_the_internal_topic_the_position_is_read_all_the_same(
    stable: bool, monkeypatch: pytest.MonkeyPatch
):
    """The target topic has one partition, so that no other is there to probe with."""
    monkeypatch.setattr(coordinators, "MATERIALIZED_S", 0.0)
    target = FakeTarget(stable=stable)
    target.position = StableOffset(10, metadata_of(TOPIC), 0)
    target.group(NAME).pending[1] = {TARGET: StableOffset(5, metadata_of(TOPIC), 0)}  # it came late
    target.fail[CommitOffsets] = [29]
    with members(target, beside=coordinators.OFFSETS_0) as (member,):
        member.give(10, 19)
        until(lambda: member.told(20))
        assert target.committed == values(10, 19)
    target.fail[CommitOffsets] = [29]
    with members(target) as (member,):
        member.give(20, 29)
        until(lambda: member.told(30))
        ((_, reason, _),) = member.share.tickets[30].told
        assert str(reason).endswith(
            "TopicAuthorizationFailed (29); give this client the ACLs Read and Write on the topic"
        )


@pytest.mark.parametrize("stable", [True, False], ids=["from 2.5", "up to 2.4"])
def test_a_transaction_that_is_aborted_is_sent_again_though_the_end_of_the_one_before_is_not_through(stable: bool):
    """The end of the one before makes visible what the producer id has pending when it is through."""
    target = FakeTarget(stable=stable)
    with members(target) as (member,):
        member.give(0, 9)
        until(lambda: member.told(10))
        target.lag = 8
        target.fail[End] = ["over"]
        member.give(10, 19)
        until(lambda: member.told(20))
        assert target.committed == values(0, 19)


def test_a_target_that_is_slower_than_the_time_out_of_transactions_gets_smaller_ones(caplog: pytest.LogCaptureFixture):
    target = FakeTarget()
    target.store_s, target.timeout_s = 0.05, 0.3
    with members(target, timeout_ms=300) as (member,):
        member.give(0, 19)
        until(lambda: member.told(20))
        assert target.committed == values(0, 19)
        assert member.unparked == 0
    assert (
        "it took longer than transaction.timeout.ms (300) with 30 bytes, and the next one takes at most 15"
        in caplog.text
    )
    assert "another process" not in caplog.text


def test_one_message_that_takes_longer_than_the_time_out_of_transactions_says_what_helps(
    caplog: pytest.LogCaptureFixture,
):
    target = FakeTarget()
    target.store_s, target.timeout_s = 0.2, 0.1
    with members(target, timeout_ms=100) as (member,):
        member.give(0, 0)
        until(lambda: "the least that it can take: raise transaction.timeout.ms" in caplog.text)
        assert member.unparked == 0


def test_a_commit_whose_response_is_a_refusal_was_done_if_the_position_says_so():
    target = FakeTarget()
    target.fail[End] = ["over after"]
    with members(target) as (member,):
        member.give(0, 9)
        until(lambda: member.told(10))
        assert target.committed == values(0, 9)
        assert target.ends == 1


def test_who_comes_later_fences_who_came_before_and_nothing_is_there_twice():
    target = FakeTarget()
    with members(target) as (zombie,):
        zombie.give(0, 9)
        until(lambda: zombie.told(10))
        with members(target) as (owner,):
            owner.give(10, 19)
            zombie.give(10, 19)  # it still believes that it owns the partition
            until(lambda: owner.told(20) and zombie.unparked)
            assert target.committed == values(0, 19)
            assert isinstance(zombie.share.tickets[11].told[0][1], PeriodOver)
            zombie.give(20, 29)  # and goes on
            until(lambda: zombie.told(30))
            assert zombie.told(30) == ["failed"]
            owner.give(20, 29)
            until(lambda: owner.told(30))
            assert target.committed == values(0, 29)
            assert all(sender.closed for sender in zombie.senders)


def test_past_the_lease_nothing_is_committed():
    target = FakeTarget()
    with members(target) as (member,):
        member.give(0, 9)
        until(lambda: member.told(10))
        ends = target.ends
        member.owned, member.over = False, True
        member.give(10, 19)
        until(lambda: member.senders[0].closed)
        assert (target.ends, member.told(20)) == (ends, [])


def test_all_before_a_message_that_cannot_be_stored_is_committed_and_nothing_behind_it():
    target = FakeTarget()
    with members(target) as (member,):
        member.senders[0].refuses = {b"5"}
        member.give(0, 9)
        until(lambda: member.told(6))
        assert target.committed == values(0, 4)
        assert target.position is not None
        assert target.position.offset == 5
        assert ([member.told(n) for n in (5, 6)], member.told(7)) == ([["done"], ["failed"]], [])


def test_a_cluster_that_refuses_parks_the_partition_with_what_helps():
    target = FakeTarget()
    target.fail[Initialize] = [31]
    with members(target) as (member,):
        member.give(0, 9)
        until(lambda: member.told(10))
        ((_, reason, _),) = member.share.tickets[10].told
        assert str(reason).startswith("t/0, delivery.guarantee: exactly-once: ")
        assert str(reason).endswith(
            "ClusterAuthorizationFailed (31); give this client the ACL IdempotentWrite on the cluster"
        )
        assert target.committed == []


class SourcePeriod:
    """The source's side of one period of its partition."""

    def __init__(self, reset: Reset | None, topic: int | None = TOPIC) -> None:
        self.period, self.reset, self.topic, self.over = object(), reset, topic, False
        self.tickets: dict[int, Ticket] = {}

    def ticket(self, resume_at: int, parts: int = 1) -> Ticket:
        return self.tickets.setdefault(resume_at, Ticket())

    @property
    def ended(self) -> Callable[[], bool]:
        return lambda: self.over

    def holding(self) -> Callable[[], bool]:
        return lambda: not self.over


@contextmanager
def source_of(target: FakeTarget, others: list[tuple[str, str]]) -> Iterator[tuple[SourceTransactions, list[int]]]:
    """The transactions of source "dc1", group "mirror", and where it was moved to."""
    tasks, sought = TaskGroup(), list[int]()
    made = SourceTransactions(
        "dc1",
        prefix="mirror",
        others=others,
        target=cast(
            Target,
            SimpleNamespace(
                transactional_sender=lambda sequences, name: FakeSender(target, sequences, tasks),
                retire=lambda sender: None,
            ),
        ),
        mirror=MirrorOptions(transaction_interval_ms=20),
        queued_max_bytes=10_000,
        coordinators=InMemory(target),
        inner=ShareTickets(),
        unpark=lambda tp: True,
        seek=lambda tp, offset: sought.append(offset),
        tasks=tasks,
    )
    try:
        yield made, sought
        assert tasks.death is None
    finally:
        tasks.stop(5)


def given(made: SourceTransactions, share: SourcePeriod, first: int, last: int) -> None:
    """A set of the messages first to last, passed through the flow's route."""

    def forward(topic: object, fetched: Any, share: Any, skipped: int) -> None:
        for message in fetched.messages():
            part = Part(TARGET, message.value, 2, 0, 1, message.offset + 1)
            assert not made.of_set(fetched, share, cast(Any, topic))(cast(Any, RouteStep(message.offset + 1, (part,))))

    messages = [Message("t", 0, n, None, b"%d" % n, None, None, None, n + 1) for n in range(first, last + 1)]
    route = SimpleNamespace(target="t", partitions=[3])
    made.admit(cast(MessageSet, FakeSet(messages)), cast(Any, share), cast(Any, route), cast(Any, forward))


def test_a_reset_is_followed_once_whatever_period_comes_next():
    """The second begins before what the first committed, since its tickets were never told."""
    target = FakeTarget()
    target.position = StableOffset(200, metadata_of(TOPIC), 0)
    first, second, third = SourcePeriod(CUT), SourcePeriod(CUT), SourcePeriod(Reset(0, 12))
    with source_of(target, []) as (made, sought):
        given(made, first, 0, 9)
        until(lambda: first.tickets.get(10) and first.tickets[10].told)
        first.over = True
        given(made, second, 5, 14)
        until(lambda: sought)
        second.over = True
        assert (sought, target.position.offset) == ([10], 10)
        given(made, third, 0, 4)  # cut once more
        until(lambda: third.tickets.get(5) and third.tickets[5].told)
        assert target.position.offset == 5
    assert target.committed == [*values(0, 9), *values(0, 4)]


def test_a_reset_that_was_not_followed_yet_is_followed_by_the_next_period():
    target = FakeTarget()
    target.position = StableOffset(200, "", 0)
    target.fail[Initialize] = [31]
    first, second = SourcePeriod(CUT), SourcePeriod(CUT)
    with source_of(target, []) as (made, sought):
        given(made, first, 0, 9)
        until(lambda: first.tickets.get(10) and first.tickets[10].told)
        target.fail.clear()
        first.over = True
        given(made, second, 0, 9)
        until(lambda: second.tickets.get(10) and second.tickets[10].told)
        assert (sought, target.committed) == ([], values(0, 9))


def test_a_damaged_message_in_front_of_the_position_is_opened_by_nobody():
    class Damaged(FakeSet):
        def messages(self) -> list[Message]:
            raise CorruptMessage("checksum", 3)

    target = FakeTarget()
    target.position = StableOffset(5, metadata_of(TOPIC), 0)
    with members(target) as (member,):
        messages = [Message("t", 0, n, None, b"", None, None, None, n + 1) for n in range(10)]
        member.transactions.admit(cast(MessageSet, Damaged(messages)), cast(Any, member.share))
        until(lambda: member.sought)
        assert member.sought == [5]
