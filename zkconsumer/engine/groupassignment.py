"""Group as an assignment source: what a member does the same in ZooKeeper and on Kafka's coordinator.

    zookeeperassignment.py     the session with ZooKeeper, owner nodes, and their watches
    coordinatedassignment.py   the coordinator's heartbeats, and the generation

connect    the kind of group checks that it may be read here
take part  join the group; failures are retried forever, except a refusal of the first join
leave      wait until delivered messages are done, commit, then give everything back
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from groundwork.executor import ThreadExecutor
from groundwork.tasks import now, sleep
from kafkawire.znodes.group import Registration
from zkconsumer.engine.assignment import EngineContext
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.kafkagroup.offsets import ClaimedOffsets
from zkconsumer.member.executor import Executor, GroupActions
from zkconsumer.member.machine import MemberState
from zkconsumer.member.member import Member
from zkconsumer.member.ownership import OwnedPartitions
from zkconsumer.member.steps import Changed, Close, Happening
from zkconsumer.offsets.commits import Commits
from zkconsumer.offsets.group import GroupOffsets, OffsetsStatus
from zkconsumer.session.zksession import SessionState

FIRST_ROUND_S = 10.0  # creating streams waits that long for a first rebalance; then the member keeps trying
SUBSCRIBED_POLL_S = 0.02
SILENT_PART = 3  # divisor of the time that an answered heartbeat proves


class GroupAssignment(ABC):
    """Member of a group, for a connector.  on_fence(): the member is fenced, and all cursors are already dropped."""

    commits: Commits
    fetchers: Fetchers
    member: Member
    _store: GroupOffsets | ClaimedOffsets
    _owned: OwnedPartitions
    _actions: GroupActions

    def __init__(self, context: EngineContext, on_fence: Callable[[], object]) -> None:
        self._context = context
        self._config = context.config
        self._dialect = context.dialect
        self._versions = context.versions
        self._tasks = context.tasks
        self._lease = context.lease
        self._listener = context.listener
        self._on_event = context.on_event
        self._on_fence = on_fence
        self._executor = ThreadExecutor(context.hub)
        self._away_since: float | None = None  # set while ZooKeeper, or the coordinator, is unreachable

    def _owned_by(self, context: EngineContext) -> OwnedPartitions:
        """Return the owned partitions, once there are store, commits and fetchers."""
        return OwnedPartitions(
            cursors=context.cursors,
            fetchers=self.fetchers,
            commits=self.commits,
            store=self._store,
            make_cursor=context.make_cursor,
            config=context.config,
            listener=context.listener,
            on_event=context.on_event,
        )

    def _member_of(self, state: MemberState) -> Member:
        """Return a member by the rules of a state, once there are owned partitions and actions."""
        executor = Executor(self._actions, self._owned, self._config, self._closing)
        return Member(state, executor=executor, tasks=self._tasks, on_event=self._on_event)

    def _closing(self) -> bool:
        return self.member.closing

    # what differs -------------------------------------------------------------------------------------------------

    @abstractmethod
    def _loops(self) -> Mapping[str, Callable[[], object]]:
        """Return the tasks of a member, by name."""

    @property
    @abstractmethod
    def _session_ms(self) -> int:
        """Return how long after the last heartbeat others get our partitions."""

    @abstractmethod
    def _silence_s(self) -> float:
        """Return the seconds for which a heartbeat has been awaited."""

    @abstractmethod
    def _subscribe(self, registration: Registration) -> None:
        """Prepare another subscription, which the next round tells the group."""

    @property
    def _subscribed(self) -> bool:
        """True if the group knows our subscription."""
        return True

    # start and end ------------------------------------------------------------------------------------------------

    def take_part(self) -> None:
        for name, loop in self._loops().items():
            self._tasks.spawn(name, loop)
        self._context.watch_hub(self._session_ms)
        self.member.first_round.wait(timeout=FIRST_ROUND_S)
        if self.member.refusal:
            raise ConsumerError(self.member.refusal)

    def leave(self, timeout_s: float) -> None:
        self.member.note(Close())
        self.member.closed.wait(timeout=timeout_s)

    # what the engine asks -----------------------------------------------------------------------------------------

    def readable(self, cursor: Cursor) -> bool:
        return self._owned.readable(cursor)

    def subscribe(self, registration: Registration, timeout_s: float) -> bool:
        rounds, until = self.member.rounds, now() + timeout_s
        self._subscribe(registration)
        self.member.note(Changed())
        while not (self._subscribed and self.member.rounds > rounds and self.member.settled):
            if now() >= until or self.member.closing:
                return False
            sleep(SUBSCRIBED_POLL_S)
        return True

    @property
    def settled(self) -> bool:
        return self.member.settled

    @property
    def deleted(self) -> Mapping[str, str]:
        return self._actions.history.deleted

    @property
    def rounds(self) -> int:
        return self.member.rounds

    @property
    def offsets(self) -> OffsetsStatus:
        return self._store.status

    @property
    def silent_s(self) -> float:
        silent_s = self._silence_s()
        return silent_s if silent_s > self._session_ms / 1000 / SILENT_PART else 0.0

    # reports; none of them waits ----------------------------------------------------------------------------------

    def _report_session(self, state: SessionState, whose: str, text: str, away: str | None) -> None:
        """Report a state of the session, and once when an outage begins or ends.  whose: who answers heartbeats; away:
        why it cannot be reached."""
        self._on_event(ConsumerEvent("session", text))
        if state is SessionState.CONNECTED and self._away_since is not None:
            self._on_event(ConsumerEvent("over", f"{whose}: over after {now() - self._away_since:.1f} s"))
            self._away_since = None
        elif away is not None and self._away_since is None:
            self._away_since = now()
            effect = "nothing is committed, and no partition taken, until it answers"
            self._on_event(ConsumerEvent("outage", f"{whose} is out of reach: {away}; {effect}"))
        self._listener.session_state(state.value)

    def _fence(self, event: Happening, why: str) -> None:
        """Fence this member: first drop the cursors, so that nothing may be sent, then cut off what is in flight."""
        self.member.lost(event)
        self._on_fence()
        self._store.cut()
        self._on_event(ConsumerEvent("fence", f"{why}: others may own our partitions now, all are dropped"))
