"""Groups that go over to the target, as `zkconsumer offsets translate` would move them at that moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

from groupadmin.plan.resets import Problem
from groupadmin.translation import Facts, translated
from kafkawire.model import TopicPartition
from tests.simulation.brokers import SimCluster
from tests.simulation.brokers.replica import Tp
from tests.simulation.mirrors.copies import Reading, Readings
from zkconsumer.offsetmap.file import read_map
from zkconsumer.offsetmap.records import merged


class Translations:
    """Those of one source.  files: the offset maps of all daemons.  seen: counts what became of offsets."""

    def __init__(self, source: SimCluster, target: SimCluster, rng: Random, seen: Counter[str]) -> None:
        self._source = source
        self._target = target
        self._rng = rng
        self._seen = seen
        self._moved: list[tuple[dict[Tp, int], dict[Tp, int]]] = []  # read at the source, safe at the target

    def move(self, topic: str, readings: Readings, files: Iterable[Path]) -> None:
        """Move a group that has read a random part of a topic.  readings: of the source."""
        readings.look()
        read = {}
        for tp, reading in readings.of.items():
            if tp[0] == topic:
                try:
                    start = self._source.log(tp).start
                except KeyError:  # nobody leads it, or not yet
                    start = 0
                read[TopicPartition(*tp)] = self._rng.randint(start, max(start, reading.read_to))
        topics = {
            name: [TopicPartition(name, n) for n in range(len(found.partitions))]
            for name, found in self._target.controller.topics.items()
        }
        facts = Facts(_bounds(self._target, topics.get(topic, ())), _bounds(self._source, read), read)
        safe = {}
        for tp, found in translated(merged(read_map(file).map for file in files), facts, topics).items():
            self._seen["offsets not translated" if isinstance(found, Problem) else "offsets translated"] += 1
            if not isinstance(found, Problem):
                safe[tp.topic, int(tp.partition)] = found.position
        self._moved.append(({(tp.topic, int(tp.partition)): at for tp, at in read.items()}, safe))

    def forget(self, topic: str) -> None:
        """A topic is gone, with where the groups were in it."""
        self._moved = [
            (
                {tp: at for tp, at in read.items() if tp[0] != topic},
                {tp: at for tp, at in safe.items() if tp[0] != topic},
            )
            for read, safe in self._moved
        ]

    def skipped(self, source: Mapping[Tp, Reading], target: Mapping[Tp, Reading], exact: bool) -> str | None:
        """What one of the groups will never read, once everything is copied."""
        for read, safe in self._moved:
            for tp, position in safe.items():
                there = target[tp]
                if there.cut:
                    continue
                last = {name: offset for offset, name in (there.committed_rows() if exact else there.rows)}
                for source_tp, at in read.items():
                    for offset, name in [] if source[source_tp].cut else source[source_tp].rows:
                        if offset >= at and last.get(name, position) < position:
                            moved = f"a group at {at} of {source_tp[0]}-{source_tp[1]} was sent to {position} of"
                            lies = f"{name.decode()} at {offset} is there at {last[name]}"
                            return f"{moved} the target's {tp[0]}-{tp[1]}, and {lies}"
        return None


def _bounds(cluster: SimCluster, tps: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Begin and end of the logs that have a leader."""
    found = {}
    for tp in tps:
        try:
            log = cluster.log((tp.topic, int(tp.partition)))
        except KeyError:
            continue
        found[tp] = (log.start, log.end)
    return found
