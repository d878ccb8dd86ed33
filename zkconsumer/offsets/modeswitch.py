"""Offset mode of a running member: the checks at its start, its mode node, and the switch to another mode.

    start    checks the migration marker, the modes of the other members, and offsets that Kafka lacks; then the mode
             node is published
    running  the node follows the commits; members that must not run together are reported
    switch   one step of zkconsumer.offsets.modes, between two commits:

        commit to both (leaving dual), compare all partitions of the group -> publish the new mode, read the others'
        -> change the store -> commit everything in the new mode; if any step fails, the mode is as before

If two members leave dual in opposite directions at once, each publishes before it reads: at least one goes back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from groundwork.tasks import Event, Lock, now, sleep
from kafkawire.cluster.zookeeper import TOPICS, read_partitions
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError, RemoteError
from kafkawire.model import TopicPartition
from kafkawire.protocol import apis
from kafkawire.znodes.group import Registration
from zkconsumer.errors import ConsumerError, ZooKeeperAway
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.filters import LeftOut, streams_by_topic
from zkconsumer.offsets.commits import Commits, Committable
from zkconsumer.offsets.group import NOT_COPIED, GroupOffsets
from zkconsumer.offsets.migrationmarker import MarkerUnclear, marker_path, read_marker
from zkconsumer.offsets.modenode import ModeNode
from zkconsumer.offsets.modes import Mode, ModeRefused, check_beside, check_step
from zkconsumer.offsets.store import NONE, FormerOffset
from zkconsumer.session.nodes import list_children
from zkconsumer.session.zksession import ZkSession

log = logging.getLogger(__name__)

CHECK_S = 30.0  # interval between checks of the other members
PUT_S = 1.0  # interval between writes of the node
COMPARE_TRIES, COMPARE_S = 4, 0.3  # another member may be between its two commits


class NotMigrated(ConsumerError):
    """Raised when the mode is kafka, and ZooKeeper has offsets that Kafka lacks."""


class LeftZooKeeper(ConsumerError):
    """Raised when a migration took the group off ZooKeeper: the offsets there are old."""


class NotSwitched(ConsumerError):
    """Raised when the switch failed and the mode is as before; the sentence says why."""


class OffsetMode:
    """Offset mode of one member, in the event loop.

    begin() before it registers; run() in a greenlet; switch(mode) at any time after that.
    """

    def __init__(
        self,
        *,
        session: ZkSession,
        dialect: Dialect,
        group: str,
        consumer_id: str,
        registration: Registration,
        exclude_internal: bool,
        store: GroupOffsets,
        commits: Commits,
        cursors: Mapping[TopicPartition, Committable],
        on_event: OnEvent,
        changed: Event,
        auto_commit: bool = True,
    ) -> None:
        """changed: set after each commit, and when a session begins.

        auto_commit: a switch commits what is done; otherwise it repeats the program's own commits.
        """
        self._session = session
        self._dialect = dialect
        self._group = group
        self._registration = registration
        self._exclude_internal = exclude_internal
        self._store = store
        self._commits = commits
        self._cursors = cursors
        self._on_event = on_event
        self._changed = changed
        self._auto_commit = auto_commit
        self._node = ModeNode(session, group, consumer_id)
        self._published: Mode = store.mode  # during a switch the new mode is published before it is used
        self._put_lock = Lock()
        self._reported: set[str] = set()

    # start --------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Check whether the member may start in its mode.  Raises ModeRefused, LeftZooKeeper, NotMigrated and
        ConsumerError."""
        mode = self._store.mode
        self._must_be_able(mode)
        self._must_not_be_left(mode)
        try:
            self._publish()
        except ZooKeeperAway:
            raise
        except ConsumerError as e:  # the group's node may be closed to us, while the nodes below it are not
            self._report_once([f"this member cannot publish its offset mode: {e}"])
        self._must_fit(mode)
        if mode == "kafka" and not self._store.copy:
            self._must_be_migrated()

    def _must_be_able(self, mode: Mode) -> None:
        if mode == "zookeeper":
            return
        try:
            self._dialect.speaks(apis.OFFSET_COMMIT.key, "kafka")
        except LocalError as e:
            raise ConsumerError(f"{e}; with this release keep offsets.storage=zookeeper") from e

    def _must_not_be_left(self, mode: Mode) -> None:
        if mode != "zookeeper":
            return
        path = marker_path(self._group)
        node = self._session.read([path])[path]
        if node is None:
            return
        try:
            marker = read_marker(self._group, node.data)
        except MarkerUnclear as e:
            raise LeftZooKeeper(f"{e}; until then this member does not start from ZooKeeper alone") from e
        if marker.left_zookeeper:
            raise LeftZooKeeper(
                f"group {self._group} was taken off ZooKeeper by migration {marker.plan} (phase {marker.phase}), so the"
                " offsets there are old: use offsets.storage=kafka, or roll the migration back first"
                " (`zkconsumer migrate rollback`)"
            )

    def _must_fit(self, mode: Mode) -> None:
        others, unclear = self._node.others()
        self._report_once(unclear)
        check_beside(mode, {name: member.mode for name, member in others.items()})

    def _must_be_migrated(self) -> None:
        try:
            kafka = self._store.kafka.read(self._group, self._committed())
            nothing = [tp for tp, at in kafka.items() if at is NONE]
            zookeeper = self._store.zookeeper.read(self._group, nothing)
        except ConsumerError as e:  # each partition is checked once more when it is claimed
            self._on_event(ConsumerEvent("offset", f"it is not known yet whether all offsets are in Kafka: {e}"))
            return
        left = sorted(tp for tp, at in zookeeper.items() if at is not NONE and not isinstance(at, FormerOffset))
        if left:
            raise NotMigrated(
                f"group {self._group}: ZooKeeper has offsets of {len(left)} partitions and Kafka has none of them, the"
                f" first {left[0]}: {NOT_COPIED}"
            )

    def _committed(self) -> list[TopicPartition]:
        """Return the partitions of this member's topics that the group has ever committed to ZooKeeper."""
        return committed_partitions(
            self._session, self._dialect, self._group, self._registration, self._exclude_internal
        )

    def _all(self) -> list[TopicPartition]:
        """Return all partitions of this member's topics.  Only Kafka may have some: JVM members in dual do not write
        unmoved offsets to ZooKeeper."""
        return all_partitions(self._session, self._dialect, self._registration, self._exclude_internal)

    def subscribe(self, registration: Registration) -> None:
        """Record that this member reads other topics now."""
        self._registration = registration

    # running ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Keep the node up to date, and check the others regularly."""
        check_at = now()
        while True:
            self._changed.wait(timeout=CHECK_S)
            self._changed.clear()
            try:
                self._publish()
                if now() >= check_at:
                    check_at = now() + CHECK_S
                    self._check_others()
            except ConsumerError as e:  # reported at the start, or ZooKeeper is away: retried when it is back
                log.debug("the mode node: %s", e)
            sleep(PUT_S)

    def _publish(self) -> bool:
        """Publish the mode.  Return False while the node of our former session still exists."""
        with self._put_lock:
            return self._node.put(replace(self._store.published, mode=self._published))

    def _check_others(self) -> None:
        others, unclear = self._node.others()
        sentences = list(unclear)
        for name, member in others.items():
            try:
                check_beside(self._store.mode, {name: member.mode})
            except ModeRefused as e:
                sentences.append(f"group {self._group}: {e}")
        self._report_once(sentences)

    def _report_once(self, sentences: Iterable[str]) -> None:
        """Report sentences that were not reported last time; one that was absent once is reported again."""
        current = set(sentences)
        for sentence in sorted(current - self._reported):
            self._on_event(ConsumerEvent("offset", sentence))
        self._reported = current

    # switch -------------------------------------------------------------------------------------------------------

    def switch(self, mode: Mode) -> None:
        """Switch to another mode.  Raises ModeRefused, LeftZooKeeper and NotSwitched; then nothing has changed."""
        check_step(self._store.mode, mode)
        self._must_be_able(mode)
        self._must_not_be_left(mode)
        with self._commits.lock:
            before = self._store.mode
            check_step(before, mode)
            if before == mode:
                return
            try:
                self._switch(before, mode)
            except BaseException as e:
                self._store.mode = self._published = before
                self._changed.set()  # the node goes back, too
                if isinstance(e, ConsumerError) and not isinstance(e, ModeRefused | NotSwitched):
                    raise NotSwitched(f"{before} -> {mode}: {e}; offsets are kept as before, in {before}") from e
                raise
        self._changed.set()
        self._on_event(
            ConsumerEvent("mode", f"offsets of group {self._group}: {before} -> {mode}{self._without_mode(mode)}")
        )

    def _switch(self, before: Mode, mode: Mode) -> None:
        """Switch with the lock of the commits held."""
        if before == "dual":
            self._commit_all(before, mode, "before")
            self._must_be_complete(before, mode)
        self._published = mode
        if not self._publish():
            raise NotSwitched(
                f"{before} -> {mode}: the other members still see the mode of this one's session of before, until that"
                f" is over; try again in a moment; offsets are kept as before, in {before}"
            )
        self._must_fit(mode)
        self._store.mode = mode
        self._commit_all(before, mode, "after")

    def _commit_all(self, before: Mode, mode: Mode, when: str) -> None:
        cursors = [cursor for cursor in self._cursors.values() if not cursor.dropped]
        results = self._commits.commit_locked(cursors, again=not self._auto_commit)
        failed = [(tp, e) for tp, e in sorted(results.items()) if e is not None]
        if failed:
            tp, why = failed[0]
            raise NotSwitched(
                f"{before} -> {mode}: {len(failed)} of {len(results)} offsets could not be committed {when} it, the"
                f" first {tp}: {why}; offsets are kept as before, in {before}"
            )

    def _must_be_complete(self, before: Mode, mode: Mode) -> None:
        """Check every partition of the group, whichever member owns it."""
        left = sorted({*self._committed(), *self._cursors, *(self._all() if mode == "zookeeper" else ())})
        missing: dict[TopicPartition, str] = {}
        for _ in range(COMPARE_TRIES):
            missing = self._store.missing_offsets(self._group, left, mode)
            left = sorted(missing)
            if not left:
                return
            sleep(COMPARE_S)
        raise NotSwitched(
            f"{before} -> {mode}: {len(left)} partitions are not in both stores, the first {left[0]}:"
            f" {missing[left[0]]}; let every member commit in dual, or set them; offsets are kept as before, in"
            f" {before}"
        )

    def _without_mode(self, mode: Mode) -> str:
        """Return a clause about JVM members, whose mode is unknown."""
        if mode == "dual":
            return ""
        try:
            unknown = self._node.without_mode()
        except ConsumerError:
            return ""
        if not unknown:
            return ""
        wanted = "dual or kafka" if mode == "kafka" else "dual or zookeeper"
        return f"; {len(unknown)} members show no mode and have to be in {wanted}, the first {unknown[0]}"


