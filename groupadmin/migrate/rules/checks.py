"""Checks of `migrate check`: each row has an id, an outcome, what was found, and a remedy.  Pure.

of the cluster
    chroot                  /consumers and /brokers/ids exist below zookeeper.connect
    brokers                 each is 0.8.2 or later
    offsets-topic           __consumer_offsets exists, or will be created with enough replicas
    offsets-topic-replicas, offsets-topic-leaders, coordinator
    retention               how long a stopped group keeps its offsets, against how long it will be stopped
    clock, access
of a group
    members, modes, kafka-members     the members, in ZooKeeper and in Kafka, and which stores they use
    elsewhere                         whether another migration has the group
    undecided, no-position            partitions that the plan leaves open, and those it leaves without an offset
    foreign, deleted-topics           nodes that no Kafka of these releases wrote, or of topics that were deleted

fail refuses the group; warn leaves the decision to the operator.  What could not be checked is a warning and never a
pass.  A coordinator is looked up only when __consumer_offsets exists: the request creates that topic with as many
replicas as there are live brokers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from groundwork.sentences import counted
from groupadmin.migrate.rules.groupplan import GroupPlan
from groupadmin.snapshot.model import GroupSnapshot
from zkconsumer.offsets.migrationmarker import BY_KAFKA, Marker, Phase
from zkconsumer.offsets.modes import Mode

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
KEEP = (0, 8, 2)  # the first release that keeps offsets in Kafka
WEEK_FROM = (2, 0)  # KIP-186: the default retention became 7 days
SINCE_EMPTY_FROM = (2, 1)  # KIP-211: counted from the moment the group became empty
Outcome = Literal["pass", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check.  group: None for a check of the cluster.  remedy: empty when there is nothing to do."""

    id: str
    outcome: Outcome
    text: str
    remedy: str = ""
    group: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """__consumer_offsets by ZooKeeper, or by a Metadata response for all topics (a request by name would create it).

    replicas: broker ids by partition.  leaders: None for a partition without one.
    """

    replicas: Mapping[int, Sequence[int]]
    leaders: Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts about the cluster; None: it could not be determined.

    zookeeper        zookeeper.connect, with its chroot
    consumers_there, brokers_there    whether /consumers and /brokers/ids (with a broker) exist under it
    releases         by broker id; None: unknown
    offsets_topic    None: it does not exist
    wanted_replicas  number of replicas it should have
    coordinator_error  why the coordinator of one of the groups could not be found; "" when it was; None: not looked up
    retention_ms     offsets.retention.minutes as given by the operator; None: the release's default is assumed
    downtime_ms      the longest the groups will be stopped
    long_retention_ms  retention that the copy requests (--retention, 0.9 and later); None: the broker's
    keepalive        the copies are committed again until the members are back (--keepalive)
    clock_ahead_ms   how far this machine's clock is ahead of the brokers' or ZooKeeper's
    refused          requests that access control refused, with the reason
    """

    zookeeper: str
    _: KW_ONLY
    consumers_there: bool | None = None
    brokers_there: bool | None = None
    releases: Mapping[int, str | None] = field(default_factory=dict)
    offsets_topic: OffsetsTopic | None = None
    wanted_replicas: int = 3
    coordinator_error: str | None = None
    retention_ms: int | None = None
    downtime_ms: int = HOUR_MS
    long_retention_ms: int | None = None
    keepalive: bool = False
    clock_ahead_ms: int | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


def failures(checks: Sequence[Check], group: str | None = None) -> tuple[str, ...]:
    """Return the failed checks as sentences with finding and remedy."""
    rows = [each for each in checks if each.outcome == "fail" and each.group in (None, group)]
    return tuple("; ".join(filter(None, (f"{each.id}: {each.text}", each.remedy))) for each in rows)


def check_cluster(facts: ClusterFacts) -> list[Check]:
    """Return the checks of the cluster."""
    rows = [_chroot(facts), _brokers(facts), *_offsets_topic(facts), _coordinator(facts), _retention(facts)]
    return [*rows, _clock(facts), *_access(facts)]


def release_of(text: str) -> tuple[int, ...]:
    """Return a release as numbers for comparison: "0.8.2.2" is (0, 8, 2, 2)."""
    return tuple(int(part) for part in re.findall(r"\d+", text))


# the cluster ----------------------------------------------------------------------------------------------------------


def _chroot(facts: ClusterFacts) -> Check:
    missing = [
        path
        for path, there in (("/consumers", facts.consumers_there), ("/brokers/ids", facts.brokers_there))
        if there is False
    ]
    if missing:
        return Check(
            "chroot",
            "fail",
            f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not under {facts.zookeeper}, or empty",
            "give the chroot of the brokers' zookeeper.connect at the end of -z (zk1:2181/kafka)",
        )
    if facts.consumers_there is None or facts.brokers_there is None:
        return Check("chroot", "warn", f"{facts.zookeeper} was not checked", "check again when ZooKeeper answers")
    return Check("chroot", "pass", f"/consumers and /brokers/ids are under {facts.zookeeper}")


def _brokers(facts: ClusterFacts) -> Check:
    unknown = sorted(broker for broker, release in facts.releases.items() if release is None)
    old = sorted(b for b, release in facts.releases.items() if release is not None and release_of(release) < KEEP)
    listed = ", ".join(f"{b}: {release or 'unknown'}" for b, release in sorted(facts.releases.items()))
    if old:
        return Check(
            "brokers",
            "fail",
            f"brokers {_ids(old)} are older than 0.8.2 and keep no offsets ({listed})",
            "upgrade every broker first; one old coordinator answers a commit without an error and stores nothing",
        )
    if unknown or not facts.releases:
        return Check(
            "brokers",
            "warn",
            f"releases are not known of {_ids(unknown) or 'any broker'}",
            "give it with --kafka-version",
        )
    return Check("brokers", "pass", f"every broker keeps offsets ({listed})")


def _offsets_topic(facts: ClusterFacts) -> list[Check]:
    topic = facts.offsets_topic
    alive = len(facts.releases)
    if topic is None:
        text = "__consumer_offsets does not exist; the first commit or look-up creates it"
        if alive < facts.wanted_replicas:
            return [
                Check(
                    "offsets-topic",
                    "fail",
                    f"{text}, with {counted(alive, 'replica')} while only {counted(alive, 'broker')} live "
                    "(from 0.11 on it fails instead)",
                    f"start {counted(facts.wanted_replicas - alive, 'more broker')} before anything is committed, or, "
                    f"if that is intended, set offsets.topic.replication.factor and check with --offsets-replicas "
                    f"{max(1, alive)}",
                )
            ]
        return [
            Check(
                "offsets-topic",
                "warn",
                f"{text}, with offsets.topic.replication.factor replicas "
                f"while {counted(alive, 'broker is', 'brokers are')} alive",
                f"create it deliberately: kafka-topics {_topics_at(facts)} --create --topic __consumer_offsets "
                f"--partitions 50 --replication-factor {facts.wanted_replicas} --config cleanup.policy=compact",
            )
        ]
    return [
        Check("offsets-topic", "pass", f"__consumer_offsets exists with {counted(len(topic.replicas), 'partition')}"),
        _replicas(topic, facts.wanted_replicas),
        _leaders(topic),
    ]


def _topics_at(facts: ClusterFacts) -> str:
    """Return where kafka-topics finds the cluster: 3.0 and later take no ZooKeeper."""
    known = [release_of(release) for release in facts.releases.values() if release is not None]
    if any(release >= (3,) for release in known):
        return "--bootstrap-server HOST:PORT"
    return f"--zookeeper {facts.zookeeper}"


def _replicas(topic: OffsetsTopic, wanted: int) -> Check:
    few = sorted(p for p, replicas in topic.replicas.items() if len(replicas) < wanted)
    if not few:
        return Check("offsets-topic-replicas", "pass", f"every partition has {counted(wanted, 'replica')} or more")
    least = min(len(topic.replicas[p]) for p in few)
    danger = "one broker lost takes offsets with it" if least < 2 else "two brokers lost take offsets with them"
    return Check(
        "offsets-topic-replicas",
        "fail" if least < 2 else "warn",
        f"{len(few)} of {counted(len(topic.replicas), 'partition')} "
        f"have less than {counted(wanted, 'replica')}, the fewest {least}: {danger}",
        "add replicas with kafka-reassign-partitions before groups depend on it, or, if that is intended, check "
        f"with --offsets-replicas {max(1, least)}",
    )


def _leaders(topic: OffsetsTopic) -> Check:
    without = sorted(p for p in topic.replicas if topic.leaders.get(p) is None)
    if not without:
        return Check("offsets-topic-leaders", "pass", "every partition has a leader")
    return Check(
        "offsets-topic-leaders",
        "fail",
        f"partitions {_ids(without)} of __consumer_offsets have no leader, so a part of the groups has no coordinator",
        "bring the brokers that hold them back",
    )


def _coordinator(facts: ClusterFacts) -> Check:
    if facts.offsets_topic is None:
        return Check(
            "coordinator", "warn", "not looked up: that would create __consumer_offsets", "create it, then check"
        )
    if facts.coordinator_error is None:
        return Check("coordinator", "warn", "not looked up", "check again when a broker answers")
    if facts.coordinator_error:
        return Check("coordinator", "fail", facts.coordinator_error, "see offsets-topic-leaders and the brokers' logs")
    return Check("coordinator", "pass", "found")


def _retention(facts: ClusterFacts) -> Check:
    known = [release_of(release) for release in facts.releases.values() if release is not None]
    oldest = min(known, default=KEEP)
    assumed = facts.retention_ms is None
    kept = facts.retention_ms or (7 * DAY_MS if oldest >= WEEK_FROM else DAY_MS)
    since = "the last commit, or from when the group became empty" if oldest >= SINCE_EMPTY_FROM else "each commit"
    text = f"a stopped group keeps its positions in Kafka for {_span(kept)} from {since}"
    text += " (the default: brokers do not report it)" if assumed else ""
    if facts.keepalive:
        return Check("retention", "pass", f"{text}; --keepalive commits the copies again until members are back")
    if facts.long_retention_ms is not None and oldest >= (0, 9):
        kept = facts.long_retention_ms
        text = f"the copy asks for {_span(kept)} (--retention)"
    if kept <= facts.downtime_ms:
        return Check(
            "retention",
            "fail",
            f"{text}, and the groups will be stopped for up to {_span(facts.downtime_ms)}: their positions would be "
            "gone, and auto.offset.reset would decide (JVM default: the end)",
            "raise offsets.retention.minutes, copy with --retention 30d (0.9 and later), or use --keepalive",
        )
    if assumed or kept < 4 * facts.downtime_ms:
        return Check(
            "retention",
            "warn",
            f"{text}; the groups will be stopped for up to {_span(facts.downtime_ms)}",
            "look up offsets.retention.minutes on every broker and give it with --broker-retention",
        )
    return Check("retention", "pass", f"{text}; the groups will be stopped for up to {_span(facts.downtime_ms)}")


def _clock(facts: ClusterFacts) -> Check:
    ahead = facts.clock_ahead_ms
    if ahead is None:
        return Check("clock", "warn", "the clocks were not compared", "check again; ages and commit times may be wrong")
    text = f"this machine's clock is {_span(abs(ahead))} {'ahead of' if ahead >= 0 else 'behind'} the cluster's"
    if abs(ahead) >= HOUR_MS:
        return Check(
            "clock", "fail", f"{text}: commit times would expire early, or late", "synchronize the clocks (NTP)"
        )
    if abs(ahead) >= 60_000:
        return Check("clock", "warn", f"{text}: ages shown are wrong by that", "synchronize the clocks (NTP)")
    return Check("clock", "pass", text)


def _access(facts: ClusterFacts) -> list[Check]:
    rows = [
        Check("access", "fail", f"{what}: {why}", "give this user the right, or run as the user the group runs as")
        for what, why in sorted(facts.refused.items())
    ]
    return rows or [Check("access", "pass", "no request was refused")]


def _ids(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (", .." if len(numbers) > 10 else "")


def _span(ms: int) -> str:
    """Return a duration as text: 36 h, 7 d, 250 ms."""
    for unit, size in (("d", DAY_MS), ("h", HOUR_MS), ("min", 60_000), ("s", 1000)):
        if ms >= 2 * size or ms == size:
            return f"{ms / size:.3g} {unit}"
    return f"{ms} ms"


def check_group(snapshot: GroupSnapshot, plan: GroupPlan, marker: Marker | None = None) -> list[Check]:
    """Return the checks of one group.  marker: the node that an earlier migration left under /consumers/GROUP."""
    rows = [_members(snapshot), _modes(snapshot.modes, snapshot.members), _kafka_members(snapshot)]
    rows += [_elsewhere(plan, marker), _undecided(plan), _foreign(plan), _deleted(plan), _no_position(plan)]
    return [Check(row.id, row.outcome, row.text, row.remedy, snapshot.group) for row in rows]


def _members(snapshot: GroupSnapshot) -> Check:
    owners = len(snapshot.owners) + sum(each.kind == "owner" for each in snapshot.foreign)
    if not snapshot.members and not owners:
        return Check("members", "pass", "no ids and no owners in ZooKeeper: it can be copied")
    return Check(
        "members",
        "warn",
        f"{_some(snapshot.members)} registered, {counted(owners, 'partition')} owned: it is active",
        "go by dual commit, or stop every member before the copy",
    )


def _modes(modes: Mapping[str, Mode], members: Sequence[str]) -> Check:
    told = sorted(set(modes.values()))
    silent = [member for member in members if member not in modes]
    if "zookeeper" in told and "kafka" in told:
        return Check(
            "modes",
            "fail",
            f"members on zookeeper and on kafka at once: {', '.join(f'{m} {modes[m]}' for m in sorted(modes))}",
            "neither reads what the other writes: take every member to dual now, or stop all of them",
        )
    if silent:
        return Check(
            "modes",
            "warn",
            f"{_some(silent)} published no mode (JVM members and other clients do not)"
            + (f"; the others are on {' and '.join(told)}" if told else ""),
            "look up their offsets.storage and dual.commit.enabled, and give it with --mode",
        )
    return Check("modes", "pass", f"every member is on {' or '.join(told)}" if told else "no members")


def _kafka_members(snapshot: GroupSnapshot) -> Check:
    there = snapshot.kafka_members
    if there is None:
        return Check("kafka-members", "pass", "brokers before 0.9 coordinate no groups")
    if there and snapshot.members:
        return Check(
            "kafka-members",
            "fail",
            f"{_some(there)} in a group of this name that Kafka coordinates, "
            f"and {_some(snapshot.members)} in ZooKeeper: both read everything",
            "stop one side now; old members' commits are refused (error 25) as long as the new ones are there",
        )
    if there:
        return Check(
            "kafka-members", "warn", f"{_some(there)} are there: they commit to Kafka", "stop them before a copy"
        )
    return Check("kafka-members", "pass", "no member in a group of this name that Kafka coordinates")


def _elsewhere(plan: GroupPlan, marker: Marker | None) -> Check:
    if marker is None or marker.phase in (Phase.PLANNED, Phase.CHECKED, Phase.ROLLED_BACK):
        return Check("elsewhere", "pass", "no other migration of it is in progress")
    if plan.direction == "to-kafka" and marker.phase in (Phase.CUTOVER, Phase.DONE, *BY_KAFKA):
        text = f"plan {marker.plan} took it to Kafka ({marker.phase}): ZooKeeper's positions are old"
        return Check("elsewhere", "fail", text, "nothing is left to copy; see `zkconsumer migrate status`")
    return Check(
        "elsewhere", "warn", f"plan {marker.plan} left it {marker.phase}", "continue that one, unless it was given up"
    )


def _undecided(plan: GroupPlan) -> Check:
    rows = plan.open_rows
    if not rows:
        return Check("undecided", "pass", f"of {counted(len(plan.rows), 'partition')} all are decided")
    return Check(
        "undecided",
        "warn",  # stores of members in dual always differ for a moment; a copy is refused while rows are open
        f"{len(rows)} of {counted(len(plan.rows), 'partition')} are open: {rows[0].tp} is "
        f"{rows[0].action}, {rows[0].why}",
        "before a copy, plan again with --prefer or --on-out-of-range, or set them by hand",
    )


def _foreign(plan: GroupPlan) -> Check:
    if not plan.foreign:
        return Check("foreign", "pass", "no node of another client")
    first = plan.foreign[0]
    return Check(
        "foreign",
        "warn",
        f"{counted(len(plan.foreign), 'node')} of other clients, the first "
        f"{first.path} = {first.found!r}: {first.text}",
        "find out what wrote them; they are shown and never changed",
    )


def _deleted(plan: GroupPlan) -> Check:
    gone = sorted({row.tp.topic for row in plan.rows if row.action == "skip-missing-topic"})
    if not gone:
        return Check("deleted-topics", "pass", "every topic with an offset exists")
    return Check(
        "deleted-topics",
        "warn",
        f"offsets of topics or partitions that do not exist: {', '.join(gone)}",
        "they are left where they are; `zkconsumer offsets delete` removes them",
    )


def _no_position(plan: GroupPlan) -> Check:
    without = [row for row in plan.rows if row.target is None and row.action in ("skip-no-offset", "out-of-range")]
    if not without:
        return Check("no-position", "pass", "every partition has, or will get, a position")
    return Check(
        "no-position",
        "warn",
        f"{counted(len(without), 'partition')} will have no position in {plan.goal}, the first {without[0].tp}: "
        f"a member that takes one "
        "starts where auto.offset.reset says (JVM default: the end, skipping what is there)",
        "set them with `zkconsumer offsets set` where that matters",
    )


def _some(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'member')} ({', '.join(names[:3])}{', ..' if len(names) > 3 else ''})"
