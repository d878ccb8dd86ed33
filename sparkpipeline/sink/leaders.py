"""Who leads what at the target, as a task that writes looks at it: when to look, and what to wait for.

Metadata is asked for all topics: the brokers never hear the name of one that does not exist, and so create none.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from kafkawire.cluster.view import ClusterView
from producer.config import ProducerConfig
from producer.outcomes import Outcomes
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import PipelineError, UnknownPartition, Unreachable

LONGEST_LOOK_S = 1.0  # between two looks: an election takes a few of them
QUIET_S = 3.0  # without a look for so long, the next one comes at once again


class Leaders:
    """view: as of the newest look; None: nobody has answered yet.  tell gets why nobody does."""

    def __init__(
        self,
        access: ClusterAccess,
        config: ProducerConfig,
        outcomes: Outcomes,
        tell: Callable[[str], object],
        now: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        self.view: ClusterView | None = None
        self._brokers = Brokers(replace(access, retries=0, election_ms=0))  # when to look again is decided here
        self._config, self._outcomes = config, outcomes
        self._tell, self._now, self._sleep = tell, now, sleep
        self._at = float("-inf")  # the next look, not earlier
        self._pause_s = 0.0
        self._wanted = False
        self._away = ""
        self._rng = random.Random()

    def ask(self) -> None:
        """Look again, as soon as the last look is long enough ago."""
        self._wanted = True

    @property
    def next_at(self) -> float | None:
        """When that is; None: nobody asked."""
        return self._at if self._wanted else None

    def look_if_due(self) -> None:
        """A look, where there was none yet or one is due; what waits for too long fails by it."""
        if self.view is None or (self._wanted and self._now() >= self._at):
            self._look()

    def known(self, topic: str) -> ClusterView:
        """The view once it has the topic.  Raises UnknownPartition, Unreachable after topic.wait.ms."""
        deadline = self._now() + self._config.topic_wait_ms / 1000
        looked = False
        while self.view is None or not self.view.partitions(topic):
            if looked and self._now() >= deadline:
                raise self._unknown(topic)
            self._sleep(max(0.0, self._at - self._now()))
            self._look()
            looked = True
        return self.view

    def close(self) -> None:
        self._brokers.close()

    def _look(self) -> None:
        """The next is due at once where this was the first for long, later the more of them there are."""
        first = self._config.retry_backoff_ms / 1000
        quiet = self._now() - self._at > QUIET_S
        self._pause_s = first if quiet else min(LONGEST_LOOK_S, 2 * self._pause_s)
        self._wanted, answered = False, True
        try:
            self.view = self._brokers.view(refresh=True)
        except Unreachable as away:
            answered, self._away = False, str(away)
            self._tell(self._away)
        self._at = self._now() + self._pause_s * self._rng.uniform(0.8, 1.2)
        if self._outcomes.expire(self.view or ClusterView(), self._now(), answered) or not answered:
            self.ask()

    def _unknown(self, topic: str) -> PipelineError:
        if self.view is None:
            return Unreachable(f"{self._away}; {topic} is to be written there")
        return UnknownPartition(
            f"the target has no such topic after {self._config.topic_wait_ms} ms (topic.wait.ms); nothing here creates "
            "topics: create it with as many partitions as it is to have",
            topic=topic,
        )
