"""Undo file of deleted owner and id nodes: JSON with each node's path and data.  Pure.

    {"format": "zkconsumer.nodes/1", "cluster": "zk1:2181/kafka", "saved_at": "2026-11-29T20:01:48.599Z",
     "nodes": [{"path": "/consumers/billing/owners/orders/0", "data": "billing_host-1394154511599-60744496-0"}]}

A node whose data is not UTF-8 has "base64" in place of "data".
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from groundwork.jsontext import json_value
from groundwork.sentences import iso
from groupadmin.files.model import FileUnclear
from groupadmin.snapshot.foreign import is_held

FORMAT = "zkconsumer.nodes/1"


def nodes_text(nodes: Mapping[str, bytes], cluster: str, at_ms: int) -> str:
    """Return the text of a file with these nodes, data by path."""
    rows = [{"path": path, **_data_in(data)} for path, data in sorted(nodes.items())]
    return json.dumps({"format": FORMAT, "cluster": cluster, "saved_at": iso(at_ms), "nodes": rows}, indent=1) + "\n"


def nodes_of_text(text: str) -> dict[str, bytes]:
    """Return the nodes of such a file, data by path.

    Raises FileUnclear for another file, and for a path that is neither an owner's nor a member's.
    """
    try:
        file: Any = json_value(text)
        if file["format"] != FORMAT:
            raise KeyError("format")
        found = {str(row["path"]): _data_of(row) for row in file["nodes"]}
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise FileUnclear(None, "this is no file of nodes", f"`groups unblock` writes one ({FORMAT})") from None
    for path in found:
        names = path.split("/")
        if names[:2] != ["", "consumers"] or "" in names[2:] or len(names) < 3 or not is_held(names[2], path):
            raise FileUnclear(None, f"{path!r} is the path of no owner and of no member", "correct or delete it")
    return found


def _data_in(data: bytes) -> dict[str, str]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _data_of(row: Mapping[str, Any]) -> bytes:
    return row["data"].encode() if "data" in row else base64.b64decode(row["base64"], validate=True)
