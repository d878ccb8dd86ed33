"""Of which generation the brokers are that ZooKeeper has registered, by how they write themselves down."""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.nodetext import of_counting_broker


def partitions_by_broker(nodes: Iterable[bytes]) -> bool | None:
    """What Dialect.partitions_by_broker is for them: True for 0.7, whose nodes are text, False for the JSON of later
    ones.  None where there is nothing to tell it by, or both."""
    found = set()
    for data in nodes:
        if of_counting_broker(data.decode(errors="replace")):
            found.add(True)
        elif data.lstrip().startswith(b"{"):
            found.add(False)
    return found.pop() if len(found) == 1 else None
