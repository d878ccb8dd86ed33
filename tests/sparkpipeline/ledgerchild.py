"""A driver in a process of its own: python -m tests.sparkpipeline.ledgerchild BASE ROUNDS [PARTITION OFFSET]

Advances the ledger on a disk, at first with a rewind where one is given; prints how each round ended.
"""

from __future__ import annotations

import sys

from sparkpipeline.ledger.exactlyonce import advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.local import LocalFiles
from tests.sparkpipeline.ledgerworld import CopyWork

HEADS = (60, 45)


def main(base: str, rounds: int, rewind: tuple[int, int] | None) -> None:
    files = LocalFiles()
    work = CopyWork(files, HEADS, rewind=rewind)
    for _ in range(rounds):
        print(advance(Ledger(files, base, snapshot_every=3), work, lambda said: print(said, file=sys.stderr)).outcome)


if __name__ == "__main__":
    _, where, how_often, *back = sys.argv
    main(where, int(how_often), (int(back[0]), int(back[1])) if back else None)
