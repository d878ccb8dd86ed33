"""Groups of the sources that follow the mirror (`mirror.groups`): a task for each source, with its own sessions.

A round runs every groups.interval.ms while the source is joined.  An error of either cluster ends the round, is logged
once, and shown as the reason why groups do not follow; the next round connects again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from groundwork.tasks import TaskGroup, connect, now, sleep
from groundwork.zksecurity import ZooKeeper
from groupadmin.follow.follower import Follower
from groupadmin.snapshot.cluster import AdminClient
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError, WireError
from kafkawire.net.links import Links
from mirrormaker.offsetmap.maps import OffsetMaps
from mirrormaker.options import MirrorOptions
from mirrormaker.report import GroupReport
from mirrormaker.selection import groups_filter, target_group
from mirrormaker.source import Source
from mirrormaker.target import Target
from zkconsumer.errors import ConsumerError
from zkconsumer.session.lease import Lease
from zkconsumer.session.zksession import ZkSession

log = logging.getLogger(__name__)
SESSION_MS = 10_000
FAILURES = (ConsumerError, WireError, LocalError)
MAX_SAID = 1000  # sentences about data that could not be read, each logged once


class Following:
    """Groups of all sources that follow into the target; those of the mirror itself never do."""

    def __init__(
        self, mirror: MirrorOptions, target: Target, maps: OffsetMaps, tasks: TaskGroup, sources: Sequence[Source]
    ) -> None:
        self._mirror = mirror
        self._target = target
        self._maps = maps
        self._tasks = tasks
        self._own = {source.options.group_id for source in sources}
        self._selects = groups_filter(mirror.groups)
        self._followers: dict[str, Follower] = {}
        self._trouble: dict[str, str] = {}  # by source
        self._said: set[str] = set()

    def begin(self, source: Source) -> None:
        """Follow the groups of a source that has joined."""
        self._tasks.spawn(f"groups-{source.name}", self._run, source)

    def rows(self) -> tuple[GroupReport, ...]:
        """Return how each group follows, as of the last round."""
        return tuple(
            GroupReport(
                source=source,
                group=row.group,
                target_group=row.target_group,
                state=row.state,
                reason=row.reason,
                partitions=row.partitions,
                repeats=row.repeats,
                missing=row.missing,
                translated_at_ms=row.at_ms,
            )
            for source, follower in sorted(self._followers.items())
            for row in follower.rows()
        )

    def trouble(self, source: str) -> str:
        """Return why the last round of a source failed, or ""."""
        return self._trouble.get(source, "")

    def _run(self, source: Source) -> None:
        every_s = self._mirror.groups_interval_ms / 1000
        due = now() + min(every_s, 1.0)
        while True:
            sleep(max(0.0, due - now()))
            due = now() + every_s
            try:
                with self._clients(source) as (origin, target):
                    follower = self._followers[source.name] = self._follower(source, origin, target)
                    while True:
                        follower.round()
                        self._recovered(source.name)
                        sleep(max(0.0, due - now()))
                        due = max(due + every_s, now())
            except FAILURES as why:
                self._failed(source.name, str(why))

    def _failed(self, source: str, why: str) -> None:
        if not self._trouble.get(source):
            extra = {"event": "groups", "source": source}
            log.warning("source %s: groups do not follow: %s; trying again", source, why, extra=extra)
        self._trouble[source] = why

    def _recovered(self, source: str) -> None:
        if self._trouble.pop(source, ""):
            log.info("source %s: groups follow again", source, extra={"event": "groups", "source": source})

    def _follower(self, source: Source, origin: AdminClient, target: AdminClient) -> Follower:
        mirror = self._mirror
        return Follower(
            source.name,
            origin,
            target,
            maps=self._maps.reader(source, self._target.client(target.links)),
            selects=lambda group: group not in self._own and self._selects(group),
            target_group=lambda group: target_group(group, mirror.groups_rename, mirror.groups_prefix),
            stores=mirror.group_stores(self._target.options),
            owned=lambda: {row.tp for row in source.partitions()},
        )

    @contextmanager
    def _clients(self, source: Source) -> Iterator[tuple[AdminClient, AdminClient]]:
        """Open clients of both clusters, which are closed after the block."""
        options, target = source.options, self._target
        asking = source.versions.connect(options.kafka_security.connect(connect))
        opened = _Opened()
        try:
            yield (
                opened.client(
                    Links(options.client_id or "mirrormaker", asking, options.socket_timeout_ms),
                    source.dialect,
                    ZooKeeper(options.zookeeper_connect, options.security),
                    options.brokers if options.coordinated else (),
                    tell=partial(self._tell, f"source {source.name}"),
                ),
                opened.client(
                    target.links(),
                    target.dialect,
                    ZooKeeper(target.options.zookeeper, target.options.security),
                    target.options.brokers,
                    tell=partial(self._tell, "target"),
                ),
            )
        finally:
            opened.close()

    def _tell(self, of: str, sentence: str) -> None:
        text = f"{of}: {sentence}"
        if text not in self._said and len(self._said) < MAX_SAID:
            self._said.add(text)
            log.warning("groups: %s", text, extra={"event": "groups", "key": text})


class _Opened:
    """Connections of one following."""

    def __init__(self) -> None:
        self._tasks = TaskGroup()
        self._links: list[Links] = []
        self._sessions: list[ZkSession] = []

    def client(
        self,
        links: Links,
        dialect: Dialect,
        zookeeper: ZooKeeper,
        brokers: Sequence[tuple[str, int]],
        *,
        tell: Callable[[str], object],
    ) -> AdminClient:
        """Open a client; zookeeper.connect "": without a session.  Raises Unreachable, ChrootMissing, ConsumerError."""
        self._links.append(links)
        session = None
        if zookeeper.connect:
            session = ZkSession(
                zookeeper.connect,
                session_timeout_ms=SESSION_MS,
                connection_timeout_ms=SESSION_MS,
                tasks=self._tasks,
                lease=Lease(),
                access=zookeeper.security,
            )
            self._sessions.append(session)
            session.start()
        return AdminClient(session, links, dialect, bootstrap=brokers, tell=tell)

    def close(self) -> None:
        self._tasks.stop(1.0)
        for session in self._sessions:
            session.close()
        for links in self._links:
            links.close()
