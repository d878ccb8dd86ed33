"""Run the sequences of the broker models on real and on simulated brokers, and print a table of what was seen.

python -m tests.simulation.sequences                                every sequence on every release
python -m tests.simulation.sequences --release 2.8.2 --only 1,16,Q4
python -m tests.simulation.sequences --real                         only on real brokers; --simulated: only on those
python -m tests.simulation.sequences --facts                        with each fact
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.sequences import ALL, RELEASES
from tests.simulation.sequences.real import RealCluster
from tests.simulation.sequences.sequence import Profile, See, Sequence, watched


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


def _run(release: str, profile: Profile, some: list[Sequence], given: argparse.Namespace) -> int:
    bad = 0
    with _clusters(release, profile, given) as kinds:
        for each in some:
            seen = [None if kind is None else watched(each, kind) for kind in kinds]
            for kind in kinds:
                if isinstance(kind, RealCluster):
                    kind.disconnect()
            bad += any(see is not None and see.wrong for see in seen)
            print(f"| {each.key} {each.title} | {release} | {_said(seen[0])} | {_said(seen[1])} |", flush=True)
            if given.facts:
                for see in filter(None, seen):
                    for what, found, expected in see.rows:
                        print(f"    {what}: {found!r}" + ("" if found == expected else f" (expected {expected!r})"))
    return bad


def _said(see: See | None) -> str:
    if see is None:
        return "-"
    return "; ".join(see.wrong) or "as expected"


@contextmanager
def _clusters(release: str, profile: Profile, given: argparse.Namespace) -> Iterator[list[RealCluster | None]]:
    if given.simulated:
        yield [None, None]
        return
    with RealCluster(release, profile) as real:
        yield [real, None]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.sequences", description=__doc__.split("\n")[0])
    parser.add_argument("--release", action="append", choices=RELEASES)
    parser.add_argument("--only", type=lambda text: set(text.split(",")), help="numbers, with commas between them")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--facts", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
