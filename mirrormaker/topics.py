"""Topics of the target cluster: looked up, and created before a request names them.

A Metadata request that names a topic creates it, with the broker's own partition count.  So a topic is looked up among
all topics (a request for all creates nothing), and a missing one is created with the source's partition count: since
0.10.1 by a request to the controller (CreateTopics); before, through the target's ZooKeeper.  Only if both are
unavailable is the topic named to a broker, whose auto-creation then decides.  Partitions and replication are copied,
and the topic settings in target.topic.configs.

Missing topics are created together: topics requested while others are created form the next round of up to AT_ONCE, and
each continues as soon as its own partitions have leaders.

Creation and growth keep to limits (mirrormaker.topiclimits).  A new topic beyond them waits, and is reported; of an
existing topic only the partitions beyond them wait.

At a target of 0.7 only ZooKeeper knows which partitions brokers have.  A topic that no broker has registered is created
by the first request to produce to it, on the broker that gets it.  So each live broker is sent an empty set, which
stores nothing: then all of them register their partitions of the topic, and the first message finds every partition.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from kazoo.exceptions import KazooException

from groundwork.sentences import counted
from groundwork.tasks import Lock, now, sleep
from kafkawire.cluster import topics
from kafkawire.cluster.metadata import NothingKnown, Unreachable, ViewSource
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.topicadmin import ControllerRefused, TopicAdmin
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import read_brokers, read_partitions
from kafkawire.errors import LinkLost, LocalError, OtherGeneration, WireError, error_info
from kafkawire.interfaces import Znodes
from kafkawire.model import Broker, BrokerPartition, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.adminrequests import BROKERS_DEFAULT, NewTopic
from mirrormaker.probe import WrongVersion
from mirrormaker.retention import RETENTION, kept_by, topic_defaults
from mirrormaker.routes import SourceTopic
from mirrormaker.topiclimits import Creations, TopicLimits
from mirrormaker.topicsettings import NO_SETTINGS, TopicSettings
from zkconsumer.errors import ConsumerError

log = logging.getLogger(__name__)

BEING_CREATED = 5  # LeaderNotAvailable: the response of a 0.8 broker while it creates the topic
UNKNOWN = 3  # the response of KRaft then; and of every release, permanently, if the topic is not created
UNKNOWN_S = 3.0  # how long error 3 may mean that the topic is being created; measured: half a second
DELETED = "/admin/delete_topics"
FRESH_S = 1.0  # one read of all topics serves every request within that time
REPLICATION = 3  # if the source has no replicas at all, and the target has so many brokers
LEADERS_S = 10.0  # longest wait for leaders of a new topic; the sender would wait as well, but log more
AT_ONCE = 100  # topics created in one round, or named in one request
POLL_S = 0.1  # interval between metadata reads that waiting topics share
READ_SHARE = 5  # pause between reads as a multiple of their duration: many partitions are many bytes
LONGEST_POLL_S = 1.0  # upper bound: a read that waited for a dead broker says nothing about bytes
PURPOSE = "topics"  # purpose of the connections for empty sets
GROWN = "target topic %s: grown from %d to %d partitions, as its source has"
CONTROLLER_AGAIN = RetryPolicy(retries=None, backoff=Backoff(0.1, 1.0), timeout_s=10.0)  # an election of a controller
OUT_OF_REACH = (WireError, ConsumerError, KazooException)  # try again later


def made(topic: str) -> dict[str, str]:
    """Return the fields of a log line about a target topic that was created."""
    return {"event": "topic-created", "topic": topic}


class TopicMissing(Exception):
    """Raised when the target topic does not exist and is not created, or cannot grow; names the topic and what
    helps."""


class Topics(Protocol):
    """Topics of a target."""

    def prepare(self, topic: str, source: SourceTopic) -> Sequence[PartitionId]: ...
    def grow(self, topic: str, partitions: int) -> Sequence[PartitionId]: ...
    def view(self) -> ClusterView: ...


@dataclass(eq=False, slots=True)
class Wish:
    """A topic to be created, shared by all tasks that wait for it."""

    topic: str
    source: SourceTopic
    settled: bool = False
    there: int = 0  # partitions it already had
    error: Exception | None = None
    least: int = 1  # partitions that must have leaders
    partitions: int | None = None  # from ZooKeeper; None: the brokers decide


class TargetTopics:
    """Topics of brokers that answer metadata requests.

    zookeeper() opens a short session with the target's ZooKeeper; None if it is not given. replication 0: the source's,
    but at most the number of the target's brokers. admin: creates topics by requests, if the brokers accept them.
    settings: settings of new topics. limits: limits on creation.
    """

    def __init__(
        self,
        metadata: ViewSource,
        znodes: Znodes,
        zookeeper: Callable[[], AbstractContextManager[Any]] | None = None,
        replication: int = 0,
        *,
        admin: TopicAdmin | None = None,
        settings: TopicSettings = NO_SETTINGS,
        limits: TopicLimits = TopicLimits(),  # noqa: B008  # it never changes
    ) -> None:
        self._creations = Creations(limits)
        self._admin = admin
        self._settings = settings
        self._defaults: Mapping[str, str] | None = None  # topic settings of the brokers; None: not read yet
        self._metadata = metadata
        self._znodes = znodes
        self._zookeeper = zookeeper
        self._replication = replication
        self._lock = Lock()  # one read or change at a time
        self._view = ClusterView()
        self._seen_at: float | None = None
        self._poll_s = POLL_S
        self._wishes: dict[str, Wish] = {}
        # Topics waiting to be created by name, the least recently named first, with the last response and its time.
        self._named: dict[str, tuple[ClusterView, float] | None] = {}
        self._may_be_named: set[str] = set()  # those already allowed by the limits
        self._warned: set[str] = set()

    def prepare(self, topic: str, source: SourceTopic) -> Sequence[PartitionId]:
        """Return the partitions of a target topic, which is created if it is missing.

        Raises TopicMissing, and the errors of ZooKeeper and brokers while they are unreachable: try again then.
        """
        self._creations.asked(topic, source.source, source.ours)
        if self._zookeeper is not None or (self._admin is not None and self._admin.creates):
            return range(self._made(topic, source))
        self._named.setdefault(topic, None)  # before the lock: another task's request may name it
        try:
            with self._lock:
                partitions = self._all(FRESH_S).partitions(topic)
            return range(len(partitions) or self._by_name(topic))
        except BaseException:
            if topic in self._may_be_named:
                self._creations.give_back(topic)
            raise
        finally:
            self._named.pop(topic, None)
            self._may_be_named.discard(topic)

    def grow(self, topic: str, partitions: int) -> Sequence[PartitionId]:
        """Add partitions to a topic until it has this many, and return its partitions.

        Raises TopicMissing with the reason, and the errors of ZooKeeper and brokers while they are unreachable.
        """
        if self._admin is not None and self._admin.grows:
            return range(self._grown_by_controller(self._admin, topic, partitions))
        if self._zookeeper is None:
            raise TopicMissing(
                f"target topic {topic} gets no partitions: brokers before 1.0 have no request for it, and "
                "target.zookeeper.connect is not given"
            )
        with self._lock, self._zookeeper() as zk:
            brokers = sorted(read_brokers(zk, self._znodes))
            self._may_grow(topic, partitions, self._read())
            try:
                before, after = topics.grow(zk, topic, partitions, brokers)
            except Exception as exc:
                self._creations.give_back(topic)
                if not isinstance(exc, LocalError):
                    raise
                raise TopicMissing(f"target topic {topic} gets no partitions: {exc}") from exc
        if after > before:
            log.info(GROWN, topic, before, after)
        self._wait_for_leaders(topic, after)
        return range(after)

    def view(self) -> ClusterView:
        """Return all topics and brokers of the target, now."""
        with self._lock:
            return self._read()

    def _read(self) -> ClusterView:
        """Return the current view, with the lock held; empty while no broker knows any topic.

        Brokers of 0.8 without topics list no brokers either, and neither do brokers that have just started.  The topics
        of the latter exist already: ZooKeeper and the controller know them, so a topic that is named is not created
        again.
        """
        began = now()
        try:
            self._view = self._metadata.read(None)
        except NothingKnown:
            self._view = ClusterView()
        self._seen_at = now()
        self._poll_s = min(max(POLL_S, READ_SHARE * (self._seen_at - began)), LONGEST_POLL_S)
        return self._view

    def _all(self, fresh_s: float) -> ClusterView:
        """Return a view that is not older than fresh_s, with the lock held."""
        if self._seen_at is None or now() - self._seen_at > fresh_s:
            return self._read()
        return self._view

    # a round of new topics -------------------------------------------------------------------------------------------

    def _made(self, topic: str, source: SourceTopic) -> int:
        """Create a topic if it is missing, with others that were requested; return its number of partitions."""
        wish = self._wishes.setdefault(topic, Wish(topic, source))  # before the lock: another round may create it
        with self._lock:
            if not wish.settled:
                self._settle(wish)
        if wish.error is not None:
            raise wish.error
        if wish.there:
            return wish.there
        view = self._wait_for_leaders(topic, wish.least)
        return wish.partitions or len(view.partitions(topic)) or source.partitions

    def _settle(self, wish: Wish) -> None:
        """Look up a topic and others that were requested, and create the missing ones; with the lock held."""
        others = [other for other in self._wishes.values() if other is not wish]
        missing: list[Wish] = []
        try:
            view = self._all(FRESH_S)
        except Exception:
            self._wishes.pop(wish.topic, None)
            raise
        for each in (wish, *others):
            each.there = len(view.partitions(each.topic))
            if each.there:
                each.settled = True
                self._wishes.pop(each.topic, None)
            else:
                missing.append(each)
        if not wish.there and (allowed := self._allowed(missing[:AT_ONCE])):
            self._make(allowed)

    def _allowed(self, wishes: Sequence[Wish]) -> list[Wish]:
        """Return the wishes that keep to the limits, and complete the others with the reason; with the lock held."""
        wanted = {wish.topic: wish.source.partitions for wish in wishes}
        refused = self._creations.refusals(wanted, self._view.topics, now())
        for wish in wishes:
            if wish.topic in refused:
                wish.error, wish.settled = _not_created(wish.topic, refused[wish.topic]), True
                self._wishes.pop(wish.topic, None)
        return [wish for wish in wishes if wish.topic not in refused]

    def _make(self, wishes: Sequence[Wish]) -> None:
        """Create topics and complete their wishes; with the lock held."""
        try:
            if self._admin is not None and self._admin.creates:
                self._through_controller(self._admin, wishes)
            else:
                assert self._zookeeper is not None
                with self._zookeeper() as zk:
                    self._through_zookeeper(zk, wishes)
        except (TopicMissing, LocalError, *OUT_OF_REACH) as exc:
            for wish in wishes:
                wish.error = wish.error or exc
        finally:
            for wish in wishes:
                wish.settled = True
                self._wishes.pop(wish.topic, None)
                if wish.error is not None:
                    self._creations.give_back(wish.topic)

    def _through_controller(self, admin: TopicAdmin, wishes: Sequence[Wish]) -> None:
        wanted: dict[str, NewTopic] = {}
        for wish in wishes:
            source = wish.source
            brokers = len(self._view.brokers)
            replication = replicas_of(self._replication, source.replication, brokers, admin.takes_defaults)
            try:
                topics.check_name(wish.topic)
                wanted[wish.topic] = NewTopic(source.partitions, replication, self._settings.of(source.settings))
            except LocalError as exc:
                wish.error = _refused(wish.topic, exc)
        try:
            made = admin.create_all(wanted) if wanted else {}
        except LocalError as exc:
            made = {}
            for topic in wanted:
                self._wishes[topic].error = _refused(topic, exc)
        for wish in wishes:
            created = made.get(wish.topic)
            if isinstance(created, ControllerRefused):
                wish.error = _refused(wish.topic, created)
            elif created:
                new = wanted[wish.topic]
                wish.least = new.partitions
                kept = self._kept(admin, wish.source, new.settings)
                self._say_created(wish.topic, new.partitions, new.replication, new.settings, kept)

    def _kept(self, admin: TopicAdmin, source: SourceTopic, settings: Mapping[str, str]) -> str:
        """Return how long a new topic keeps messages, as the end of a sentence; "" if the brokers do not say."""
        if not admin.describes:
            return ""
        if self._defaults is None:
            try:
                self._defaults = topic_defaults(admin.of_broker())
            except OUT_OF_REACH:
                return ""
        asked = RETENTION in self._settings.copied and RETENTION not in source.settings
        unset = f"; the source topic does not set {RETENTION}, and its brokers' default is not copied" if asked else ""
        return f"; {kept_by(settings, self._defaults)}{unset}"

    def _say_created(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str], kept: str = ""
    ) -> None:
        copies = f", replication {replication}" if replication != BROKERS_DEFAULT else ""
        given = ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))
        others = f"with {given}; other settings" if given else "other settings"
        counts = f"{counted(partitions, 'partition')}{copies}"
        log.info(
            "target topic %s created: %s (%s are the target's own)%s", topic, counts, others, kept, extra=made(topic)
        )

    def _grown_by_controller(self, admin: TopicAdmin, topic: str, partitions: int) -> int:
        with self._lock:
            view = self._read()
            before = len(view.partitions(topic))
            if before < partitions:
                self._may_grow(topic, partitions, view)
                try:
                    admin.grow(topic, partitions)
                except Exception as exc:
                    self._creations.give_back(topic)
                    if not isinstance(exc, ControllerRefused):
                        raise
                    raise TopicMissing(f"target topic {topic} gets no partitions: {exc}") from exc
                log.info(GROWN, topic, before, partitions)
                self._seen_at = None
        if before < partitions:
            self._wait_for_leaders(topic, partitions)
        return max(partitions, len(self._view.partitions(topic)))

    def _may_grow(self, topic: str, partitions: int, view: ClusterView) -> None:
        """Raise TopicMissing if a topic would exceed a limit with this many partitions."""
        if len(view.partitions(topic)) >= partitions:
            return
        if why := self._creations.refusals({topic: partitions}, view.topics, now(), "add them yourself").get(topic):
            raise TopicMissing(f"target topic {topic} gets no partitions: {why}")

    def _through_zookeeper(self, zk: Any, wishes: Sequence[Wish]) -> None:
        there = {topic: len(p) for topic, p in self._in_zookeeper(zk, wishes).items()}
        brokers = sorted(read_brokers(zk, self._znodes))
        assignments: dict[str, dict[int, list[int]]] = {}
        settings: dict[str, Mapping[str, str]] = {}
        for wish in wishes:
            topic, source = wish.topic, wish.source
            if topic in there:
                if zk.exists(f"{DELETED}/{topic}") is not None:
                    wish.error = TopicMissing(f"target topic {topic} is being deleted; it is created again afterwards")
                continue
            replication = replicas_of(self._replication, source.replication, len(brokers), False)
            start = random.randrange(len(brokers) or 1)
            try:
                assignments[topic] = topics.assign(brokers, source.partitions, replication, start)
                settings[topic] = self._settings.of(source.settings)
            except LocalError as exc:
                wish.error = _refused(topic, exc)
        made = topics.create_all(zk, assignments, settings)
        quicker = [wish for wish in wishes if made.get(wish.topic) is False]
        there |= {topic: len(p) for topic, p in self._in_zookeeper(zk, quicker).items()}
        for wish in wishes:
            created, assigned = made.get(wish.topic), assignments.get(wish.topic, {})
            if isinstance(created, LocalError):
                wish.error = _refused(wish.topic, created)
            elif created is False and wish.topic not in there:
                wish.error = TopicMissing(
                    f"target topic {wish.topic} exists, but its node in ZooKeeper is invalid: "
                    "its number of partitions is unknown"
                )
            elif created:
                replication = len(assigned[0])
                self._say_created(wish.topic, len(assigned), replication, settings[wish.topic])
            wish.least = wish.partitions = there.get(wish.topic) or len(assigned)

    def _in_zookeeper(self, zk: Any, wishes: Sequence[Wish]) -> Mapping[str, Mapping[PartitionId, Sequence[int]]]:
        found: dict[str, dict[PartitionId, list[int]]] = read_partitions(zk, self._znodes, [w.topic for w in wishes])
        return found

    def _wait_for_leaders(self, topic: str, partitions: int) -> ClusterView:
        """Wait until the brokers' metadata matches ZooKeeper; after LEADERS_S, the sender continues to wait."""
        deadline = now() + LEADERS_S
        while True:
            with self._lock:
                view = self._all(self._poll_s)
            leaders = [partition.leader for partition in view.topics.get(topic, {}).values()]
            if now() >= deadline or (len(leaders) >= partitions and None not in leaders):
                return view
            sleep(self._poll_s)

    # by name ---------------------------------------------------------------------------------------------------------

    def _by_name(self, topic: str) -> int:
        if topic not in self._warned:
            self._warned.add(topic)
            log.warning(
                "target topic %s does not exist and target.zookeeper.connect is not given: "
                "the target's auto-creation decides its partition count",
                topic,
            )
        began = now()
        while True:
            view = self._named_view(topic)
            code = view.errors.get(topic, 0)
            if view.partitions(topic) and not code:
                return len(view.partitions(topic))
            patience_s = {0: LEADERS_S, BEING_CREATED: LEADERS_S, UNKNOWN: UNKNOWN_S}.get(code, 0.0)
            if now() - began >= patience_s:
                raise TopicMissing(
                    f"target topic {topic} does not exist and the target does not create it "
                    f"({error_info(code).name}): create it, or give target.zookeeper.connect"
                )
            sleep(POLL_S)

    def _named_view(self, topic: str) -> ClusterView:
        """Return the brokers' response about a named topic, at most POLL_S old; other waiting topics are named too."""
        with self._lock:
            known = self._named.get(topic)
            if known is not None and now() - known[1] <= POLL_S:
                return known[0]
            names = self._within_limits([topic, *[other for other in self._named if other != topic][: AT_ONCE - 1]])
            view = self._metadata.read(names)
            for name in names:
                if name == topic or name in self._named:
                    self._named.pop(name, None)
                    self._named[name] = view, now()
            return view

    def _within_limits(self, names: Sequence[str]) -> list[str]:
        """Return the topics that may be named, with the lock held; naming creates them with the brokers' own partition
        count.

        Raises TopicMissing if the first of them must not be named.
        """
        undecided = [name for name in names if name not in self._may_be_named and not self._view.partitions(name)]
        if not undecided:
            return list(names)
        refused = self._creations.refusals(dict.fromkeys(undecided, 1), self._view.topics, now())
        self._may_be_named.update(name for name in undecided if name not in refused)
        if names[0] in refused:
            raise _not_created(names[0], refused[names[0]])
        return [name for name in names if name not in refused]


