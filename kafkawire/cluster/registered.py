"""Of which generation the brokers are that ZooKeeper has registered, by how they write themselves down."""

from __future__ import annotations

import re
from collections.abc import Iterable

_COUNTED = re.compile(rb"[^\s:{]+:[^\s:]+:[0-9]{1,5}\s*")  # creatorId:host:port


def partitions_by_broker(nodes: Iterable[bytes]) -> bool | None:
    """What Dialect.partitions_by_broker is for them: True for 0.7, whose nodes are text, False for the JSON of later
    ones.  None where there is nothing to tell it by, or both."""
    found = set()
    for data in nodes:
        if _COUNTED.fullmatch(data):
            found.add(True)
        elif data.lstrip().startswith(b"{"):
            found.add(False)
    return found.pop() if len(found) == 1 else None
