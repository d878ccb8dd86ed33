"""Who owned what when, and how far it was committed: samples of a group's nodes, and what must be true of them."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from kafkawire.znodes import v08 as znodes

EVERY_S = 0.05
BACK_S = 0.2


class Sample(NamedTuple):
    """began and ended: monotonic seconds around the reads; owner text and committed offset by partition."""

    began: float
    ended: float
    owners: dict[int, str]
    offsets: dict[int, int]


class OwnerLog:
    """Samples in a thread, from `with` to its end.  away: times in which ZooKeeper did not answer, as (from, to).

    partitions: how many, or their names (of 0.7: "0-1"); samples count them from 0.
    """

    def __init__(self, connect: str, group: str, topic: str, partitions: int | Sequence[str]) -> None:
        self.samples: list[Sample] = []
        self.away: list[tuple[float, float]] = []
        names = range(partitions) if isinstance(partitions, int) else partitions
        self._partitions = range(len(names))
        self._owner = [f"{znodes.owners(group, topic)}/{name}" for name in names]
        self._offset = [f"{znodes.offsets(group, topic)}/{name}" for name in names]
        self._zk = KazooClient(connect, timeout=10, connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.2})
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="owner log", daemon=True)

    def __enter__(self) -> OwnerLog:
        self._zk.start(timeout=10)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._enough.set()
        self._thread.join(15)
        self._zk.stop()
        self._zk.close()

    def _run(self) -> None:
        lost: float | None = None
        while not self._enough.wait(EVERY_S):
            began = time.monotonic()
            try:
                offsets = self._read(self._offset)  # first: an advance belongs to the owner before or at this sample
                owners = self._read(self._owner)
            except (KazooException, KazooTimeoutError):
                lost = began if lost is None else lost
                continue
            if lost is not None:
                self.away.append((lost, time.monotonic()))
                lost = None
            sample = Sample(began, time.monotonic(), owners, {p: int(text) for p, text in offsets.items()})
            self.samples.append(sample)

    def _read(self, paths: Sequence[str]) -> dict[int, str]:
        found = {}
        for partition, answer in [(p, self._zk.get_async(path)) for p, path in enumerate(paths)]:
            try:
                found[partition] = answer.get(timeout=5)[0].decode()
            except NoNodeError:
                pass
        return found

    # what must be true ----------------------------------------------------------------------------------------------

    def longest_without_owner(self, alive: Callable[[str, float], bool]) -> tuple[float, int, float]:
        """(seconds, partition, when), from the first sample in which every partition had an owner; time in which
        ZooKeeper was away does not count.  alive(owner, when): a dead one's node owns nothing."""
        worst = (0.0, -1, 0.0)
        first = next(i for i, sample in enumerate(self.samples) if len(sample.owners) == len(self._partitions))
        for partition in self._partitions:
            since: float | None = None
            for sample in self.samples[first:]:
                if since is not None:  # up to the sample that shows an owner again
                    away = sum(max(0.0, min(b, sample.began) - max(a, since)) for a, b in self.away)
                    worst = max(worst, (sample.began - since - away, partition, since))
                if partition in sample.owners and alive(sample.owners[partition], sample.began):
                    since = None
                elif since is None:
                    since = sample.ended
        return worst

    def handed_out_by_others(self, consumer_id: str, handed: Iterable[tuple[float, int, int]]) -> list[str]:
        """What a member was handed out of partitions that it owned neither in the sample before nor in the one after,
        nor in the one that was being taken: others may have owned them.

        Where one of these samples shows no owner, what was seen up to BACK_S before and after counts too: an original
        that gives away what it had deletes owner nodes by their path, and a second time when its next rebalance begins.
        That one may be ours, which came between two samples, and comes back at once.
        """
        ended = [sample.ended for sample in self.samples]
        began = [sample.began for sample in self.samples]
        wrong = []
        for at, partition, offset in handed:
            before, after = bisect_right(ended, at) - 1, bisect_left(began, at)
            if before < 0 or after >= len(ended):
                continue
            around = seen = self._owners(partition, before, after)
            if not all(around):
                first, last = bisect_left(began, at - BACK_S), bisect_right(ended, at + BACK_S) - 1
                seen = around + self._owners(partition, first, last)
            if not any(owner.startswith(f"{consumer_id}-") for owner in seen):
                wrong.append(f"{partition}@{offset} at {at:.3f}, owned by {around}")
        return wrong

    def _owners(self, partition: int, first: int, last: int) -> list[str]:
        return [sample.owners.get(partition, "") for sample in self.samples[first : last + 1]]

    def offsets_that_went_back(self, ours: Callable[[str], bool]) -> list[str]:
        """Commits that lowered a position while one of ours owned the partition before and after."""
        wrong = []
        for old, new in zip(self.samples, self.samples[1:], strict=False):
            for partition, offset in new.offsets.items():
                was = old.offsets.get(partition, 0)
                owners = (old.owners.get(partition, ""), new.owners.get(partition, ""))
                if offset < was and all(ours(owner) for owner in owners):
                    wrong.append(f"{partition} from {was} to {offset} at {new.began:.3f}, owned by {owners}")
        return wrong

    def committed_by(self, whose: Callable[[str], bool]) -> dict[int, set[int]]:
        """Offsets over which the committed position went while such an owner had the partition, or had it last, or has
        it now: the commit lies somewhere between two samples.  The owner of the sample before counts, too: owners are
        read behind offsets, and between the two an owner may commit, release, and be followed."""
        found: dict[int, set[int]] = defaultdict(set)
        last: dict[int, str] = {}
        for old, new in zip(self.samples, self.samples[1:], strict=False):
            for partition, offset in new.offsets.items():
                before = last.get(partition, "")
                last[partition] = old.owners.get(partition) or before
                was = old.offsets.get(partition, 0)
                if offset > was and any(map(whose, (before, last[partition], new.owners.get(partition, "")))):
                    found[partition].update(range(was, offset))
        return found

    def passed(self, partition: int, offset: int) -> str:
        """For an error message: when commits went over an offset, and who owned the partition then."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return "; ".join(
            f"{new.began:.2f}: {old.offsets.get(partition)} to {new.offsets.get(partition)},"
            f" owner {old.owners.get(partition)} then {new.owners.get(partition)}"
            for old, new in pairs
            if old.offsets.get(partition, 0) <= offset < new.offsets.get(partition, 0)
        )

    def owned_between(self, partition: int, since: float, until: float, whose: Callable[[str], bool]) -> bool:
        """Whether such an owner was seen on the partition in that time."""
        first = bisect_left([sample.ended for sample in self.samples], since - 2 * EVERY_S)
        return any(
            whose(sample.owners.get(partition, "-"))
            for sample in self.samples[first:]
            if sample.began <= until + 2 * EVERY_S
        )
