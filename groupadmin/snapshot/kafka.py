"""Groups in Kafka, many at once: committed offsets, commit times, members, names.  Reads only, and creates nothing.

A group's coordinator is the leader of its partition of __consumer_offsets, so it is computed and not looked up: the
first FindCoordinator of a cluster creates that topic.  While a coordinator loads, moves or does not answer, the request
is retried for a while.  Only the records of __consumer_offsets have commit times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from groundwork.sentences import counted
from groupadmin.snapshot.cluster import AdminClient, Cluster, client_of
from groupadmin.snapshot.model import GroupSnapshot, KafkaRow
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.retry import ONCE, Backoff, RetryPolicy
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import LinkLost, LocalError, WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.exchange import exchange
from kafkawire.protocol import apis, grouptypes
from kafkawire.protocol.api import Api
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC, group_partition
from kafkawire.protocol.request import Request
from zkconsumer.offsetlog import OffsetLog, read_offset_log
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.refusals import refusal

PER_REQUEST = 5000  # partitions
GROUPS_PER_REQUEST = 200
AGAIN = (14, 15, 16)  # loading, no coordinator, another one
PURPOSE = "groups"
COORDINATOR_AGAIN = RetryPolicy(retries=None, timeout_s=10.0, backoff=Backoff(0.5, factor=1.0))

NO_SUCH_PARTITION = 3
DEAD = "Dead"  # a state of DescribeGroups: also of a group that the coordinator does not know
SHARE = "share"
NEWER: Mapping[str, tuple[Api, Callable[..., Request[Any]]]] = {
    "consumer": (apis.CONSUMER_GROUP_DESCRIBE, grouptypes.describe_consumer_groups),
    SHARE: (apis.SHARE_GROUP_DESCRIBE, grouptypes.describe_share_groups),
}

K = TypeVar("K")
Question = tuple[K, str, Request[Any]]  # its key, a group it is about, and the request


@dataclass(frozen=True, slots=True)
class NoSuchPartition(Unknown):
    """The coordinator does not know the partition: its topic was deleted, or is too new."""


def positions(
    admin: AdminClient, cluster: Cluster, wanted: Mapping[str, Sequence[TopicPartition]]
) -> dict[str, dict[TopicPartition, KafkaRow]]:
    """Return the committed offsets by group: a row for each requested partition, Unknown when no coordinator answered.

    __consumer_offsets must exist.
    """
    fetch = admin.dialect.requests.offset_fetch
    pieces = {
        (group, first): list(tps[first : first + PER_REQUEST])
        for group, tps in wanted.items()
        for first in range(0, len(tps), PER_REQUEST)
    }
    questions = [(key, key[0], fetch(admin.dialect, key[0], tps)) for key, tps in pieces.items()]
    found: dict[str, dict[TopicPartition, KafkaRow]] = {group: {} for group in wanted}
    for key, (broker, reply) in ask_coordinators(admin, cluster, questions, _offsets_again).items():
        group, tps = key[0], pieces[key]
        if isinstance(reply, str):
            found[group] |= {tp: KafkaRow(Unknown(f"group {group}, {tp}: {reply}")) for tp in tps}
            continue
        rows = {TopicPartition(t["topic"], row["partition"]): row for t in reply["topics"] for row in t["partitions"]}
        found[group] |= {tp: _row(group, tp, broker, rows.get(tp)) for tp in tps}
    return found


def described(
    admin: AdminClient, cluster: Cluster, groups: Sequence[str]
) -> dict[str, tuple[Broker | None, Mapping[str, Any] | str]]:
    """Return each group by its coordinator: the broker, and its row, or a sentence why there is none (0.9 and later).

    __consumer_offsets must exist.  A group of a newer protocol (4.0) is listed, and Dead for DescribeGroups: it is
    described by its type.  Its row has the same names, but for `type`, and members with `topics` and `partitions`.
    """
    classic = partial(admin.dialect.requests.describe_groups, admin.dialect)
    found = _described_by(admin, cluster, groups, classic)
    dead = {
        group: broker for group, (broker, row) in found.items() if not isinstance(row, str) and row["state"] == DEAD
    }
    by_type: dict[str, list[str]] = {}
    listed, silent = _listed(admin, dead)
    for group, broker in dead.items():
        if broker in silent:
            found[group] = broker, f"whether it is of a newer protocol is not known: {silent[broker]}"
    for group, kind in listed.items():
        by_type.setdefault(kind, []).append(group)
    for kind, some in by_type.items():
        api, describe = NEWER.get(kind, (None, None))
        if api is None or describe is None or not grouptypes.speaks(admin.dialect, api, api.newest):
            why = f"lists it as a {kind} group, which is not described here" if kind else "does not describe it"
            found |= {group: (dead[group], f"{dead[group]} {why}") for group in some}
            continue
        rows = _described_by(admin, cluster, some, partial(describe, admin.dialect))
        found |= {
            group: (broker, row if isinstance(row, str) else _as_classic(kind, row))
            for group, (broker, row) in rows.items()
        }
    return found


def _described_by(
    admin: AdminClient, cluster: Cluster, groups: Sequence[str], request: Callable[[Sequence[str]], Request[Any]]
) -> dict[str, tuple[Broker | None, Mapping[str, Any] | str]]:
    found: dict[str, tuple[Broker | None, Mapping[str, Any] | str]] = {}
    questions = [(part, part[0], request(part)) for part in _by_partition(cluster, groups)]
    for part, (broker, reply) in ask_coordinators(admin, cluster, questions, _groups_again).items():
        rows = {} if isinstance(reply, str) else {row["group"]: row for row in reply["groups"]}
        for group in part:
            found[group] = broker, _described(group, broker, rows.get(group), reply)
    return found


def _by_partition(cluster: Cluster, groups: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield the groups in parts of one partition of __consumer_offsets, and so of one coordinator."""
    by_partition: dict[int, list[str]] = {}
    count = len(cluster.view.partitions(OFFSETS_TOPIC)) or 1
    for group in groups:
        by_partition.setdefault(group_partition(group, count), []).append(group)
    for some in by_partition.values():
        for first in range(0, len(some), GROUPS_PER_REQUEST):
            yield tuple(some[first : first + GROUPS_PER_REQUEST])


