"""Sorting the offset, owner and id nodes of a group: those of these Kafka releases, and the others.  Pure.

    /consumers/G/offsets/T/P     a number                    offsets       what the group committed
    /consumers/G/offset/T/P      a number                    offset path   brokers of 1.1.0, OffsetCommit v0
    /consumers/G/offsets/b'T'/P  pykafka under Python 3      foreign: the topic is taken to be T, its numbers are not
    /consumers/G/offsets/T       "0:123,1:456", no children  foreign: the form of Spark jobs with one node a topic
    /consumers/G/offsets/T/x     any other name              foreign
    /consumers/G/owners/T/1-0    pykafka: broker-partition   foreign
    /consumers/G/ids/C           no JSON                     foreign

A number that cannot be read under a name that can is Unknown, not foreign.  Nothing is interpreted beyond its name:
what may hold positions keeps its topic's partitions from being planned until somebody says what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from groupadmin.snapshot.model import Foreign, ForeignKind, ZkRow
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError, RegistrationError
from kafkawire.model import TopicPartition
from kafkawire.znodes.group import CONSUMERS
from zkconsumer.offsets.store import position_of

SHOWN = 200  # characters of a foreign node's data that travel into plans and reports
BYTES_NAME = re.compile(r"""b(['"])(.*)\1""")
ONE_NODE = re.compile(r"\d+:-?\d+(,\d+:-?\d+)*")


@dataclass(frozen=True, slots=True)
class Znode:
    """A node as read, with what its stat says."""

    data: bytes
    version: int
    mzxid: int
    czxid: int
    mtime_ms: int


@dataclass(frozen=True, slots=True)
class Sorted:
    """A group's nodes: offsets, those under /offset, owners by partition, ids, and what is foreign."""

    zookeeper: Mapping[TopicPartition, ZkRow]
    offset_path: Mapping[TopicPartition, ZkRow]
    owners: Mapping[TopicPartition, str]
    members: tuple[str, ...]
    foreign: tuple[Foreign, ...]


def sort_nodes(group: str, nodes: Mapping[str, Znode], dialect: Dialect) -> Sorted:
    """Sort all nodes below /consumers/GROUP, given by path.  Raises nothing: what is not understood is foreign."""
    found = _Found(group, nodes, dialect)
    return Sorted(
        dict(found.offsets("offsets")),
        dict(found.offsets("offset")),
        dict(found.owners()),
        tuple(found.ids()),
        tuple(found.foreign),
    )


class _Found:
    """One group's nodes while they are sorted; .foreign fills up on the way."""

    def __init__(self, group: str, nodes: Mapping[str, Znode], dialect: Dialect) -> None:
        self.foreign: list[Foreign] = []
        self._home = f"{CONSUMERS}/{group}"
        self._nodes = nodes
        self._dialect = dialect

    def offsets(self, folder: str) -> Iterator[tuple[TopicPartition, ZkRow]]:
        for topic, partition, path, node in self._below(folder):
            name = self._topic(topic)
            if partition is None:
                if node.data.strip() and not self._has_children(path):
                    self._no("offset", path, node, _one_node(node), name)
                continue
            tp = self._partition(topic, partition)
            if tp is None:
                text = (
                    "the folder of a client that writes names as Python shows them" if name != topic else "no partition"
                )
                self._no("offset", path, node, text, name)
            else:
                position = position_of(path, node.data)
                yield tp, ZkRow(position, node.version, node.mzxid, node.czxid, node.mtime_ms)

    def owners(self) -> Iterator[tuple[TopicPartition, str]]:
        for topic, partition, path, node in self._below("owners"):
            if partition is None:
                continue
            tp = self._partition(topic, partition)
            if tp is None:
                self._no("owner", path, node, "an owner of another client: somebody is there", self._topic(topic))
            else:
                yield tp, node.data.decode("utf-8", "replace")

    def ids(self) -> Iterator[str]:
        for member, deeper, path, node in self._below("ids"):
            if deeper is not None:
                continue
            try:
                self._dialect.znodes.registration(node.data)
            except (RegistrationError, ValueError) as why:
                self._no("id", path, node, f"a member that JVM members cannot read ({why})", None)
            yield member

    def _below(self, folder: str) -> Iterator[tuple[str, str | None, str, Znode]]:
        """The nodes in a folder: its children, and theirs; deeper ones are foreign."""
        home = f"{self._home}/{folder}/"
        for path, node in sorted(self._nodes.items()):
            if not path.startswith(home):
                continue
            parts = path[len(home) :].split("/")
            if len(parts) > 2:
                self._no("folder", path, node, "deeper than any node of a consumer", None)
            else:
                yield parts[0], parts[1] if len(parts) == 2 else None, path, node

    def _partition(self, topic: str, partition: str) -> TopicPartition | None:
        if self._topic(topic) != topic:
            return None
        try:
            return TopicPartition(topic, self._dialect.partition(partition))
        except LocalError:
            return None

    def _topic(self, name: str) -> str:
        found = BYTES_NAME.fullmatch(name)
        return found[2] if found else name

    def _has_children(self, path: str) -> bool:
        return any(other.startswith(f"{path}/") for other in self._nodes)

    def _no(self, kind: ForeignKind, path: str, node: Znode, text: str, topic: str | None) -> None:
        self.foreign.append(Foreign(kind, path, node.data.decode("utf-8", "backslashreplace")[:SHOWN], text, topic))


def _one_node(node: Znode) -> str:
    if ONE_NODE.fullmatch(node.data.decode("utf-8", "replace").strip()):
        return "the one-node form, partition:position of all partitions"
    return "data where a folder is expected"
