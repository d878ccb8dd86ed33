"""Reading of all nodes below groups, many groups at once, level by level; and deletion of a group's nodes.

/consumers/GROUP/{ids,owners,offsets,offset,modes}/...    three levels are read; no client has deeper nodes
/consumers/GROUP/...                                      other nodes, such as Storm's: their data alone
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from groupadmin.snapshot.foreign import FOLDERS, OURS
from kafkawire.znodes.group import CONSUMERS
from zkconsumer.session.nodes import Read, delete_nodes, list_children, read_nodes
from zkconsumer.session.zkcalls import Closed, WriteOutcome
from zkconsumer.session.zksession import ZkSession

DEEPEST = 3  # levels below such a folder; a node of the third one is foreign
Tree = dict[str, Read]


def groups_in_zookeeper(session: ZkSession) -> list[str]:
    """Return the names of all groups with a node, sorted."""
    return sorted(session.children(CONSUMERS) or ())


def read_trees(session: ZkSession, groups: Iterable[str], closed: Closed | None = None) -> dict[str, Tree]:
    """Return the nodes in the folders of each group by path, without the folders themselves, and nodes beside these
    folders.

    Raises ZooKeeperAway.

    closed: filled with the groups of which a node is closed to us, and why; they are left out.  Without it such a node
    is NodeClosed.
    """
    names = list(groups)
    shut: Closed | None = None if closed is None else {}
    trees: dict[str, Tree] = {name: {} for name in names}
    homes = {f"{CONSUMERS}/{name}": name for name in names}
    there = {
        (home, child): f"{home}/{child}"
        for home, children in list_children(session, homes, shut).items()
        for child in children or ()
    }
    level = {path: homes[home] for (home, child), path in there.items() if child in FOLDERS}
    beside = {path: homes[home] for (home, child), path in there.items() if child not in OURS}
    for depth in range(DEEPEST):
        below = dict(beside) if depth == 0 else {}
        below |= {
            f"{path}/{child}": level[path]
            for path, children in list_children(session, level, shut).items()
            for child in children or ()
        }
        nodes = {path: node for path, node in read_nodes(session, below, shut).items() if node is not None}
        for path, node in nodes.items():
            trees[below[path]][path] = node
        level = {path: below[path] for path, node in nodes.items() if node.children and path not in beside}
        if not level or depth == DEEPEST - 1:
            break
    if closed is not None and shut:
        closed |= closed_groups(shut)
    return {name: tree for name, tree in trees.items() if closed is None or name not in closed}


def closed_groups(closed: Closed) -> dict[str, str]:
    """Return the groups whose nodes these are, each with why its first one is closed to us."""
    found: dict[str, str] = {}
    for path, why in closed.items():
        found.setdefault(path.split("/")[2], why)
    return found


def everything_below(session: ZkSession, group: str) -> dict[str, Read]:
    """Return all nodes of a group at any depth, its own node first."""
    home = f"{CONSUMERS}/{group}"
    found: dict[str, Read] = {}
    level = [home]
    while level:
        nodes = {path: node for path, node in read_nodes(session, level).items() if node is not None}
        found |= nodes
        parents = [path for path, node in nodes.items() if node.children]
        level = [f"{path}/{child}" for path, below in list_children(session, parents).items() for child in below or ()]
    return found


def delete_tree(session: ZkSession, group: str, nodes: Mapping[str, Read], force: bool = False) -> list[str]:
    """Delete these nodes of a group, each only in the version that was read; return the paths that still exist.

    An ephemeral node is never deleted: it belongs to a live member, and JVM members do not create theirs again.  When
    there is one nothing is deleted; with force all other nodes are.  /ids is deleted first: that fails while it has a
    member, and then nothing else is deleted.  A node that is new, or was written again, keeps its parents.
    """
    alive = [path for path, node in nodes.items() if node.owner]
    if alive and not force:
        return alive
    ids = f"{CONSUMERS}/{group}/ids"
    versions = {path: node.version for path, node in nodes.items() if not node.owner}
    first = {path: version for path, version in versions.items() if path == ids or path.startswith(ids + "/")}
    left = _delete_upwards(session, first)
    if left and not force:
        return left
    return left + _delete_upwards(session, {path: at for path, at in versions.items() if path not in first})


def _delete_upwards(session: ZkSession, versions: Mapping[str, int]) -> list[str]:
    left: list[str] = []
    for depth in sorted({path.count("/") for path in versions}, reverse=True):
        some = {path: version for path, version in versions.items() if path.count("/") == depth}
        outcomes = delete_nodes(session, some)
        left += [path for path, outcome in outcomes.items() if outcome in (WriteOutcome.CHANGED, WriteOutcome.EXISTS)]
    return left
