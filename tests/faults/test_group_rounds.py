"""Random moves of a mixed group, ours and three programs of the JVM, under load and with ZooKeeper restarts.

`ROUNDS_SEED=n ROUNDS=m make faults` repeats a run or makes it longer; the seed and the moves stand in every failure.
Half of the rounds are played with a group that ConsumerPerformance began, which cannot join later.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localkafka.cluster import Cluster
from tests.integration.mixed import Group, Process
from tests.integration.ownerlog import OwnerLog
from tests.integration.rounds import Rounds, Traffic

pytestmark = [pytest.mark.real, pytest.mark.faults]

SEED = int(os.environ.get("ROUNDS_SEED", "1"))
ROUNDS = int(os.environ.get("ROUNDS", "20"))
PARTITIONS = 8
MOST = 5  # members at a time
SESSION_S, TICK_S = 6.0, 0.5


class Game:
    """Which moves a state allows, and which one the dice choose."""

    def __init__(self, rng: random.Random, rounds: Rounds, source: Cluster) -> None:
        self.rng, self.rounds, self.source = rng, rounds, source

    def move(self) -> None:
        living = self.rounds.group.living()
        moves: list[Callable[[], object]] = [self.restart]
        if len(living) < MOST:
            moves += [self.join, self.join]
        if len(living) > 1:
            moves += [self.stop, self.kill, self.freeze]
        self.rng.choice(moves)()

    def one(self) -> Process:
        return self.rng.choice(self.rounds.group.living())

    def join(self) -> None:
        """Whoever is not there, one of ours as soon as none lives: in between, there may be only members of the JVM."""
        present = {member.kind for member in self.rounds.group.living()}
        absent = [kind for kind in ("console", "mirror") if kind not in present]
        self.rounds.join(self.rng.choice(["ours", *absent]) if "ours" in present else "ours")

    def stop(self) -> None:
        self.rounds.stop(self.one())

    def kill(self) -> None:
        self.rounds.kill(self.one())

    def freeze(self) -> None:
        self.rounds.freeze(self.one())

    def restart(self) -> None:
        self.rounds.move("ZooKeeper restarts", self.source.zookeeper_server.restart, clean=False)


@pytest.fixture(scope="module")
def source() -> Iterator[Cluster]:
    """With a ZooKeeper of its own, to be restarted."""
    with Cluster() as started:
        yield started


@pytest.mark.parametrize("first", ["console", "perf"])
def test_random_moves_of_a_mixed_group_lose_nothing(first: str, source, target, unique, tmp_path: Path) -> None:
    seed = f"{SEED}-{first}"
    topic, name = unique.topic(), unique.group()
    source.create_topic(topic, PARTITIONS)
    target.create_topic(topic, 1)
    group = Group(source, target, name, topic, PARTITIONS, tmp_path, SESSION_S)
    traffic = Traffic(source, topic, PARTITIONS)
    with OwnerLog(source.zookeeper, name, topic, PARTITIONS) as log:
        rounds = Rounds(group, log, traffic)
        try:
            rounds.join(first)
            rounds.join("ours")
            game = Game(random.Random(seed), rounds, source)
            for _ in range(ROUNDS // 2):
                game.move()
            verdict = rounds.verdict()
            verdict.check(SESSION_S + 2 * TICK_S + 3)
        except BaseException as error:
            error.add_note("\n".join([f"seed {seed}", *rounds.told]))
            raise
        finally:
            group.close()
    assert verdict.by_ours > 0
    print("\n".join([f"seed {seed}", *rounds.told, f"{verdict}"]))
