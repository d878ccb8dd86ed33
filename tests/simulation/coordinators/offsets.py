"""Offsets of one group in the memory of its coordinator: committed ones, pending ones, and those of transactions.

broker-model-coordinators.md 2.5 and 2.6.
"""

from __future__ import annotations

from tests.simulation.coordinators.records import TopicPartition
from tests.simulation.coordinators.rules import Rules


class Commit:
    """A commit of one partition.  at: offset of its record in __consumer_offsets; -1: it is not appended yet."""

    __slots__ = ("at", "commit_ms", "expire_ms", "leader_epoch", "metadata", "offset")

    def __init__(
        self, offset: int, metadata: str, leader_epoch: int, commit_ms: int, expire_ms: int | None, at: int = -1
    ) -> None:
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.commit_ms = commit_ms
        self.expire_ms = expire_ms
        self.at = at


Commits = dict[TopicPartition, Commit]


class GroupOffsets:
    """pending: appended, and not acknowledged yet.  transactional: by producer id, until its transaction ends."""

    __slots__ = ("committed", "pending", "transactional")

    def __init__(self) -> None:
        self.committed: Commits = {}
        self.pending: Commits = {}
        self.transactional: dict[int, Commits] = {}

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending or self.transactional)

    def unstable(self, tp: TopicPartition, *, plain: bool = True) -> bool:
        """Whether a commit of the partition is pending (OffsetFetch with require_stable)."""
        return (plain and tp in self.pending) or any(tp in commits for commits in self.transactional.values())

    # plain commits --------------------------------------------------------------------------------------------------

    def begin(self, tp: TopicPartition, commit: Commit) -> None:
        self.pending[tp] = commit

    def acknowledged(self, rules: Rules, tp: TopicPartition, commit: Commit) -> None:
        """Which of two commits in flight stays is a rule of the release (2.5)."""
        kept = self.committed.get(tp)
        if rules.log_order_decides:
            if kept is None or kept.at < commit.at:
                self.committed[tp] = commit
        elif not rules.pending_decides or tp in self.pending:
            self.committed[tp] = commit
        self.failed(tp, commit)

    def failed(self, tp: TopicPartition, commit: Commit) -> None:
        if self.pending.get(tp) is commit:
            del self.pending[tp]

    # commits of transactions ----------------------------------------------------------------------------------------

    def begin_transactional(self, producer_id: int, tp: TopicPartition, commit: Commit) -> None:
        self.transactional.setdefault(producer_id, {})[tp] = commit

    def failed_transactional(self, producer_id: int, tp: TopicPartition, commit: Commit) -> None:
        commits = self.transactional.get(producer_id, {})
        if commits.get(tp) is commit:
            del commits[tp]
            if not commits:
                del self.transactional[producer_id]

    def end(self, producer_id: int, committed: bool) -> None:
        """The end of a transaction has come: all that is pending for its producer id is visible, or dropped.

        A plain commit that was written behind it stays.
        """
        commits = self.transactional.pop(producer_id, {})
        if committed:
            for tp, commit in commits.items():
                kept = self.committed.get(tp)
                if commit.at >= 0 and (kept is None or kept.at < commit.at):
                    self.committed[tp] = commit

    def remove(self, tp: TopicPartition) -> Commit | None:
        """A tombstone: of the offset, and of what transactions have pending for it (2.6)."""
        self.pending.pop(tp, None)
        for producer_id, commits in list(self.transactional.items()):
            if commits.pop(tp, None) is not None and not commits:
                del self.transactional[producer_id]
        return self.committed.pop(tp, None)
