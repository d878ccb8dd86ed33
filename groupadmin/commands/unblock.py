"""`zkconsumer groups unblock`: delete owner and id nodes of a group that no session holds, with undo.

ZooKeeper deletes the nodes of a member with its session.  Nodes of a copied tree, or of a client that makes them
persistent, stay forever: no member gets their partitions, and there is no process to stop.

The undo file has each node's path and data; data that is not UTF-8 as "base64":

    {"format": "zkconsumer.nodes/1", "cluster": "zk1:2181/kafka", "saved_at": "2026-11-29T20:01:48.599Z",
     "nodes": [{"path": "/consumers/billing/owners/orders/0", "data": "billing_host-1394154511599-60744496-0"}]}
"""

from __future__ import annotations

import base64
import binascii
import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from groundwork.commands import Command, dry_run_option, execute_option, output_option
from groundwork.jsontext import json_value
from groundwork.output import EXIT, fail, write
from groundwork.sentences import counted, iso
from groundwork.zksecurity import ZooKeeper
from groupadmin.apply.undofile import keep_text
from groupadmin.commands.editoptions import undo_dir_option, usage_errors
from groupadmin.commands.offsetviews import FILE, since
from groupadmin.files.model import FileUnclear
from groupadmin.snapshot.foreign import is_held
from groupadmin.snapshot.tree import everything_below
from zkconsumer.commands.common import connected, print_note
from zkconsumer.commands.options import go_ahead, group_option, zookeeper_option
from zkconsumer.errors import NoSuchGroup
from zkconsumer.session.nodes import Read, delete_nodes, read_nodes
from zkconsumer.session.zkcalls import WriteOutcome
from zkconsumer.session.zksession import ZkSession

FORMAT = "zkconsumer.nodes/1"
COLUMNS = ("node", "holds", "age", "action")
SHOWN = 200  # characters of a node's data


@click.command(
    "unblock",
    cls=Command,
    examples=[
        "zkconsumer groups unblock -z zk1:2181/kafka --group billing",
        "zkconsumer groups unblock -z zk1:2181/kafka --group billing --execute",
        "zkconsumer groups unblock -z zk1:2181/kafka --restore undo-billing-20261129T200148Z.json --execute",
    ],
)
@zookeeper_option()
@group_option(required=False)
@click.option("--restore", type=FILE, help="Create the nodes of an undo file again, in place of deleting.")
@execute_option
@dry_run_option
@undo_dir_option
@output_option()
def unblock_command(
    zookeeper: ZooKeeper,
    group: str | None,
    restore: Path | None,
    execute: bool,
    dry_run: bool,
    undo_dir: Path,
    output: str,
) -> None:
    """Delete owner and id nodes that no session holds.

    They outlive their process, and their partitions are not read.  Nodes that a session holds are left alone: they go
    with their process.

    The undo file has the deleted nodes; --restore creates those that are missing.
    """
    if (group is None) == (restore is None):
        raise click.UsageError("give one of --group and --restore")
    with connected(zookeeper) as reach, usage_errors():
        if group is not None:
            _delete(reach.session, group, execute=execute, dry_run=dry_run, undo_dir=undo_dir, output=output)
        elif restore is not None:
            _restore(reach.session, restore, execute=execute, dry_run=dry_run, output=output)


def sessionless(group: str, nodes: Mapping[str, Read]) -> dict[str, Read]:
    """Return the owner and id nodes of a group that no session holds.  nodes: all nodes of the group."""
    return {path: node for path, node in nodes.items() if is_held(group, path) and not node.owner and not node.children}


def _delete(session: ZkSession, group: str, *, execute: bool, dry_run: bool, undo_dir: Path, output: str) -> None:
    nodes = everything_below(session, group)
    if not nodes:
        raise NoSuchGroup(f"group {group} is not known to ZooKeeper at {session.connect}")
    found, now_ms = sessionless(group, nodes), int(time.time() * 1000)
    rows = [(path, _text(node.data), since(node.mtime_ms, now_ms), "delete") for path, node in found.items()]
    if not _wanted(rows, f"delete {counted(len(found), 'node')} of group {group}", execute, dry_run, output):
        return
    # The version of a node that was made again is 0, too: a member may have claimed the partition meanwhile.
    now = read_nodes(session, found)
    same = {path: node for path, node in found.items() if (there := now[path]) and there.czxid == node.czxid}
    left = [path for path, there in now.items() if there is not None and path not in same]
    if same:
        left += _delete_same(session, group, same, undo_dir)
    if left:
        fail(f"{counted(len(left), 'node')} changed meanwhile and not deleted, the first {left[0]}", EXIT["partly"])
    print_note(f"{counted(len(same), 'node')} deleted")


def _delete_same(session: ZkSession, group: str, found: Mapping[str, Read], undo_dir: Path) -> list[str]:
    """Delete these nodes in the version that was read, after writing the undo file; return the paths that still
    exist."""
    now_ms = int(time.time() * 1000)
    text = nodes_text({path: node.data for path, node in found.items()}, session.connect, now_ms)
    undo = keep_text(text, undo_dir, [group], now_ms)
    words = ["zkconsumer", "groups", "unblock", "-z", session.connect, "--restore", str(undo), "--execute"]
    print_note(f"undo: {shlex.join(words)}")
    outcomes = delete_nodes(session, {path: node.version for path, node in found.items()})
    return [path for path, outcome in outcomes.items() if outcome in (WriteOutcome.CHANGED, WriteOutcome.EXISTS)]


def _restore(session: ZkSession, file: Path, *, execute: bool, dry_run: bool, output: str) -> None:
    saved = nodes_of_text(file.read_text(encoding="utf-8", errors="replace"))
    there = {path for path, node in session.stat(saved).items() if node is not None}
    missing = {path: data for path, data in saved.items() if path not in there}
    rows = [(path, _text(data), None, "exists" if path in there else "create") for path, data in saved.items()]
    if not missing:
        write(rows, COLUMNS, output)
        print_note("nothing to create")
    elif _wanted(rows, f"create {counted(len(missing), 'node')}", execute, dry_run, output):
        outcomes = session.create(missing)
        left = [path for path, outcome in outcomes.items() if outcome is not WriteOutcome.DONE]
        if left:
            fail(f"{counted(len(left), 'node')} created by another client meanwhile: {left[0]}", EXIT["partly"])
        print_note(f"{counted(len(missing), 'node')} created")


def _wanted(rows: Sequence[Sequence[object]], what: str, execute: bool, dry_run: bool, output: str) -> bool:
    """Print the plan; True if the operator wants it carried out."""
    write(rows, COLUMNS, output)
    sys.stdout.flush()  # before what follows on stderr
    if not rows:
        print_note("a session holds each owner and id node of the group: nothing to delete")
        return False
    return go_ahead(execute, what, dry_run)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")[:SHOWN]


# the undo file --------------------------------------------------------------------------------------------------------


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
        raise FileUnclear(None, "this is not a file of nodes", f"`groups unblock` writes one ({FORMAT})") from None
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