def committed_partitions(
    session: ZkSession, dialect: Dialect, group: str, registration: Registration, exclude_internal: bool
) -> list[TopicPartition]:
    """Return partitions of existing topics that have an offset node, sorted.  A node with another name is left out.

    Raises ZooKeeperAway and ConsumerError.
    """
    znodes = dialect.znodes
    topics = set(session.children(TOPICS) or ())
    folder = znodes.offsets(group, "-").rpartition("/")[0]
    kept = topics.intersection(session.children(folder) or ())
    read = streams_by_topic(registration, topics, exclude_internal, LeftOut(log.debug))
    folders = {znodes.offsets(group, topic): topic for topic in sorted(kept.intersection(read))}
    found: list[TopicPartition] = []
    for path, names in list_children(session, folders).items():
        for name in names or ():
            try:
                found.append(TopicPartition(folders[path], dialect.partition(name)))
            except LocalError:
                continue
    return sorted(found)


def all_partitions(
    session: ZkSession, dialect: Dialect, registration: Registration, exclude_internal: bool
) -> list[TopicPartition]:
    """Return all partitions of the topics that the member reads, sorted: Kafka may hold an offset of any of them.

    Raises ZooKeeperAway and ConsumerError.
    """
    there = set(session.children(TOPICS) or ())
    topics = streams_by_topic(registration, there, exclude_internal, LeftOut(log.debug))
    try:
        found = session.ask("read partitions", read_partitions, dialect.znodes, sorted(topics))
    except RemoteError as e:
        raise ConsumerError(f"the partitions of the topics cannot be read: {e}") from e
    if unread := sorted(there.intersection(topics) - found.keys()):  # its node is invalid: Kafka may have offsets of it
        raise ConsumerError(f"the partitions of the topics cannot be read: topic {unread[0]}: see its node")
    return sorted(TopicPartition(topic, partition) for topic, ids in found.items() for partition in ids)
