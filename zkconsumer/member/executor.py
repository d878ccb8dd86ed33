"""Executor of a member's actions: runs one, and returns its report.  Runs in the event loop.

Actions that both kinds of group have are here; GroupActions.own has the others.  steps.Do lists actions and reports.  A
failure of ZooKeeper, a broker or a store is also a report: `Failed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from groundwork.tasks import Event
from kafkawire.errors import WireError
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.member.history import TopicHistory
from zkconsumer.member.ownership import Offset, OwnedPartitions
from zkconsumer.member.steps import Action, Assignment, Do, Failed, Finished, Located, Report
from zkconsumer.options.config import ConsumerConfig


class GroupActions:
    """Actions of one kind of group: how the group is read, and how claims are made, kept and given back.

    own: actions that only this kind has, and LEAVE.  freed: set to end a wait.  history: topics as read so far.
    """

    def __init__(self, own: Mapping[Do, Callable[[Action], Report]], history: TopicHistory) -> None:
        self.own = own
        self.freed = Event()
        self.history = history

    def dropping(self, assignment: Assignment) -> None:
        """Give up the claim on partitions, before their cursors are dropped."""

    def committing(self, assignment: Assignment) -> None:
        """Prepare the last commit of partitions."""

    def committed(self, assignment: Assignment) -> None:
        """Clean up after the last commit of partitions, whether or not it succeeded."""

    def located(self, offsets: dict[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        """Return the offsets to start at, given the committed ones."""
        return offsets

    def claimed(self) -> Callable[[TopicPartition], bool]:
        """Return a function that tells whether a partition is still ours by the present claim."""
        raise NotImplementedError

    def prepare(self, cursor: Cursor) -> None:
        """Prepare a new cursor."""

    def started(self, assignment: Assignment) -> None:
        """Clean up after fetching of partitions has started."""

    def as_seen(self) -> str:
        """Return the group as this member sees it, as the end of a sentence about what it reads."""
        raise NotImplementedError


class Executor:
    """Executor of the actions of one member, one at a time.  closing(): True while the member shuts down."""

    def __init__(
        self, group: GroupActions, owned: OwnedPartitions, config: ConsumerConfig, closing: Callable[[], bool]
    ) -> None:
        self.group = group
        self.owned = owned
        self._config = config
        self._closing = closing
        self._located: dict[TopicPartition, Offset] = {}
        self._do: dict[Do, Callable[[Action], Report]] = {
            Do.STOP: self._stop,
            Do.DRAIN: self._drain,
            Do.COMMIT: self._commit,
            Do.LOCATE: self._locate,
            Do.START: self._start,
            Do.WAIT: self._wait,
            **group.own,
        }

    def do(self, action: Action) -> Report:
        """Run an action, and return its report."""
        try:
            return self._do[action.do](action)
        except (ConsumerError, WireError) as e:
            return Failed(action.turn, str(e))

    def drop(self, assignment: Assignment) -> None:
        """Revoke partitions at once."""
        self.group.dropping(assignment)
        self.owned.drop(assignment)

    def _stop(self, action: Action) -> Report:
        self.owned.stop(action.assignment)
        return Finished(action.turn)

    def _drain(self, action: Action) -> Report:
        self.owned.drain(action.assignment, self._closing())  # a JVM member in ZooKeeper waits about 6 s for them
        return Finished(action.turn)

    def _commit(self, action: Action) -> Report:
        self.group.committing(action.assignment)
        failed = self.owned.commit(action.assignment)
        self.group.committed(action.assignment)
        return Failed(action.turn, failed) if failed else Finished(action.turn)

    def _locate(self, action: Action) -> Report:
        """Read the committed offsets, now that only this member moves them."""
        self._located = self.group.located(self.owned.offsets(action.assignment))
        return Located(action.turn, frozenset(self._located))

    def _start(self, action: Action) -> Report:
        self.owned.start(
            action.assignment,
            self._located,
            ours=self.group.claimed(),
            reset_of=self._reset_of,
            prepare=self.group.prepare,
        )
        self.group.started(action.assignment)
        return Finished(action.turn)

    def _reset_of(self, tp: TopicPartition) -> str:
        """Return the reset policy.  Partitions that appear while we run are read from the start: the user did not
        choose to skip them."""
        return "smallest" if self.group.history.appeared(tp) else self._config.auto_offset_reset

    def _wait(self, action: Action) -> Report:
        self.group.freed.wait(timeout=action.wait_ms / 1000)
        self.group.freed.clear()  # it ends one wait only: the next round may fail before it claims, and must wait
        return Finished(action.turn)
