"""Where a connector's partitions come from: a group in ZooKeeper (groupside.py) or a list (fixedside.py).

The engine has what both share: streams, cursors and timers.  A side says which partitions are read from which position,
where their leaders are found, where positions are kept, and how long the partitions may be believed to be ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from groundwork.hub import Hub
from groundwork.tasks import TaskGroup
from kafkawire.dialects import Dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.znodes.group import Registration
from zkconsumer.events import OnEvent
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.fetching.fetcher import Fetcher
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.fetching.leaders import LeaderSource
from zkconsumer.listeners import Hooks
from zkconsumer.offsets.commits import BeforeCommit, Commits, Patience, StillOurs
from zkconsumer.offsets.group import OffsetsStatus
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.store import OffsetStore
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.session.lease import Lease


@dataclass(frozen=True, slots=True)
class Parts:
    """What the engine has before it has a side.  cursors: what is owned and read, by partition; the side changes them.

    make_cursor(tp, thread, reset); make_fetcher(broker, fetchers)
    """

    config: ConsumerConfig
    dialect: Dialect
    hub: Hub
    consumer_id: str
    registration: Registration
    tasks: TaskGroup
    lease: Lease
    links: Links
    cursors: dict[TopicPartition, Cursor]
    hooks: Hooks
    make_cursor: Callable[[TopicPartition, str, str], Cursor]
    make_fetcher: Callable[[Broker, Fetchers], Fetcher]
    on_event: OnEvent
    before_commit: BeforeCommit = lambda positions: None

    def fetchers(self, source: LeaderSource) -> Fetchers:
        pause_s = self.config.refresh_leader_backoff_ms / 1000
        return Fetchers(source, self.tasks, self.links, pause_s, self.make_fetcher, self.on_event)

    def commits(
        self, store: OffsetStore, still_ours: StillOurs, patience: Callable[[], Patience | None] = lambda: None
    ) -> Commits:
        group = self.config.group_id
        before = self.before_commit
        return Commits(store, group, self.lease, still_ours, self.on_event, self.hooks.error, patience, before)


class Side(Protocol):
    """What the engine asks of either; all in the hub."""

    fetchers: Fetchers
    commits: Commits
    leaders: LeaderSource

    def connect(self) -> None:
        """Reach whoever has to be asked first.  Raises Unreachable, ChrootMissing, NoBrokers, ConsumerError."""

    def take_part(self) -> None:
        """Begin to read, or at least to try: comes back soon.  Raises ConsumerError when it cannot begin at all."""

    def leave(self, timeout_s: float) -> None:
        """Let what is in the program's hands be done, commit, give everything back; within that time."""

    def close(self) -> None:
        """The end, also of what was only half begun."""

    def may_commit(self) -> bool:
        """A commit on a timer makes sense now."""
        ...

    def readable(self, cursor: Cursor) -> bool:
        """May a parked partition be read again, as far as its position is concerned?"""
        ...

    def ask(self, what: str, question: Callable[..., Any], *args: object) -> Any:
        """question(zk, znodes, *args) on the ZooKeeper session."""

    def switch_offsets(self, mode: Mode) -> None:
        """Keep offsets elsewhere from now on.  Raises ConsumerError; then nothing has changed."""

    @property
    def offsets(self) -> OffsetsStatus | None:
        """Where a member of a group commits to."""
        ...

    @property
    def settled(self) -> bool:
        """All that is to be read is read."""
        ...

    @property
    def rounds(self) -> int:
        """Rounds of the group so far."""
        ...

    @property
    def session_state(self) -> str:
        """Of the session with ZooKeeper; empty: there is none to have."""
        ...

    @property
    def silent_s(self) -> float:
        """Seconds without a sign of life of ZooKeeper, once they are more than they should be."""
        ...
