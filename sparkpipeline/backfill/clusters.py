"""The two clusters of a backfill as the driver reaches them, and the group whose offsets are set at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast, get_args

from kafkawire.model import TopicPartition
from producer.config import ProducerConfig
from sparkpipeline.backfill.backfillplan import Request
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.boundaries import EntryBoundaries
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.driver.brokeraddresses import find_access
from sparkpipeline.errors import Mismatch, OptionRefused, Refused
from sparkpipeline.reading.readoptions import ReadOptions
from sparkpipeline.sink.sinkoptions import SinkOptions
from sparkpipeline.source.querycluster import access_of, brokers_of, known_offset
from sparkpipeline.source.sourceoptions import SourceOptions, Storage, checked_options, read_options


@dataclass(frozen=True, slots=True)
class Clusters:
    """Access to both clusters. source_options and target_options as given; accesses with known releases."""

    source_options: SourceOptions
    target_options: SinkOptions
    source: ClusterAccess
    target: ClusterAccess

    @staticmethod
    def of(request: Request, source_release: str | None = None, target_release: str | None = None) -> Clusters:
        """Resolve the accesses. releases: as planned; None: detected now.  Raises OptionRefused, Unreachable,
        Refused."""
        source_options = checked_options(_fixed(request.source, source_release), streaming=False)
        target_options = SinkOptions.of(_fixed(request.target, target_release))
        return Clusters(
            source_options,
            target_options,
            access_of(source_options),
            find_access(target_options, target_options.request_timeout_ms),
        )

    @property
    def producer(self) -> ProducerConfig:
        return self.target_options.producer(self.target)

    def read(self, now_ms: int) -> ReadOptions:
        return read_options(self.source_options, (), now_ms)

    def source_links(self) -> Brokers:
        """Return the driver's links to the source; the caller closes them."""
        return brokers_of(self.source_options, self.source)

    def boundary(self, tp: TopicPartition, known: int, at: int, until: int) -> int:
        """Return where an entry of 0.7 begins, at or after `at`.  Raises the exceptions of EntryBoundaries."""
        with self.source_links() as brokers:
            return EntryBoundaries.of(brokers, self.source_options.fetch_bytes)(tp, known, at, until)


def _fixed(options: Mapping[str, str], release: str | None) -> dict[str, str]:
    return {**options, **({"protocol": release} if release is not None else {})}


class HandOver:
    """Group of a plan, on the source cluster: no member may own one of the partitions when its offsets are written."""

    def __init__(self, group: str, storage: str, sides: Clusters, tps: Iterable[TopicPartition]) -> None:
        if storage not in get_args(Storage):
            raise OptionRefused(f"{storage} is not one of zookeeper, kafka, dual", option="--offsets-storage")
        if storage != "zookeeper" and not sides.source.spoken.keeps_offsets:
            raise OptionRefused(
                f"brokers of Kafka {sides.source.release} do not store offsets: it can only be zookeeper",
                option="--offsets-storage",
            )
        self.group = group
        self._storage = cast(Storage, storage)
        self._sides = sides
        self._tps = list(tps)

    def check(self, until: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the group's committed offsets (None: none).

        Raises Refused if a member owns one of the partitions, or an offset is after the end of its range.
        """
        with self._zookeeper() as zk:
            self._nobody_at_work(zk)
            found = self._read(zk)
        for tp, at in found.items():
            if at is not None and at > until[tp]:
                raise Refused(
                    f"group {self.group} is at {at}, after the end of the range, {until[tp]}: it has read further; "
                    "choose another end, or another group",
                    topic=tp.topic, partition=tp.partition, group=self.group,
                )  # fmt: skip
        return found

    def write(self, until: Mapping[TopicPartition, int]) -> None:
        """Write the ends as the group's offsets, and read them back.  Raises the exceptions of check, and Mismatch."""
        from sparkpipeline.driver.groupoffsets import write_offsets

        self.check(until)
        with self._zookeeper() as zk:
            answers = write_offsets(self.group, until, self._storage, access=self._sides.source, zk=zk)
            wrong = [f"{tp}: {why}" for tp, why in answers.items() if why is not None]
            found = self._read(zk)
        wrong += [
            f"{tp}: {found.get(tp)} was read back, {at} was written" for tp, at in until.items() if found.get(tp) != at
        ]
        if wrong:
            raise Mismatch(f"offsets of group {self.group} differ from those written: {'; '.join(wrong[:3])}",
                           group=self.group, positions=len(wrong))  # fmt: skip

    def _nobody_at_work(self, zk: Any | None) -> None:
        from sparkpipeline.driver.groupoffsets import group_members, group_owners

        members = group_members(self.group, self._sides.source)
        if members:
            raise Refused(
                f"member {members[0]}, coordinated by Kafka, reads in group {self.group}: stop its members until the "
                "queue is done",
                group=self.group,
            )
        owners = {} if zk is None else group_owners(zk, self.group)
        at_work = [(tp, owners[tp]) for tp in self._tps if tp in owners]
        if at_work:
            tp, owner = at_work[0]
            more = f" (and {len(at_work) - 1} more partitions)" if len(at_work) > 1 else ""
            raise Refused(
                f"{owner} reads it in group {self.group}{more}: stop that daemon until the queue is done",
                topic=tp.topic, partition=tp.partition, group=self.group,
            )  # fmt: skip

    def _read(self, zk: Any) -> dict[TopicPartition, int | None]:
        from sparkpipeline.driver.groupoffsets import read_offsets

        found = read_offsets(self.group, self._tps, self._storage, access=self._sides.source, zk=zk)
        return {tp: known_offset(self.group, tp, at) for tp, at in found.items()}

    @contextmanager
    def _zookeeper(self) -> Iterator[Any]:
        """Yield the source's ZooKeeper; None if there is none, or none was given."""
        from sparkpipeline.driver.zkclient import zookeeper_of

        if self._sides.source_options.zookeeper_connect is None and self._storage == "kafka":
            yield None
            return
        with zookeeper_of(self._sides.source_options) as zk:
            yield zk
