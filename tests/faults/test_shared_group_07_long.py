"""Random moves of a group on 0.7, ours and the original's consumers, on original brokers.

`ROUNDS_SEED=n ROUNDS=m make faults` repeats a run or makes it longer; the seed and the moves stand in every failure.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localkafka.seven.cluster import Cluster07
from tests.integration.mixed07 import KINDS, Member, Mixed

pytestmark = [pytest.mark.real, pytest.mark.kafka07, pytest.mark.faults]

SEED = int(os.environ.get("ROUNDS_SEED", "1"))
ROUNDS = int(os.environ.get("ROUNDS", "10"))
MOST = 4  # members at a time


def one_move(mixed: Mixed, dice: random.Random) -> None:
    living = mixed.living()
    moves = ["join", "join"] if len(living) < MOST else []
    moves += ["stop", "kill"] if len(living) > 1 else []
    ours = [member for member in living if member.ours]
    moves += ["freeze"] if ours and len(living) > 1 else []
    move = dice.choice(moves)
    if move == "join":
        mixed.join(dice.choice(KINDS if ours else ("ours",)))
        return
    chosen: Member = dice.choice(ours if move == "freeze" else living)
    getattr(mixed, move)(chosen)


def test_random_moves_of_a_group_of_both_lose_nothing(
    cluster07: Callable[..., Cluster07], unique: Any, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    mixed = Mixed(cluster07(partitions={0: 3, 10: 2, 2: 2}), unique.group(), unique.topic(), tmp_path)
    try:
        mixed.join(dice.choice(("console", "shell")))
        mixed.join("ours")
        for _ in range(ROUNDS):
            one_move(mixed, dice)
        print(f"seed {SEED}: {mixed.check()}")
    except BaseException as error:
        error.add_note("\n".join([f"seed {SEED}", *mixed.told]))
        raise
    finally:
        mixed.close()
