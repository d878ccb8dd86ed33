"""Wrong decisions, patched in one at a time: the simulation of whole mirrors has to find each of them.

Each is what a hurried change could do, or a fault that a release of the mirror had.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from kafkawire.net.transport import PlainTransport, close
from mirrormaker import zookeeper
from mirrormaker.exactlyonce import partition as transactions
from mirrormaker.exactlyonce.partition import PartitionTransactions
from mirrormaker.exactlyonce.position import Beginning
from mirrormaker.exactlyonce.steps import StepQueue, StepTicket
from mirrormaker.flow import Flow
from mirrormaker.offsetmap import maps
from mirrormaker.offsetmap.checkpoints import Checkpoints
from mirrormaker.offsetmap.resume import Resumer, TailMatch
from mirrormaker.routes import RouteRules
from mirrormaker.workers import restarts
from producer import outcomes
from producer import transaction as transaction_states
from producer.batches import Batches
from producer.coordinators import Coordinators
from producer.outcomes import Outcomes
from producer.sender import Sender
from producer.sequences import Sequences
from producer.transaction import Next, Transaction
from producer.verdicts import Verdict
from tests.simulation.mutations import MUTATIONS as OF_GROUPS
from tests.simulation.mutations import Patch, patched
from zkconsumer.fetching.fetchplan import FetchPlan
from zkconsumer.fetching.partition import Partition
from zkconsumer.fetching.shares import Saving
from zkconsumer.group.claims import Claims
from zkconsumer.member.executor import Executor
from zkconsumer.member.member import Member
from zkconsumer.member.ownership import OwnedPartitions
from zkconsumer.session import zksession
from zkconsumer.session.lease import Lease

Mutation = list[Patch]
Real = Callable[..., Any]


def _instead(new: Any) -> Callable[[Any], Any]:
    """Whatever it was."""
    return lambda real: new


# ---- what is done, and what may be committed ------------------------------------------------------------------------


def _done_when_submitted(submit: Real) -> Real:
    def mutated(self: Sender, part: Any, ticket: Any) -> None:
        submit(self, part, ticket)
        ticket.done()

    return mutated


def _done_when_dropped(drop: Real) -> Real:
    def mutated(self: Batches, whole: Any) -> None:
        drop(self, whole)
        whole.ticket.done()

    return mutated


def _committable_is_delivered(committable: Real) -> Real:
    def mutated(self: Partition) -> int | None:
        found: int | None = committable(self)
        return found if found is None else max(found, self.next_delivery)

    return mutated


def _too_late_is_gone(too_late: Real) -> Real:
    def mutated(self: Partition, fetched: Any) -> Any:
        withhold, self._withhold = self._withhold, lambda at: None  # type: ignore[method-assign]
        try:
            return too_late(self, fetched)
        finally:
            self._withhold = withhold  # type: ignore[method-assign]

    return mutated


def _refetch_where_it_fetched(refetch: Real) -> Real:
    def mutated(self: Partition, position: int) -> Any:
        fetched_to = self.position.offset
        return refetch(self, position if fetched_to is None else fetched_to)

    return mutated


def _restart_where_it_delivered(restart: Real) -> Real:
    return lambda self, position: self.reset_to(position)


def _none_committed(locate: Real) -> Real:
    def mutated(self: Executor, action: Any) -> Any:
        found = locate(self, action)
        self._located = dict.fromkeys(self._located)
        return found

    return mutated


# ---- the sender ------------------------------------------------------------------------------------------------------


def _lost_is_stored(lost: Real) -> Real:
    return lambda self, batch, reason, now: self.stored(batch, now)


def _offset_is_stored(judge: Real) -> Real:
    """A leader that was deposed while it waited for its replicas has appended it, and the next one has not."""
    return lambda code, base_offset: Verdict.STORED if base_offset >= 0 else judge(code, base_offset)


def _refusals_are_certain(unknown_outcome: Real) -> Real:
    """Whatever is answered says that nothing was appended."""
    return lambda answer: False


def _new_numbers(again: Real) -> Real:
    def mutated(self: Outcomes, batch: Any, *others: Any) -> None:
        for piece in batch.pieces:
            piece.seal = None
        again(self, batch, *others)

    return mutated


def _at_the_end(put_back: Real) -> Real:
    def mutated(self: Batches, batch: Any, pieces: Any, not_before: float) -> None:
        put, self._put = self._put, lambda queue, piece, first=False: put(queue, piece)  # type: ignore[method-assign]
        try:
            put_back(self, batch, list(reversed(pieces)), not_before)
        finally:
            self._put = put  # type: ignore[method-assign]

    return mutated


def _numbers_stand_still(stored: Real) -> Real:
    def mutated(self: Sequences, batch: Any) -> None:
        partition = self._of(batch)
        if partition is not None:
            partition.open = None

    return mutated


# ---- flows -----------------------------------------------------------------------------------------------------------


def _held_is_forgotten(take: Real) -> Real:
    def mutated(self: Flow, fetched: Any, share: Any) -> None:
        if fetched.topic in self.topics or fetched.topic not in self._held:
            take(self, fetched, share)

    return mutated


def _held_backwards(take: Real) -> Real:
    def mutated(self: Flow, fetched: Any, share: Any) -> None:
        if fetched.topic in self.topics or fetched.topic not in self._held:
            take(self, fetched, share)
        else:
            self._held[fetched.topic].appendleft((fetched, share))

    return mutated


def _one_more_is_skipped(forward: Real) -> Real:
    def mutated(self: Flow, topic: Any, fetched: Any, share: Any, skipped: int = 0) -> None:
        forward(self, topic, fetched, share, skipped + 1 if skipped else 0)

    return mutated


def _no_gate(admit: Real) -> Real:
    def mutated(self: Resumer, fetched: Any, share: Any, topic: Any, forward: Any) -> None:
        forward(topic, fetched, share, 0)

    return mutated


# ---- transactions ----------------------------------------------------------------------------------------------------


def _as_cached(positions: Real) -> Real:
    """What the target shows, without waiting for what the former owner has committed."""

    def mutated(self: Coordinators, transaction: Any, at: Any, probe: Any, wanted: Any, said: Any) -> Any:
        return self._asked_of_group(
            transaction.id, wanted, said, lambda broker: self._as_cached(broker, transaction.id)
        )

    return mutated


def _over_is(what: str) -> Callable[[Real], Real]:
    """What became of a transaction that is over is not asked."""

    def change(lost: Real) -> Real:
        def mutated(self: PartitionTransactions) -> None:
            if self._transaction.fenced:
                lost(self)
            elif self._restarted():
                getattr(self._steps, what)()

        return mutated

    return change


def _behind_what_waits(end: Any) -> Any:
    return property(lambda self: (self.waiting or self.open)[-1].resume_at)


def _done_when_acknowledged(done: Real) -> Real:
    def mutated(self: StepTicket) -> None:
        done(self)
        self._ticket.done()

    return mutated


def _without_offsets(commit: Real) -> Real:
    return lambda self, group="", offsets=None: commit(self)


def _over_is_done(follows: Real) -> Real:
    return lambda code: Next.DONE if follows(code) is Next.OVER else follows(code)


def _whether_added_or_not(numbers: Real) -> Real:
    def mutated(self: Sequences, tp: Any, head: Any) -> Any:
        self._added.add(tp)
        return numbers(self, tp, head)

    return mutated


# ---- the group -------------------------------------------------------------------------------------------------------


def _for_ever(back_off: Real) -> Real:
    return lambda self, tp, until: back_off(self, tp, until + 1e6)


def _never_over(end_what_began: Real) -> Real:
    def mutated(self: Lease, why: str = "") -> None:
        if not why:
            end_what_began(self)

    return mutated


def _one_map(file_of: Real) -> Real:
    return lambda folder, source, worker=1: file_of(folder, source)


def _group(name: str) -> Mutation:
    return OF_GROUPS[name]


MUTATIONS: dict[str, Mutation] = {
    "commit of the highest": _group("commit of the highest"),
    "done when it is submitted": [(Sender, "submit", _done_when_submitted)],
    "done when it is dropped": [(Batches, "_drop", _done_when_dropped)],
    "commit of what was delivered": [(Partition, "committable", _committable_is_delivered)],
    "what came too late is gone": [(Partition, "_too_late", _too_late_is_gone)],
    "fetched again where fetching stopped": [(Partition, "refetch", _refetch_where_it_fetched)],
    "read on where delivery stopped after a sender dropped": [(Partition, "_restart", _restart_where_it_delivered)],
    "begins as if nothing were committed": [(Executor, "_locate", _none_committed)],
    "release before commit": _group("release before commit"),
    "read before claim": _group("read before claim"),
    "no fence": _group("no fence"),
    "a commit that outlives its session": _group("a commit that outlives its session"),
    "claim without waiting for the former owner": _group("claim without waiting for the former owner"),
    "a watch that is not set again": _group("a watch that is not set again"),
    "no last commit": [(OwnedPartitions, "commit", _instead(lambda self, tps: ""))],
    "an unanswered batch is stored": [(Outcomes, "lost", _lost_is_stored)],
    "a refusal beside an offset is stored": [(outcomes, "judge", _offset_is_stored)],
    "every refusal says that nothing was appended": [(outcomes, "unknown_outcome", _refusals_are_certain)],
    "sent again with new numbers": [(Outcomes, "_again", _new_numbers)],
    "numbers are not counted on": [(Sequences, "stored", _numbers_stand_still)],
    "what a topic holds back comes in another order": [(Flow, "take", _held_backwards)],
    "a transaction without its position": [
        (Transaction, "commit", _without_offsets),
        (PartitionTransactions, "_shown", _instead(lambda self: True)),
    ],
    "an unknown outcome is not looked into": [(Resumer, "unknown", _instead(lambda self, source: None))],
    "sent again behind what waits": [(Batches, "put_back", _at_the_end)],
    "what a topic holds back is forgotten": [(Flow, "take", _held_is_forgotten)],
    "the target is not grown": [(RouteRules, "grows", _instead(lambda self, topic: False))],
    "an unknown outcome is sent again": [(outcomes, "_once", _instead(lambda batch: False))],
    "no refresh after a refusal": [(outcomes, "refreshes", _instead(lambda code: False))],
    "backs off for ever": [(FetchPlan, "back_off", _for_ever)],
    "a lost session is not noticed": [(Member, "lost", _instead(lambda self, event: None))],
    "owner nodes that are left over stay": [(Claims, "_sweep", _instead(lambda self: []))],
    "released owner nodes stay": [(Claims, "_roll_back", _instead(lambda self, paths, session_id: None))],
    "sent to before it is added": [(Sequences, "_numbers", _whether_added_or_not)],
    "a growth that is not seen": [(Flow, "_grew", _instead(lambda self, fetched, topic: False))],
    "one more is skipped": [(Flow, "_forward", _one_more_is_skipped)],
    "the target's end is not compared": [(Resumer, "admit", _no_gate)],
    "second copies count as the first": [
        (TailMatch, "_skip_copy", _instead(lambda self: setattr(self, "_at", self._at + 1)))
    ],
    "the position is read before it is visible": [(Coordinators, "positions", _as_cached)],
    "the same epoch after a request without an answer": [(Transaction, "unanswered", _instead(lambda self, ask: None))],
    "the next position before the last one is shown": [(PartitionTransactions, "_shown", _instead(lambda self: True))],
    "a transaction that is over was aborted": [(PartitionTransactions, "_lost", _over_is("aborted"))],
    "a transaction that is over was committed": [(PartitionTransactions, "_lost", _over_is("committed"))],
    "the target's position is passed over": [
        (transactions, "beginning", _instead(lambda position, start, reset: Beginning.HERE))
    ],
    "ended before all is acknowledged": [(StepQueue, "stored", _instead(property(lambda self: True)))],
    "the position is that of what waits": [(StepQueue, "end", _behind_what_waits)],
    "done before the transaction is committed": [(StepTicket, "done", _done_when_acknowledged)],
    "a refused end is done": [(transaction_states, "follows", _over_is_done)],
    # faults that the simulation has found
    "a commit that waits is never over": [(Lease, "end_what_began", _never_over)],
    "the target's end is read and forgotten": [(Checkpoints, "ends_at", _instead(lambda self, target, end: None))],
    "a killed mirror leaves its requests": [(PlainTransport, "abort_at_exit", _instead(lambda self: None))],
    "a request that was given up arrives": [
        (PlainTransport, "close", _instead(lambda self, abort=False: close(self._socket)))
    ],
    "nobody waits for a large message": [(Saving, "begin", _instead(lambda self, holding, now: None))],
    "a lost connection is a wrong configuration": [(zookeeper, "GONE", _instead(()))],
    "a silent ZooKeeper server is kept": [(zksession, "SILENT", _instead(1e6))],
    # mirrors in several processes
    "workers write one offset map": [(maps, "file_of", _one_map)],
    "a worker that has ended stays away": [
        (restarts, "LONGEST_DELAY_S", _instead(1e6)),
        (restarts, "FIRST_DELAY_S", _instead(1e6)),
    ],
}

FOUND: dict[str, tuple[str, int]] = {
    "done when it is submitted": ("plain", 1),
    "commit of what was delivered": ("plain", 1),
    "begins as if nothing were committed": ("plain", 4),
    "an unanswered batch is stored": ("plain", 2),
    "sent again behind what waits": ("plain", 2),
    "what a topic holds back is forgotten": ("plain", 1),
    "what a topic holds back comes in another order": ("plain", 1),
    "released owner nodes stay": ("plain", 1),
    "no last commit": ("plain", 1),
    "read before claim": ("plain", 2),
    "claim without waiting for the former owner": ("plain", 1),
    "the target is not grown": ("plain", 1),
    "commit of the highest": ("plain", 17),
    "release before commit": ("plain", 1),
    "backs off for ever": ("plain", 16),
    "a refusal beside an offset is stored": ("numbered", 36),
    "sent again with new numbers": ("numbered", 21),
    "numbers are not counted on": ("numbered", 1),
    "no refresh after a refusal": ("numbered", 9),
    "one more is skipped": ("target-end", 5),
    "the target's end is not compared": ("target-end", 5),
    "an unknown outcome is sent again": ("target-end", 5),
    "the target's position is passed over": ("exactly-once", 3),
    "the position is read before it is visible": ("exactly-once", 5),
    "the position is that of what waits": ("exactly-once", 8),
    "a transaction that is over was aborted": ("exactly-once", 6),
    "a transaction without its position": ("exactly-once", 2),
    "ended before all is acknowledged": ("exactly-once", 2),
    "done before the transaction is committed": ("exactly-once", 4),
    "a watch that is not set again": ("numbered", 9),
    "sent to before it is added": ("exactly-once", 40),
    "a transaction that is over was committed": ("exactly-once", 12),
    "a refused end is done": ("exactly-once", 169),
    "what came too late is gone": ("numbered", 73),
    "fetched again where fetching stopped": ("numbered", 73),
    "done when it is dropped": ("plain", 110),
    "read on where delivery stopped after a sender dropped": ("plain", 110),
    "a request that was given up arrives": ("target-end", 10),
    "nobody waits for a large message": ("plain", 97),
    "workers write one offset map": ("plain", 16),
    "a worker that has ended stays away": ("plain", 49),
}
"""Mode and seed of a schedule that shows it.  Seeds were tried from 1 on: so many schedules it took at most."""


NOT_FOUND: dict[str, str] = {
    "every refusal says that nothing was appended": "the first batch of a partition is sent again as it is, and "
    "takes no harm; 40 schedules, with keys and merged topics among them",
    "a growth that is not seen": "a daemon that owns the new partition and has a route of before is too rare; 40 "
    "schedules",
    "no fence": "commits of who is no owner are refused by ZooKeeper with the session; two who send at the same "
    "time copy twice, which is allowed where daemons are frozen; the simulation of a group finds it",
    "a commit that outlives its session": "the same",
    "a lost session is not noticed": "watches and audits notice it, too; 30 schedules",
    "owner nodes that are left over stay": "claims that break off half way and are not taken up again are missing; "
    "30 schedules",
    "second copies count as the first": "the tail has second copies only where a batch without numbers was sent "
    "again, which resume does not do: a crash between a plain mirror and one with resume is missing",
    "an unknown outcome is not looked into": "the retry of parked partitions does the same; 40 schedules",
    "the same epoch after a request without an answer": "late copies of the requests to coordinators are too rare; "
    "not searched again since they exist",
    "the next position before the last one is shown": "coordinators that are behind by one transaction are missing",
    "a lost connection is a wrong configuration": "it has to break while a daemon asks for nodes of the first second; "
    "300 schedules, and once in the 9,000 that found the fault",
    "a silent ZooKeeper server is kept": "a server of an ensemble that is stopped is missing, ways to it are cut for "
    "seconds; 300 schedules",
    "the target's end is read and forgotten": "a batch without an answer has to be the last one before a restart, with "
    "target-end; not searched to an end",
    "a killed mirror leaves its requests": "a slow line, a kill and a start in the time of one request; 300 schedules",
}
"""Why, as read in the code and not proved: what the simulation does not have."""


def mutated(name: str) -> AbstractContextManager[None]:
    return patched(MUTATIONS[name])