def _as_classic(kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a newer protocol with the names of DescribeGroups."""
    members = [
        {
            "member_id": member["member_id"],
            "client_id": member["client_id"],
            "client_host": member["client_host"],
            "topics": tuple(member["subscribed"]),
            "partitions": tuple(
                TopicPartition(topic["topic"], number)
                for topic in member["assignment"]["topics"]
                for number in topic["partitions"]
            ),
        }
        for member in row["members"]
    ]
    protocol_type = "share" if kind == SHARE else "consumer"
    return {
        "state": row["state"],
        "protocol_type": protocol_type,
        "protocol": row["assignor"],
        "type": kind,
        "members": members,
    }


def _described(group: str, broker: Broker | None, row: Mapping[str, Any] | None, reply: Any) -> Mapping[str, Any] | str:
    if row is None:
        return reply if isinstance(reply, str) else f"the response of {broker} does not have it"
    if row["error"]:
        return str(refusal(row["error"], broker, group=group))
    return row


def _listed(admin: AdminClient, groups: Mapping[str, Broker | None]) -> tuple[dict[str, str], dict[Broker, str]]:
    """Return the type of each of these groups that its coordinator lists, in lower case ("" before 4.0), and from 4.0
    on the coordinators that did not list their groups, with the reason."""
    whom = {broker for broker in groups.values() if broker is not None}
    request = admin.dialect.requests.list_groups(admin.dialect)
    found: dict[str, str] = {}
    silent: dict[Broker, str] = {}
    for broker, reply in exchange(admin.links, {broker: [(broker, request)] for broker in whom}, PURPOSE).items():
        if isinstance(reply, LinkLost):
            silent[broker] = str(reply)
        elif reply["error"]:
            silent[broker] = str(refusal(reply["error"], broker))
        else:
            found |= {row["group"]: row.get("type", "").lower() for row in reply["groups"] if row["group"] in groups}
    # Before 4.0 every group is described, and a Dead one has no members.
    return found, silent if grouptypes.speaks(admin.dialect, apis.CONSUMER_GROUP_DESCRIBE) else {}


@dataclass(frozen=True, slots=True)
class Coordinated:
    """A group as its coordinator describes it.  members: their ids; when it does not answer, a sentence in their place,
    since the group may be active."""

    members: tuple[str, ...] = ()
    share: bool = False


def coordinated(admin: AdminClient, cluster: Cluster, groups: Sequence[str]) -> dict[str, Coordinated]:
    """Return what its coordinator says of each group (0.9 and later); __consumer_offsets must exist."""
    return {
        group: Coordinated((f"(the members of group {group} are unknown: {row})",))
        if isinstance(row, str)
        else Coordinated(tuple(member["member_id"] for member in row["members"]), row.get("type") == SHARE)
        for group, (_, row) in described(admin, cluster, groups).items()
    }


def share_positions(
    admin: AdminClient, cluster: Cluster, wanted: Mapping[str, Collection[TopicPartition]]
) -> dict[str, dict[TopicPartition, KafkaRow]]:
    """Return where share groups begin, by partition: everything before is done.  Other offsets they do not have.

    Where a group begins that does not tell is Unknown in its wanted partitions."""

    def unknown(group: str, why: str) -> dict[TopicPartition, KafkaRow]:
        return dict.fromkeys(wanted[group], KafkaRow(Unknown(f"where share group {group} begins is not known: {why}")))

    if not grouptypes.speaks(admin.dialect, apis.SHARE_GROUP_OFFSETS):
        return {group: unknown(group, "its brokers do not tell before 4.1") for group in wanted}
    questions = [(group, group, grouptypes.share_group_offsets(admin.dialect, group)) for group in wanted]
    found: dict[str, dict[TopicPartition, KafkaRow]] = {}
    for group, (broker, reply) in ask_coordinators(admin, cluster, questions, _groups_again).items():
        rows = {} if isinstance(reply, str) else {row["group"]: row for row in reply["groups"]}
        row = _described(group, broker, rows.get(group), reply)
        if isinstance(row, str):
            found[group] = unknown(group, row)
            continue
        found[group] = {}
        for topic in row["topics"]:
            for each in topic["partitions"]:
                tp = TopicPartition(topic["topic"], each["partition"])
                found[group][tp] = _row(group, tp, broker, {**each, "offset": each["start_offset"], "metadata": ""})
    return found


def names(admin: AdminClient, cluster: Cluster) -> dict[str, str]:
    """Return the groups of all coordinators, with their protocol type (0.9 and later), by ListGroups to each broker.

    Brokers that do not answer are reported.
    """
    request = admin.dialect.requests.list_groups(admin.dialect)
    found: dict[str, str] = {}
    for broker, reply in exchange(admin.links, {b: [(b, request)] for b in cluster.brokers.values()}, PURPOSE).items():
        if isinstance(reply, LinkLost):
            admin.tell(f"the groups of {broker} are missing: {reply}")
        elif reply["error"]:
            admin.tell(f"the groups of {broker} are missing: {refusal(reply['error'], broker)}")
        else:
            found |= {row["group"]: row["protocol_type"] for row in reply["groups"]}
    return found


def _row(group: str, tp: TopicPartition, broker: Broker | None, row: Mapping[str, Any] | None) -> KafkaRow:
    if row is None:
        return KafkaRow(Unknown(f"group {group}, {tp} on {broker}: the response does not have this partition"))
    code, offset = row["error"], row["offset"]
    if code:
        unknown = NoSuchPartition if code == NO_SUCH_PARTITION else Unknown
        return KafkaRow(unknown(str(refusal(code, broker, tp, group=group))))
    if offset == -1:
        return KafkaRow(NONE)
    if offset < 0:
        return KafkaRow(Unknown(f"group {group}, {tp} on {broker}: the committed offset is {offset}, no valid one"))
    return KafkaRow(int(offset), row["metadata"] or "")


def _offsets_again(reply: Mapping[str, Any]) -> int:
    """Return the error code for which the request is retried, else 0."""
    codes = (row["error"] for topic in reply["topics"] for row in topic["partitions"])
    return next((code for code in codes if code in AGAIN), 0)


def _groups_again(reply: Mapping[str, Any]) -> int:
    return next((row["error"] for row in reply["groups"] if row["error"] in AGAIN), 0)


def ask_coordinators(
    admin: AdminClient, cluster: Cluster, questions: Iterable[Question[K]], again: Callable[[Any], int]
) -> dict[K, tuple[Broker | None, Any]]:
    """Return the broker that answered, and the response, or a sentence when none came in time."""
    left = list(questions)
    found: dict[K, tuple[Broker | None, Any]] = {}
    client, view = client_of(admin, cluster), cluster.view
    for attempt in COORDINATOR_AGAIN.attempts(admin.sleep, admin.now) if left else ():
        if attempt.number > 1:
            view = _refreshed(client, view)
        asked, answers = _by_coordinator(view, left)
        whom = {key: broker for broker, some in asked.items() for key, _ in some}
        answers |= {key: (whom[key], reply) for key, reply in exchange(admin.links, asked, PURPOSE).items()}
        retry = []
        for question in left:
            broker, reply = answers[question[0]]
            why = _why(question[1], broker, reply, again)
            if why:
                retry.append(question)
            found[question[0]] = (broker, why or reply)
        left = retry
        if not left:
            break
    return found


def _why(group: str, broker: Broker | None, reply: Any, again: Callable[[Any], int]) -> str:
    """Return why the request must be retried, or ""."""
    if isinstance(reply, (str, LinkLost)):
        return str(reply)
    code = again(reply)
    return str(refusal(code, broker, group=group)) if code else ""


def _by_coordinator(
    view: ClusterView, questions: Sequence[Question[K]]
) -> tuple[dict[Broker, list[tuple[K, Request[Any]]]], dict[K, tuple[Broker | None, Any]]]:
    count = len(view.partitions(OFFSETS_TOPIC))
    asked: dict[Broker, list[tuple[K, Request[Any]]]] = {}
    nobody: dict[K, tuple[Broker | None, Any]] = {}
    for key, group, request in questions:
        tp = TopicPartition(OFFSETS_TOPIC, group_partition(group, count)) if count else None
        leader = view.leader(tp) if tp is not None else None
        if leader is not None:
            asked.setdefault(leader, []).append((key, request))
        else:
            nobody[key] = (None, f"{tp or OFFSETS_TOPIC} has no leader, so the group has no coordinator")
    return asked, nobody


def _refreshed(client: KafkaClient, view: ClusterView) -> ClusterView:
    try:
        return client.view(refresh=True, retry=ONCE)
    except Unreachable:
        return view  # no broker answers: use the old leaders


ONE_GROUP_S = 3.0  # no heartbeat is sent meanwhile, so it is shorter than the session timeout
EVERY_GROUP_S = 60.0


def commit_times(admin: AdminClient, cluster: Cluster, each: GroupSnapshot) -> dict[TopicPartition, int]:
    """Commit times, ms since 1970, by partition; absent when the log has none, or not in time.  It blocks: call it
    last."""
    if not any(isinstance(row.position, int) for row in each.kafka.values()):
        return {}
    name = each.group
    log = _log(admin, cluster, name, ONE_GROUP_S)
    held = log.offsets.get(name, {}) if log is not None else {}
    return {tp: stored.commit_ms for tp, stored in held.items() if stored.commit_ms is not None}


def groups_in_log(admin: AdminClient, cluster: Cluster) -> OffsetLog | None:
    """Return the content of __consumer_offsets; None when it does not exist or cannot be read.  Missing parts are
    reported.

    Call it last: it blocks, and the ZooKeeper session may have expired after it.
    """
    return _log(admin, cluster, None, EVERY_GROUP_S)


def _log(admin: AdminClient, cluster: Cluster, group: str | None, timeout_s: float) -> OffsetLog | None:
    if not (admin.keeps_kafka and cluster.keeps_offsets):
        return None
    addresses = list(admin.bootstrap) or [(broker.host, broker.port) for broker in cluster.brokers.values()]
    try:
        log = read_offset_log(addresses, admin.dialect.release, group, timeout_s, security=admin.security)
    except (WireError, LocalError) as why:
        admin.tell(f"__consumer_offsets cannot be read, so commit times in Kafka are missing: {why}")
        return None
    for text in log.missing:
        admin.tell(f"read only in part: {text}")
    if log.unknown:
        admin.tell(
            f"{counted(log.unknown, 'record')} of __consumer_offsets {'is' if log.unknown == 1 else 'are'} not"
            f" understood, so commit times and topics of groups may be missing; the first: {log.first_unknown}"
        )
    return log
