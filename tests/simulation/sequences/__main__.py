"""Run the sequences of the broker models on real and on simulated brokers, and print a table of what was seen.

python -m tests.simulation.sequences                                every sequence on every release
python -m tests.simulation.sequences --release 2.8.2 --only 1,16,Q4
python -m tests.simulation.sequences --real                         only on real brokers; --simulated: only on those
python -m tests.simulation.sequences --facts                        with each fact
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence as Several
from contextlib import ExitStack

from tests.simulation.sequences import ALL, RELEASES
from tests.simulation.sequences.real import RealCluster
from tests.simulation.sequences.sequence import Profile, See, Sequence, watched
from tests.simulation.sequences.simulated import SimulatedCluster


def main() -> int:
    given = _arguments()
    wanted = [each for key, each in ALL.items() if not given.only or key in given.only]
    bad = 0
    print("| sequence | release | real | simulated |\n|---|---|---|---|")
    for release in given.release or RELEASES:
        for profile in dict.fromkeys(each.profile for each in wanted):
            some = [each for each in wanted if each.profile is profile and each.says_something_about(release)]
            if some:
                bad += _run(release, profile, some, given)
    return 1 if bad else 0


def _run(release: str, profile: Profile, some: Several[Sequence], given: argparse.Namespace) -> int:
    """The number of rows that are not as they should be."""
    bad = 0
    with ExitStack() as stack:
        real = None if given.simulated else stack.enter_context(RealCluster(release, profile))
        simulated = None if given.real else stack.enter_context(SimulatedCluster(release, profile))
        for each in some:
            seen = [None if cluster is None else watched(each, cluster) for cluster in (real, simulated)]
            said = [_said(see) for see in seen]
            print(f"| {each.key} {each.title} | {release} | {said[0]} | {said[1]} |", flush=True)
            bad += any(see is not None and see.wrong for see in seen)
            if given.facts:
                _tell(seen)
    return bad


def _said(see: See | None) -> str:
    if see is None:
        return "-"
    return "; ".join(see.wrong) or "as expected"


def _tell(seen: Several[See | None]) -> None:
    for kind, see in zip(("real", "simulated"), seen, strict=True):
        for what, found, expected in see.rows if see is not None else ():
            print(f"    {kind}: {what}: {found!r}" + ("" if found == expected else f" (expected {expected!r})"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.sequences",
        description="Run the sequences of the broker models on real and on simulated brokers.",
    )
    parser.add_argument("--release", action="append", choices=RELEASES)
    parser.add_argument("--only", type=lambda text: set(text.split(",")), help="numbers, with commas between them")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--real", action="store_true", help="on real brokers only")
    which.add_argument("--simulated", action="store_true", help="on simulated brokers only")
    parser.add_argument("--facts", action="store_true", help="print each fact")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
