"""Graph of a pipeline: loads and the stages after them.  Pure: names and edges, no files, no Spark.

orders (load) ----> lines --+--> counts         a node runs after everything it reads;
customers (load) ---^       +--> republished    one whose input failed waits, its siblings do not
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from groundwork.sentences import did_you_mean

LOAD, STAGE = "load", "stage"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Node:
    """Load or stage.

    inputs   what it consumes, batch by batch        lookups  what it reads whole, as it stands
    files    False: it writes to a topic, and nothing can read from it here
    """

    name: str
    kind: str
    inputs: tuple[str, ...] = ()
    lookups: tuple[str, ...] = ()
    files: bool = True

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.inputs, *self.lookups)


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, each after all that it reads; otherwise in the order of the file."""

    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Graph:
        """Return the graph of nodes without problems(), in order."""
        by_name = {node.name: node for node in nodes}
        placed: dict[str, Node] = {}
        while len(placed) < len(by_name):
            ready = next(n for n in nodes if n.name not in placed and all(r in placed for r in n.reads))
            placed[ready.name] = ready
        return cls(tuple(placed.values()))

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __contains__(self, name: str) -> bool:
        return any(node.name == name for node in self.nodes)

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def above(self, name: str) -> frozenset[str]:
        """Return everything that `name` reads, at any distance."""
        reads = {node.name: node.reads for node in self.nodes}
        found: set[str] = set()
        waiting = list(reads[name])
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += reads[one]
        return frozenset(found)

    def below(self, name: str) -> frozenset[str]:
        """Return everything that reads `name`, at any distance."""
        return frozenset(node.name for node in self.nodes if name in self.above(node.name))


def problems(nodes: Sequence[Node]) -> list[str]:
    """Return an error for every duplicate or invalid name, unknown or unusable input, and cycle."""
    found = [*_names(nodes)]
    by_name = {node.name: node for node in nodes}
    for node in by_name.values():
        found += _edges(node, by_name)
    if not found and (cycle := _cycle(by_name)):
        found.append(f"the stages read each other in a circle: {' <- '.join(cycle)}; one of these inputs has to go")
    return found


def nearest(name: str, known: Sequence[str]) -> str:
    """Return the end of an error about an unknown name: the nearest one, or all known ones."""
    return did_you_mean(name, known) or (f"; there are {', '.join(known)}" if known else "; there is none")


def _names(nodes: Sequence[Node]) -> Iterator[str]:
    seen: dict[str, Node] = {}
    for node in nodes:
        if NAME.fullmatch(node.name) is None:
            yield f"{node.kind} name '{node.name}' is not a SQL name: use letters, digits and _, a letter or _ first"
        # SQL names and the folders of some file systems are not case-sensitive.
        other = seen.setdefault(node.name.lower(), node)
        if other is not node:
            yield f"the name '{node.name}' is given twice: to a {other.kind} ('{other.name}') and to a {node.kind}"


def _edges(node: Node, by_name: Mapping[str, Node]) -> Iterator[str]:
    if node.kind == STAGE and not node.inputs:
        yield f"stage '{node.name}' has no inputs: name at least one load or stage whose batches it takes"
    for n, name in enumerate(node.reads):
        if name == node.name:
            yield f"stage '{node.name}' reads itself"
        elif name in node.reads[:n]:
            yield f"stage '{node.name}' names '{name}' twice among its inputs and lookups"
        elif name not in by_name:
            others = [other for other in by_name if other != node.name]
            yield f"stage '{node.name}' reads '{name}', which is neither a load nor a stage{nearest(name, others)}"
        elif not by_name[name].files:
            yield f"stage '{node.name}' reads '{name}', which writes to a topic: only Parquet output can be read again"


def _cycle(by_name: Mapping[str, Node]) -> list[str]:
    """Return a cycle, or nothing."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for read in by_name[name].reads:
            if found := visit(read, [*path, name]):
                return found
        done.add(name)
        return []

    for name in by_name:
        if found := visit(name, []):
            return found
    return []
