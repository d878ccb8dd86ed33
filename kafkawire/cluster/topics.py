"""Create topics and add partitions as the 0.8.2 admin tool does: by znodes, on which the controller acts.

    /config/topics/T    {"version":1,"config":{...}}                      written first (AdminUtils 0.8.2.2)
    /brokers/topics/T   {"version":1,"partitions":{"0":[1,2],...}}        the controller watches for it

To add partitions (kafka-topics --alter), list more of them in the second node.

For brokers up to 0.9 (later ones have requests for both, and still support this in ZooKeeper mode).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from groundwork.jsontext import json_value
from kafkawire.errors import LocalError, RemoteError
from kafkawire.topicnames import why_no_name
from kafkawire.znodes import v08


def check_name(topic: str) -> None:
    """Raise LocalError for a topic name that brokers would refuse or could not store."""
    if why := why_no_name(topic):
        raise LocalError(f"topic {topic[:40]!r}: {why}")


def assign(brokers: Sequence[int], partitions: int, replication: int, start: int = 0) -> dict[int, list[int]]:
    """Return replicas for each partition.  Leaders rotate over the sorted brokers from index `start`, and followers are
    shifted by one more in each rotation, so that the partitions of one leader have different followers (AdminUtils
    0.8.2.2, with its random start as an argument).  Raises LocalError when there are fewer brokers than replicas."""
    if partitions < 1 or replication < 1:
        raise LocalError(f"{partitions} partitions with {replication} replicas: both must be at least 1")
    if replication > len(brokers):
        raise LocalError(f"replication factor {replication} is larger than the number of live brokers, {len(brokers)}")
    ids = sorted(brokers)
    return {p: _replicas(ids, p + start, replication, start + p // len(ids)) for p in range(partitions)}


def _replicas(ids: list[int], first: int, count: int, shift: int) -> list[int]:
    n = len(ids)
    return [ids[first % n], *(ids[(first + 1 + (shift + r) % (n - 1)) % n] for r in range(count - 1))]


def create(
    zk: Any, topic: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str] | None = None
) -> bool:
    """Create a topic through a started KazooClient.  Return True if created, False if it already existed; nothing is
    changed then.

    The controller brings the partitions up a moment later.  Raises LocalError for a name or an assignment that brokers
    cannot use, and kazoo's exceptions when ZooKeeper does not answer.
    """
    check_name(topic)
    _check_assignment(topic, assignment)
    path = f"/brokers/topics/{topic}"
    if zk.exists(path) is not None:
        return False
    settings, partitions = _documents(assignment, config)
    _write(zk, f"/config/topics/{topic}", settings)
    try:
        zk.create(path, partitions, makepath=True)
    except NodeExistsError:
        return False  # another member of the group created it first; its assignment is used
    return True


def create_all(
    zk: Any,
    assignments: Mapping[str, Mapping[int, Sequence[int]]],
    configs: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, bool | LocalError]:
    """Create many topics with all requests in flight together.  The value of a topic is the result of create() for it,
    or the LocalError that create() would raise."""
    made: dict[str, bool | LocalError] = {}
    wanted: dict[str, tuple[bytes, bytes]] = {}
    for topic, assignment in assignments.items():
        try:
            check_name(topic)
            _check_assignment(topic, assignment)
        except LocalError as unusable:
            made[topic] = unusable
            continue
        wanted[topic] = _documents(assignment, (configs or {}).get(topic))
    looks = {topic: zk.exists_async(f"/brokers/topics/{topic}") for topic in wanted}
    there = {topic for topic, look in looks.items() if look.get() is not None}
    made |= dict.fromkeys(there, False)
    missing = [topic for topic in wanted if topic not in there]
    asked = {topic: zk.create_async(f"/config/topics/{topic}", wanted[topic][0]) for topic in missing}
    for topic, config in asked.items():
        try:
            config.get()
        except (NodeExistsError, NoNodeError):
            _write(zk, f"/config/topics/{topic}", wanted[topic][0])
    asked = {topic: zk.create_async(f"/brokers/topics/{topic}", wanted[topic][1], makepath=True) for topic in missing}
    for topic, node in asked.items():
        try:
            node.get()
            made[topic] = True
        except NodeExistsError:
            made[topic] = False
    return made


def grow(zk: Any, topic: str, partitions: int, brokers: Sequence[int]) -> tuple[int, int]:
    """Add partitions to a topic until it has `partitions`, and never remove any.  Return the count before and after.

    New partitions have as many replicas as the first one, on the brokers that follow its own (AdminUtils 0.8.2.2). The
    controller brings them up a moment later.  Raises LocalError if the topic must not be changed now, and kazoo's
    exceptions when ZooKeeper does not answer.
    """
    path = f"/brokers/topics/{topic}"
    while True:
        try:
            data, stat = zk.get(path)
        except NoNodeError:
            raise LocalError(f"topic {topic} does not exist") from None
        try:
            there: Mapping[int, Sequence[int]] = v08.topic(data, f"topic {topic}")
        except RemoteError as senseless:
            raise LocalError(f"{senseless}; no partitions can be added") from None
        if len(there) >= partitions:
            return len(there), len(there)
        _check_unmoved(zk, topic)
        _check_assignment(topic, there)
        added = _added(there, partitions, brokers)
        _check_assignment(topic, {**there, **added})
        grown = json_value(data) | {"partitions": {str(p): list(r) for p, r in sorted(({**there, **added}).items())}}
        try:
            zk.set(path, _json(grown), version=stat.version)
        except BadVersionError:
            continue  # another client changed it meanwhile
        return len(there), partitions


def _check_unmoved(zk: Any, topic: str) -> None:
    """Raise LocalError while the topic is being deleted or its replicas are moved: concurrent changes would undo each
    other."""
    if zk.exists(f"/admin/delete_topics/{topic}") is not None:
        raise LocalError(f"topic {topic} is being deleted")
    try:
        text = zk.get("/admin/reassign_partitions")[0]
    except NoNodeError:
        return
    try:
        moved = {one["topic"] for one in json_value(text)["partitions"]}
    except (ValueError, TypeError, KeyError):
        raise LocalError("/admin/reassign_partitions cannot be parsed; partitions may be moving") from None
    if topic in moved:
        raise LocalError(f"partitions of topic {topic} are being reassigned; add partitions when that is over")


def _added(there: Mapping[int, Sequence[int]], partitions: int, brokers: Sequence[int]) -> dict[int, list[int]]:
    ids = sorted(brokers)
    replication = len(there[0])
    if replication > len(ids):
        raise LocalError(f"its replication factor {replication} is larger than the number of live brokers, {len(ids)}")
    start = ids.index(there[0][0]) if there[0][0] in ids else 0
    return {p: _replicas(ids, p + start, replication, start + p // len(ids)) for p in range(len(there), partitions)}


def _write(zk: Any, path: str, data: bytes) -> None:
    """Write a node; the last writer wins, as in updatePersistentPath: an existing node is left over, or another
    creator's.

    A left-over node may vanish between two reads: the controller may still be deleting an earlier topic of that name.
    """
    while True:
        try:
            zk.create(path, data, makepath=True)
            return
        except NodeExistsError:
            pass
        try:
            zk.set(path, data)
            return
        except NoNodeError:
            pass


def _check_assignment(topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
    if sorted(assignment) != list(range(len(assignment))) or not assignment:
        raise LocalError(f"topic {topic}: partitions must be numbered from 0 without holes, not {sorted(assignment)}")
    if len({len(replicas) for replicas in assignment.values()}) != 1 or not assignment[0]:
        raise LocalError(f"topic {topic}: all partitions must have the same number of replicas, at least one")
    for partition, replicas in assignment.items():
        if len(set(replicas)) != len(replicas):
            raise LocalError(f"topic {topic}: partition {partition} names a broker twice: {list(replicas)}")


def _documents(assignment: Mapping[int, Sequence[int]], config: Mapping[str, str] | None) -> tuple[bytes, bytes]:
    """Return the two nodes of a topic: its settings, and its partitions."""
    settings = {"version": 1, "config": dict(config or {})}
    partitions = {"version": 1, "partitions": {str(p): list(r) for p, r in assignment.items()}}
    return _json(settings), _json(partitions)


def _json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