def replicas_of(configured: int, source: int, brokers: int, takes_defaults: bool) -> int:
    """Return how many replicas a new topic gets: as many as the source has, but no more than the target has brokers.
    For a source of 0.7, which has no replicas, it is the target's own default if it `takes_defaults`."""
    if not configured and not source and takes_defaults:
        return BROKERS_DEFAULT
    return configured or min(source or REPLICATION, brokers) or 1


def _refused(topic: str, why: Exception) -> TopicMissing:
    refused = TopicMissing(f"target topic {topic} does not exist and cannot be created: {why}")
    refused.__cause__ = why
    return refused


def _not_created(topic: str, why: str) -> TopicMissing:
    return TopicMissing(f"target topic {topic} does not exist and is not created: {why}")


# ---- 0.7 ------------------------------------------------------------------------------------------------------------


def made_by_brokers(view: ClusterView) -> int:
    """Return the least number of partitions that brokers of 0.7 create for a new topic: each decides its own."""
    return len(view.brokers)


class Registrations(Protocol):
    """Interface of producer.zookeeper.ZookeeperSource."""

    @property
    def dialect(self) -> Any: ...
    def read(self, topics: Sequence[str] | None) -> ClusterView: ...


class BrokerTopics:
    """Topics of brokers without metadata requests.  links: for the empty sets.  limits: limits on creation."""

    def __init__(
        self,
        source: Registrations,
        links: Links,
        limits: TopicLimits = TopicLimits(),  # noqa: B008  # it never changes
    ) -> None:
        self._creations = Creations(limits)
        self._source = source
        self._links = links
        self._lock = Lock()  # several streams may need the same new topic

    def prepare(self, topic: str, source: SourceTopic) -> Sequence[PartitionId]:
        """Return the partitions of a topic on the live brokers, in order; create it if no broker has it.

        Raises TopicMissing, and ZooKeeper's errors while it is unreachable: try again then.
        """
        self._creations.asked(topic, source.source, source.ours)
        with self._lock:
            view = self._source.read(None)
            if not self._registered(view, topic):
                wanted = made_by_brokers(view)
                if why := self._creations.refusals({topic: wanted}, view.topics, now()).get(topic):
                    raise _not_created(topic, why)
                self._make(topic, view)
            found = self._source.read([topic]).partitions(topic)
            if not found:
                self._creations.give_back(topic)
                raise TopicMissing(f"target topic {topic}: no broker that has it is alive")
            return found

    def grow(self, topic: str, partitions: int) -> Sequence[PartitionId]:
        """Raise TopicMissing: a setting of each broker of 0.7 decides the number of partitions."""
        raise TopicMissing(f"target topic {topic} gets no partitions: each broker of 0.7 decides their number itself")

    def view(self) -> ClusterView:
        """Return all topics and brokers of the target, now.  Raises Unreachable and WrongVersion."""
        try:
            return self._source.read(None)
        except Unreachable:
            raise
        except OtherGeneration as other:
            said = f"{other} target.version in the file stands for {self._source.dialect.release}"
            raise WrongVersion(said) from other
        except WireError as away:
            raise Unreachable(str(away)) from away

    def _registered(self, view: ClusterView, topic: str) -> bool:
        return bool(view.topics.get(topic))

    def _make(self, topic: str, view: ClusterView) -> None:
        asked = [broker for broker in view.brokers.values() if self._send_nothing(broker, topic)]
        deadline = now() + LEADERS_S
        while now() < deadline:
            there = {p.broker for p in self._source.read(None).partitions(topic) if isinstance(p, BrokerPartition)}
            if {broker.id for broker in asked} <= there:
                named = ", ".join(map(str, sorted(there)))
                log.info("target topic %s: made on brokers %s", topic, named, extra=made(topic))
                return
            sleep(0.05)
        log.warning("target topic %s: not registered by all brokers within %g s", topic, LEADERS_S)

    def _send_nothing(self, broker: Broker, topic: str) -> bool:
        """Send an empty set and a request behind it: its response shows that the broker has handled both."""
        dialect = self._source.dialect
        tp = TopicPartition(topic, BrokerPartition(broker.id, 0))
        try:
            with self._links.lent(broker, PURPOSE) as link:
                link.call(dialect.requests.produce(dialect, -1, 0, {tp: []}))
                link.call(dialect.requests.barrier(dialect, tp))
        except (LinkLost, LocalError) as lost:
            log.warning("target topic %s cannot be made on %s: %s", topic, broker, lost)
            return False
        finally:
            self._links.drop(broker, PURPOSE)
        return True
