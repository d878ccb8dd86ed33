"""Sorting of a group's offset, owner and id nodes into those of these Kafka releases and foreign ones.  Pure.

    /consumers/G/offsets/T/P     a number                    offsets       what the group committed
    /consumers/G/offset/T/P      a number                    offset path   brokers of 1.1.0, OffsetCommit v0
    /consumers/G/offsets/b'T'/P  pykafka under Python 3      foreign: the topic is taken to be T, its numbers are not
    /consumers/G/offsets/T       "0:123,1:456", no children  foreign: the form of Spark jobs with one node a topic
    /consumers/G/offsets/T/x     any other name              foreign
    /consumers/G/owners/T/1-0    pykafka: broker-partition   foreign
    /consumers/G/ids/C           no JSON                     foreign
    /consumers/G/partition_0     JSON, of Storm              foreign

An unreadable number in a node with a valid name is Unknown, not foreign.  Foreign nodes are not interpreted beyond
their names: the partitions of a topic whose offsets they may hold stay open until the operator sets them.
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
from zkconsumer.session.nodes import Read

FOLDERS = ("ids", "owners", "offsets", "offset", "modes")
OURS = (*FOLDERS, "migration", "mirrored")  # zkconsumer.offsets.migrationmarker, .offsetmap.mirrored
SHOWN = 200  # characters of a foreign node's data in plans and reports
BYTES_NAME = re.compile(r"""b(['"])(.*)\1""")
ONE_NODE = re.compile(r"\d+:-?\d+(,\d+:-?\d+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """A group's nodes: offsets, those under /offset, owners by partition, ids, and foreign ones.

    sessionless: paths of owner and id nodes that no session holds.
    """

    zookeeper: Mapping[TopicPartition, ZkRow]
    offset_path: Mapping[TopicPartition, ZkRow]
    owners: Mapping[TopicPartition, str]
    members: tuple[str, ...]
    foreign: tuple[Foreign, ...]
    sessionless: tuple[str, ...] = ()


def sort_nodes(group: str, nodes: Mapping[str, Read], dialect: Dialect) -> Sorted:
    """Sort all nodes below /consumers/GROUP, given by path.  Raises nothing: a node that is not understood is
    foreign."""
    found = _Found(group, nodes, dialect)
    found.beside()
    return Sorted(
        zookeeper=dict(found.offsets("offsets")),
        offset_path=dict(found.offsets("offset")),
        owners=dict(found.owners()),
        members=tuple(found.ids()),
        foreign=tuple(found.foreign),
        sessionless=tuple(path for path, node in sorted(nodes.items()) if not node.owner and is_held(group, path)),
    )


def is_held(group: str, path: str) -> bool:
    """True for paths of owner and id nodes, which a live member holds by its session."""
    names = path.removeprefix(f"{CONSUMERS}/{group}/").split("/")
    return (names[0], len(names)) in (("ids", 2), ("owners", 3))


class _Found:
    """State of sorting one group's nodes; .foreign collects foreign ones."""

    def __init__(self, group: str, nodes: Mapping[str, Read], dialect: Dialect) -> None:
        self.foreign: list[Foreign] = []
        self._home = f"{CONSUMERS}/{group}"
        self._nodes = nodes
        self._dialect = dialect

    def beside(self) -> None:
        """Record nodes beside the folders of a group as foreign."""
        for path, node in sorted(self._nodes.items()):
            home, _, name = path.rpartition("/")
            if home == self._home and name not in OURS:
                storm = b'"offset"' in node.data
                text = "the offset of another client, as Storm keeps it" if storm else "a node of another client"
                self._no("offset" if storm else "folder", path, node, text, None)

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
                self._no("owner", path, node, "an owner of another client: the group is active", self._topic(topic))
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

    def _below(self, folder: str) -> Iterator[tuple[str, str | None, str, Read]]:
        """Yield the children and grandchildren of a folder; deeper nodes are foreign."""
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

    def _no(self, kind: ForeignKind, path: str, node: Read, text: str, topic: str | None) -> None:
        self.foreign.append(Foreign(kind, path, node.data.decode("utf-8", "backslashreplace")[:SHOWN], text, topic))


def _one_node(node: Read) -> str:
    if ONE_NODE.fullmatch(node.data.decode("utf-8", "replace").strip()):
        return "the one-node form, partition:position of all partitions"
    return "data where a folder is expected"
