"""The offset map of a mirror that copies exactly once: each source partition has a sender and a transaction of its own,
so what one was told of a target log's end says nothing of what another has in flight."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from groupadmin.translation import Facts, Safe, translated
from kafkawire.model import Part, TopicPartition
from mirrormaker.offsetmap.checkpoints import Checkpoints, OwnershipPeriod
from mirrormaker.offsetmap.tickets import PartTicket, part_tickets
from tests.fakes.tickets import Ticket
from tests.mirrormaker.transactionsimulation import TransactionSimulation
from zkconsumer.offsetmap.records import Entry, Record, gathered

S0, S1 = TopicPartition("t", 0), TopicPartition("t", 1)
T = TopicPartition("all", 0)


class Two:
    """Two source partitions into one target partition, in transactions of their own.  records: the map."""

    def __init__(self, every: int = 5) -> None:
        self.records: list[Record] = []
        self.checkpoints = Checkpoints(every, self.records.extend, lambda topic: "all", shared_sender=False)
        self.periods = {source: self._begun(source) for source in (S0, S1)}

    def _begun(self, source: TopicPartition, at: int = 0) -> OwnershipPeriod:
        return self.checkpoints.begin(source, at, 1, single_target=False, owned=lambda: True, targets=[T])

    def sends(self, source: TopicPartition, position: int, count: int = 5) -> tuple[PartTicket, int]:
        """A step that ends at position is handed out."""
        [(_, ticket)] = part_tickets([Part(T, b"", 2, 0, count)], Ticket(), self.periods[source], position)
        return ticket, count

    @staticmethod
    def committed(sent: tuple[PartTicket, int], base: int) -> None:
        ticket, count = sent
        ticket.placed(count, base, True)
        ticket.done()

    def entries(self, source: TopicPartition) -> list[tuple[int, int]]:
        """(position, low) of a source partition's entries, as a reader has them."""
        periods = gathered(self.records).periods[source]
        return [(entry.position, entry.low) for period in periods for entry in period.entries.get(T, ())]


def test_a_message_in_an_open_transaction_is_not_passed_over_by_the_end_that_another_partition_was_told() -> None:
    """Offsets 0 to 4 of the target are S0's, in a transaction that is open; 5 to 9 are S1's, and committed."""
    two = Two()
    opened, other = two.sends(S0, 5), two.sends(S1, 5)
    two.committed(other, 5)
    two.checkpoints.committing([(S0, 0), (S1, 5)], 1)
    assert two.entries(S0) == []
    two.committed(opened, 0)
    two.checkpoints.record_acknowledged()
    assert two.entries(S0)[0] == (0, 0)
    assert max(low for position, low in two.entries(S0) if position <= 0) == 0
    assert (0, 5) in two.entries(S1)  # and nothing of S1 was forgotten as of another log


def test_what_was_recorded_while_a_transaction_was_open_is_right_if_its_tickets_never_hear_of_its_end() -> None:
    two = Two()
    two.committed(two.sends(S0, 5), 0)
    two.sends(S0, 10)  # at 5 to 9, committed, and the mirror is killed
    two.committed(two.sends(S1, 50, 50), 10)
    two.checkpoints.record_acknowledged()
    assert max(low for _, low in two.entries(S0)) == 5


def test_what_is_stored_of_a_part_before_it_fails_is_recorded_at_once() -> None:
    """The next period begins at 6: `resume: target-end` would refuse what lies in the target behind the last entry."""
    two = Two(every=1000)
    ticket, _ = two.sends(S0, 10, 10)
    for count, base, reached in ((4, 100, 4), (2, 104, 6)):
        ticket.placed(count, base, True)
        ticket.reached(reached)
    ticket.failed(ValueError("refused"), 6)
    assert two.entries(S0) == [(0, 100), (6, 106)]


