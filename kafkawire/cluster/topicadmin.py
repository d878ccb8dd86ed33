"""Create topics, add partitions, and read the settings of topics and brokers by requests to the controller, without
ZooKeeper.

    admin = TopicAdmin(source, links, dialect, retry=AGAIN)
    admin.create("orders", NewTopic(8, 3, {"cleanup.policy": "compact"}))    True: made; False: it was there
    admin.grow("orders", 12)
    admin.settings(["orders"])

For brokers of 0.10.1 and later (partitions from 1.0, settings from 0.11).  The retry policy covers a moved controller,
an election and a restarting broker; a refusal by the controller is ControllerRefused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from kafkawire.cluster.metadata import MetadataSource, Unreachable
from kafkawire.cluster.retry import RetryPolicy
from kafkawire.cluster.topics import check_name
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect
from kafkawire.errors import LinkLost, LocalError, WireError, error_info
from kafkawire.model import Broker
from kafkawire.net.links import Links
from kafkawire.protocol.adminapis import CREATE_PARTITIONS, CREATE_TOPICS, DESCRIBE_CONFIGS
from kafkawire.protocol.adminrequests import (
    NewTopic,
    Setting,
    TopicOutcome,
    create_partitions,
    create_topics,
    describe_broker,
    describe_topics,
)

PURPOSE = "topics"
AT_ONCE = 100  # topics in one request that only validates
TIMEOUT_MS = 10000  # until the brokers know a topic; the controller creates it even after this timeout
TIMED_OUT, NOT_CONTROLLER, EXISTS, INVALID_PARTITIONS = 7, 41, 36, 37
HELPS = {  # what an operator can do about an error code
    29: "give this user the right to create topics (ACL: CREATE on the cluster or the topic)",
    31: "give this user the right to create topics (ACL: CREATE on the cluster or the topic)",
    38: "fewer replicas, or more brokers, are needed",
    40: "this cluster does not know one of the settings",
    44: "the cluster's create.topic.policy refuses it",
}
ReplyT = TypeVar("ReplyT")


class ControllerRefused(WireError):
    """The controller refused to create or change a topic; code: its error code."""

    def __init__(self, topic: str, outcome: TopicOutcome) -> None:
        said = f": {outcome.message}" if outcome.message else ""
        helps = f"; {HELPS[outcome.error]}" if outcome.error in HELPS else ""
        super().__init__(f"topic {topic}: {error_info(outcome.error).name} ({outcome.error}){said}{helps}")
        self.code = outcome.error


class TopicAdmin:
    """Admin client that creates, grows and describes topics of one cluster."""

    def __init__(
        self,
        metadata: MetadataSource,
        links: Links,
        dialect: Dialect,
        *,
        retry: RetryPolicy,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metadata = metadata
        self._links = links
        self._dialect = dialect
        self._retry = retry
        self._sleep = sleep
        self._now = now

    @property
    def creates(self) -> bool:
        """True if the brokers create topics by request."""
        return CREATE_TOPICS.key in self._dialect.versions

    @property
    def grows(self) -> bool:
        """True if the brokers add partitions by request."""
        return CREATE_PARTITIONS.key in self._dialect.versions

    @property
    def describes(self) -> bool:
        """True if the brokers return the settings of topics."""
        return DESCRIBE_CONFIGS.key in self._dialect.versions

    @property
    def validates(self) -> bool:
        """True if the brokers can validate topics without creating them (0.10.2 and later)."""
        return self._dialect.versions.get(CREATE_TOPICS.key, 0) >= 1

    @property
    def takes_defaults(self) -> bool:
        """True if a topic can be created with the broker's default replication factor (BROKERS_DEFAULT)."""
        return self._dialect.versions.get(CREATE_TOPICS.key, 0) >= 4

    def create(self, topic: str, wanted: NewTopic) -> bool:
        """Create a topic.  Return False if it already existed; nothing is changed then.

        Raises ControllerRefused, LocalError for an invalid name; Unreachable, LinkLost after retries.
        """
        check_name(topic)
        made = self.create_all({topic: wanted})[topic]
        if isinstance(made, ControllerRefused):
            raise made
        return made

    def create_all(self, wanted: Mapping[str, NewTopic]) -> dict[str, bool | ControllerRefused]:
        """Create topics in one request.  Return for each True if created, False if it already existed, or why the
        controller refuses it.

        A topic that is refused for a temporary reason is requested again, together with the others of that kind.
        Raises Unreachable, LinkLost after retries.
        """
        made: dict[str, bool | ControllerRefused] = {}
        left = dict(wanted)

        def ask() -> dict[str, TopicOutcome]:
            return self._answer(left, lambda: create_topics(self._dialect, left, TIMEOUT_MS))

        def unsettled(outcomes: dict[str, TopicOutcome]) -> bool:
            for topic, outcome in outcomes.items():
                if not _unsettled(outcome):
                    del left[topic]
                    made[topic] = self._made(topic, outcome)
            return bool(left)

        outcomes = self._again(ask, unsettled)
        return made | {topic: self._made(topic, outcome) for topic, outcome in outcomes.items() if topic in left}

    def refused(self, wanted: Mapping[str, NewTopic]) -> dict[str, ControllerRefused]:
        """Return which of these topics the controller would refuse, without creating any.

        Raises Unreachable, also if the controller cannot answer now, and LinkLost after retries.
        """
        found: dict[str, ControllerRefused] = {}
        names = list(wanted)
        for start in range(0, len(names), AT_ONCE):
            some = {topic: wanted[topic] for topic in names[start : start + AT_ONCE]}
            outcomes = self._again(partial(self._would_make, some), _any_unsettled)
            made = {topic: self._made(topic, outcome) for topic, outcome in outcomes.items()}
            some_refused = {topic: why for topic, why in made.items() if isinstance(why, ControllerRefused)}
            if _any_unsettled(outcomes):
                raise Unreachable(str(next(why for t, why in some_refused.items() if _unsettled(outcomes[t]))))
            found |= some_refused
        return found

    def _would_make(self, wanted: Mapping[str, NewTopic]) -> dict[str, TopicOutcome]:
        return self._answer(wanted, lambda: create_topics(self._dialect, wanted, TIMEOUT_MS, validate_only=True))

    @staticmethod
    def _made(topic: str, outcome: TopicOutcome) -> bool | ControllerRefused:
        if outcome.error in (0, TIMED_OUT):
            return True
        return False if outcome.error == EXISTS else ControllerRefused(topic, outcome)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic until it has `partitions`; a topic that has more is left unchanged.

        Raises ControllerRefused; Unreachable, LinkLost after retries.
        """
        outcome = self._of_controller(topic, lambda: create_partitions(self._dialect, {topic: partitions}, TIMEOUT_MS))
        if outcome.error in (0, TIMED_OUT):
            return
        if outcome.error == INVALID_PARTITIONS and self._has(topic, partitions):
            return  # another client was quicker
        raise ControllerRefused(topic, outcome)

    def _has(self, topic: str, partitions: int) -> bool:
        """True if a topic has that many partitions; brokers hear of new ones a moment after the controller."""
        looks = self._retry.attempts(self._sleep, self._now)
        return any(len(self._metadata.read(None).partitions(topic)) >= partitions for _ in looks)

    def settings(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the settings of each topic that differ from the defaults; topics that the broker does not describe are
        left out.

        Raises Unreachable, LinkLost after retries.
        """
        found = self.effective(topics).items()
        return {topic: {name: one.value for name, one in said.items() if one.own} for topic, said in found}

    def effective(self, topics: Iterable[str]) -> dict[str, dict[str, Setting]]:
        """Return all settings in effect for each topic, defaults included; topics that the broker does not describe are
        left out.

        Raises Unreachable, LinkLost after retries.
        """
        asked = list(topics)
        found = self._described(lambda broker: describe_topics(self._dialect, asked))
        return {topic: said for topic, said in found.items() if not isinstance(said, TopicOutcome)}

    def of_broker(self) -> dict[str, str]:
        """Return the settings of one broker, the controller if it is known; empty if it does not describe them.

        Raises Unreachable, LinkLost after retries.
        """
        [said] = self._described(lambda broker: describe_broker(self._dialect, broker.id)).values()
        return {} if isinstance(said, TopicOutcome) else {name: one.value for name, one in said.items()}

    def _described(self, request: Callable[[Broker], Any]) -> dict[str, dict[str, Setting] | TopicOutcome]:
        def ask() -> dict[str, Any]:
            view = self._metadata.read(None)
            broker = view.brokers.get(-1 if view.controller is None else view.controller) or _any(view)
            reply: dict[str, Any] = self._call(broker, lambda: request(broker))
            return reply

        return self._again(ask, lambda reply: False)

    def _of_controller(self, topic: str, request: Callable[[], Any]) -> TopicOutcome:
        return self._again(lambda: self._answer([topic], request)[topic], _unsettled)

    def _answer(self, topics: Iterable[str], request: Callable[[], Any]) -> dict[str, TopicOutcome]:
        """Return the controller's outcome for each of these topics."""
        asked = list(topics)
        view = self._metadata.read(None)
        controller = view.brokers.get(view.controller) if view.controller is not None else None
        if controller is None:
            return dict.fromkeys(asked, TopicOutcome(NOT_CONTROLLER, "the cluster has no controller now"))
        reply: dict[str, TopicOutcome] = self._call(controller, request)
        missing = [topic for topic in asked if topic not in reply]
        if missing:
            raise LinkLost(f"{controller} did not answer about topic {missing[0]}")
        return {topic: reply[topic] for topic in asked}

    def _call(self, broker: Broker, request: Callable[[], Any]) -> Any:
        """Send one request on its own connection; it is built once the broker is known."""
        with self._links.lent(broker, PURPOSE) as link:
            link.open()
            return link.call(request())

    def _again(self, ask: Callable[[], ReplyT], unsettled: Callable[[ReplyT], bool]) -> ReplyT:
        lost: WireError | None = None
        reply: ReplyT | None = None
        for _ in self._retry.attempts(self._sleep, self._now):
            try:
                reply, lost = ask(), None
            except (LinkLost, Unreachable) as away:
                lost = away
                continue
            if not unsettled(reply):
                return reply
        if lost is not None:
            raise lost
        if reply is None:
            raise LocalError("a retry policy without an attempt")
        return reply


def _unsettled(outcome: TopicOutcome) -> bool:
    return outcome.error != TIMED_OUT and error_info(outcome.error).retriable


def _any_unsettled(outcomes: Mapping[str, TopicOutcome]) -> bool:
    return any(_unsettled(outcome) for outcome in outcomes.values())


def _any(view: ClusterView) -> Broker:
    if not view.brokers:
        raise Unreachable("the cluster's metadata has no broker")
    return next(iter(view.brokers.values()))