def test_a_partition_with_nothing_in_flight_follows_the_end_that_others_were_told() -> None:
    """Where keys decide, one source partition may send nothing to a target partition for long."""
    two = Two()
    two.committed(two.sends(S1, 50, 50), 0)
    two.checkpoints.record_acknowledged()
    assert two.entries(S0) == [(0, 50)]
    two.committed(two.sends(S0, 5), 50)
    two.committed(two.sends(S1, 100, 50), 55)
    two.checkpoints.record_acknowledged()
    assert two.entries(S0)[-1] == (5, 105)


def test_a_target_log_that_began_again_is_noticed_by_the_partition_whose_messages_lie_lower() -> None:
    two = Two()
    two.committed(two.sends(S0, 5), 1000)
    two.committed(two.sends(S1, 5), 1005)
    two.checkpoints.record_acknowledged()
    two.committed(two.sends(S0, 10), 0)
    two.checkpoints.record_acknowledged()
    assert {low for _, low in two.entries(S0) + two.entries(S1)} <= {0, 5}
    late = Entry(S1, T, 5, 5, None)
    assert any(isinstance(r, Entry) and (r.source, r.position, r.low) == (S1, 5, late.low) for r in two.records)


# ---- random lives ---------------------------------------------------------------------------------------------------


def lived(rng: random.Random, simulation: TransactionSimulation, kills: bool) -> None:
    acts = [simulation.read] * 4 + [simulation.send] * 6 + [simulation.answer] * 6 + [simulation.end] * 4
    acts += [simulation.tell] * 2 + [simulation.tick] * 3 + [simulation.grow, simulation.commit]
    for _ in range(rng.randint(30, 250)):
        rng.choice(acts)()
        untold = any(sender.committed for sender in simulation.senders)
        if kills and rng.random() < (0.05 if untold else 0.005):
            simulation.kill()


def translations(seed: int, kills: bool) -> Counter[str]:
    rng = random.Random(seed)
    simulation = TransactionSimulation(rng, rng.randint(2, 3), rng.choice((0, 1, 2)), rng.random() < 0.7)
    simulation.grow()
    lived(rng, simulation, kills)
    if rng.random() < 0.5:
        simulation.drain()
        simulation.commit()
    began = simulation.began
    read = {s.tp: rng.choice([b for b in s.borders if b <= s.committed][-4:]) for s in simulation.sources}
    facts = Facts(
        {tp: (0, len(log)) for tp, log in simulation.logs.items()}, {s.tp: (0, s.end) for s in simulation.sources}, read
    )
    found = translated(simulation.map, facts, {"t": simulation.targets})
    for _ in range(rng.randrange(3)):
        simulation.grow()  # what comes after the translation is not read either
    simulation.drain()
    said: Counter[str] = Counter()
    for target, row in found.items():
        said[type(row).__name__] += 1
        if isinstance(row, Safe):
            check(simulation, read, target, row, seed, bounded=began)
    return said


def check(
    simulation: TransactionSimulation,
    read: dict[TopicPartition, int],
    target: TopicPartition,
    row: Safe,
    seed: int,
    bounded: bool,
) -> None:
    there, repeats = simulation.visible(target, row.position), 0
    assert len(simulation.visible(target, 0)) == len(set(simulation.visible(target, 0))), f"seed {seed}: not once"
    for source in simulation.sources:
        unread = set(source.unread(read[source.tp]))
        wanted = {(source.tp, n) for n in unread if source.targets[n] == target}
        assert wanted <= set(there), (
            f"seed {seed}: {target} from {row.position} lacks {sorted(wanted - set(there))[:3]}"
        )
        repeats += sum(1 for tp, n in there if tp == source.tp and n not in unread)
    if bounded:
        assert repeats <= row.repeats, f"seed {seed}: {target} from {row.position}: {repeats} twice, not {row.repeats}"


@pytest.mark.parametrize("kills", [False, True])
def test_whatever_is_committed_aborted_and_killed_a_translated_group_loses_nothing(kills: bool) -> None:
    said: Counter[str] = Counter()
    for seed in range(600):
        said += translations(seed, kills)
    assert said["Safe"] > 400
