"""SimBroker: one broker's process: its replicas, its own copy of the metadata, its connections.

It can be killed (what was written stays on disk: nothing is flushed, and nothing is lost, 2.6), frozen (SIGSTOP: what
arrives or comes due waits) and cut off from the controller and the other brokers while clients still reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kafkawire.protocol.api import Api
from tests.simulation.brokers.fetchers import Fetcher
from tests.simulation.brokers.log import Log
from tests.simulation.brokers.metadata import Address, MetadataCache
from tests.simulation.brokers.produce import append_rows
from tests.simulation.brokers.releases import takes
from tests.simulation.brokers.replica import LeaderAndIsr, Replica, Tp
from tests.simulation.brokers.serving import Connection, Wire

if TYPE_CHECKING:
    from tests.simulation.brokers.cluster import SimCluster

UNKNOWN, NOT_LEADER = 3, 6


class SimBroker:
    def __init__(self, cluster: SimCluster, id: int) -> None:
        self.cluster = cluster
        self.id = id
        self.rules = cluster.rules
        self.settings = cluster.settings
        self.up = False
        self.frozen = False
        self.isolated = False
        self.fetches_held = False  # its followers' fetches are not sent
        self.life = 0  # counts starts
        self.requests = 0
        self.replicas: dict[Tp, Replica] = {}
        self.disk: dict[Tp, Log] = {}
        self.cache = MetadataCache()
        self.connections: dict[Connection, None] = {}
        self.on_leadership: list[Callable[[Tp, bool, int], object]] = []
        self.on_deleted: list[Callable[[str], object]] = []  # it has heard that a topic is deleted
        self._fetchers: dict[int, Fetcher] = {}
        self._backlog: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def __repr__(self) -> str:
        return f"<SimBroker {self.id} {'frozen' if self.frozen else 'up' if self.up else 'down'}>"

    # ---- the process -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process: logs as they are on disk, no role, an empty cache of metadata."""
        self.up, self.frozen = True, False
        self.life += 1
        self.cache = MetadataCache()
        settings, rng = self.settings, self.cluster.rng
        self._every(settings.hw_checkpoint_s, self._checkpoint)
        self._every(settings.lag_time_s * self.rules.isr_check_share, self._shrink)
        self._every(settings.retention_check_s, self._retain, first_s=min(30.0, settings.retention_check_s))
        if settings.cleans:
            self._every(settings.clean_check_s, self._clean)
        if self.rules.idempotent:
            self._every(600.0 + rng.random(), self._expire)

    def stop_at_once(self) -> None:
        """The process is gone (SIGKILL): connections break, logs stay."""
        self.up = self.frozen = False
        self.life += 1
        self._backlog.clear()
        self._fetchers.clear()
        for replica in self.replicas.values():
            log = replica.log
            log.hw = min(log.hw_on_disk, log.end)
            self.disk[replica.tp] = log
        led = [replica for replica in self.replicas.values() if replica.leads]
        self.replicas = {}
        for connection in list(self.connections):
            connection.close()
        for replica in led:
            self._tell(replica.tp, False, replica.epoch)

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        """Go on: what has come due or arrived meanwhile is done now, clients' requests first or last."""
        if not self.frozen:
            return
        self.frozen = False
        clients_first = self.cluster.rng.random() < 0.5
        if clients_first:
            self._read_all()
        backlog, self._backlog = self._backlog, []
        for fn, args in backlog:
            self.run(fn, *args)
        self._read_all()

    def _read_all(self) -> None:
        for connection in list(self.connections):
            connection.read()

    def run(self, fn: Callable[..., object], *args: Any) -> None:
        """Call fn(*args) in this process: now, once it is thawed, or never if it is dead."""
        if self.frozen:
            self._backlog.append((fn, args))
        elif self.up:
            fn(*args)

    def after(self, seconds: float, fn: Callable[..., object], *args: Any) -> None:
        self.cluster.timeline.after(seconds, self._due, self.life, fn, args)

    def _due(self, life: int, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        if life == self.life:
            self.run(fn, *args)

    def _every(self, seconds: float, fn: Callable[[], object], first_s: float | None = None) -> None:
        def again() -> None:
            fn()
            self.after(seconds, again)

        self.after(seconds * self.cluster.rng.random() if first_s is None else first_s, again)

    # ---- clients -----------------------------------------------------------------------------------------------------

    def accept(self, wire: Wire) -> Connection:
        connection = Connection(self, wire)
        self.connections[connection] = None
        return connection

    def api(self, key: int, version: int) -> tuple[Api, int] | None:
        """The table of a request and its version; None: this release does not take it."""
        table = self.cluster.apis.get(key)
        if table is None or key not in self.cluster.handlers:
            return None
        if not self.rules.looks_at_versions and key < 4:
            return table, 0
        return (table, version) if takes(self.rules, key, version, table.newest) else None

    def ranges_of(self, *keys: int) -> list[tuple[int, int, int]]:
        """(key, lowest, highest) of these apis, or of all that are served, as ApiVersions tells them."""
        rules = self.rules
        named = keys or tuple(key for key in rules.highest if key in self.cluster.handlers)
        return [(key, rules.lowest.get(key, 0), rules.highest[key]) for key in sorted(named)]

    # ---- roles -------------------------------------------------------------------------------------------------------

    def lead_and_follow(self, said: dict[Tp, LeaderAndIsr], live: Mapping[int, Address]) -> None:
        """The controller's LeaderAndIsr, and the brokers that live in its eyes (RM.becomeLeaderOrFollower)."""
        for tp, one in said.items():
            if self.id not in one.replicas:
                continue
            replica = self.replicas.get(tp)
            if replica is None:
                replica = self.replicas[tp] = Replica(self, tp, self._log(tp))
            elif one.epoch <= replica.epoch:
                continue
            if one.leader == self.id:
                self._stop_fetching(tp)
                replica.lead(one)
                self._tell(tp, True, one.epoch)
            elif one.leader in live or self.rules.kraft:
                led = replica.leads
                if replica.follow(one):
                    self._stop_fetching(tp)
                    if led:
                        self._tell(tp, False, one.epoch)
                    if one.leader >= 0:
                        self._begin_fetching(replica)
            # without a live leader: it keeps its former role until one is named (2.3)

    def _log(self, tp: Tp) -> Log:
        """The log on disk; to 2.7 also that of a deleted topic of the same name (5.1)."""
        config, topic_id = self.cluster.config(tp[0]), self.cluster.controller.topic_id(tp[0])
        log = self.disk.pop(tp, None)
        if log is None or (self.rules.has_topic_ids and log.topic_id != topic_id):
            log = Log(self.rules, config, self.cluster.now_ms())
        log.config, log.topic_id = config, topic_id
        return log

    def _begin_fetching(self, replica: Replica) -> None:
        """Follow: cut to the own high watermark (to 0.10), or by the leader's epochs (0.11 and later)."""
        log, rules = replica.log, self.rules
        cut: int | None = None
        if not rules.truncates_by_epoch or log.latest_epoch < 0:
            log.truncate(log.hw)
        else:
            cut = log.latest_epoch
        assert replica.leader is not None
        fetcher = self._fetchers.get(replica.leader)
        if fetcher is None:
            fetcher = self._fetchers[replica.leader] = Fetcher(self, replica.leader)
        fetcher.add(replica.tp, cut)

    def hung_up(self, leader: int) -> None:
        """Another broker's process is gone, and the fetch that it had not answered with it."""
        if leader in self._fetchers:
            self._fetchers[leader].hung_up()

    def _stop_fetching(self, tp: Tp) -> None:
        for fetcher in self._fetchers.values():
            fetcher.partitions.pop(tp, None)

    def stop_replica(self, tp: Tp, delete: bool) -> None:
        """The controller's StopReplica: no fetching any more; delete: the log goes too (5.1)."""
        self._stop_fetching(tp)
        replica = self.replicas.get(tp)
        if delete:
            self.disk.pop(tp, None)
            if replica is not None:
                led = replica.leads
                replica.deleted()
                if led:
                    self._tell(tp, False, replica.epoch)

    def _tell(self, tp: Tp, leads: bool, epoch: int) -> None:
        for told in self.on_leadership:
            told(tp, leads, epoch)

    # ---- for coordinators --------------------------------------------------------------------------------------------

    def leads(self, tp: Tp) -> int | None:
        """The leader epoch of a partition that this broker leads in its own eyes."""
        replica = self.replicas.get(tp) if self.up else None
        return replica.epoch if replica is not None and replica.leads else None

    def append(
        self, tp: Tp, data: bytes, acks: int, timeout_ms: int, done: Callable[[int, int], object], version: int = 2
    ) -> None:
        """Append as a Produce request does, whatever the sequence; done(code, base offset), -1: nothing was stored."""
        version = 3 if len(data) > 16 and data[16] == 2 else version

        def write(replica: Replica) -> Any:
            return replica.append(data, acks, version, of_client=False)

        append_rows(self, [(tp, write)], acks, timeout_ms, lambda rows: done(rows[0].code, rows[0].base))

    def append_marker(
        self, tp: Tp, pid: int, pepoch: int, coordinator_epoch: int, commit: bool, done: Callable[[int], object],
        timeout_ms: int = 30_000,
    ) -> None:  # fmt: skip
        """Append the end of a transaction with acks -1; done(code): 47 and 52 for an older producer or coordinator."""

        def write(replica: Replica) -> Any:
            return replica.append_marker(pid, pepoch, coordinator_epoch, commit)

        append_rows(self, [(tp, write)], -1, timeout_ms, lambda rows: done(rows[0].code))

    def read(self, tp: Tp, offset: int) -> Iterator[tuple[int, bytes]]:
        """(base offset, bytes) of its own replica's entries from the one that holds this offset up to the log's end."""
        replica = self.replicas.get(tp)
        if replica is not None:
            for entry in replica.log.all_from(offset):
                yield entry.base, entry.data

    def cache_update(self, *said: Any) -> None:
        """The controller's UpdateMetadata."""
        for topic in self.cache.update(*said):
            for told in self.on_deleted:
                told(topic)

    def role_code(self, tp: Tp) -> int:
        """Why a request for a partition's leader is refused here: 3, 6, or 0 (1.1, rows 6 and 7)."""
        replica = self.replicas.get(tp)
        if replica is None:
            return NOT_LEADER if self.rules.known_elsewhere_is_6 and self.cache.has(tp) else UNKNOWN
        return 0 if replica.leads else NOT_LEADER

    # ---- what comes round --------------------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        for replica in self.replicas.values():
            replica.log.hw_on_disk = replica.log.hw

    def _shrink(self) -> None:
        for replica in list(self.replicas.values()):
            if replica.leads:
                replica.shrink()

    def _retain(self) -> None:
        now_ms = self.cluster.now_ms()
        for replica in list(self.replicas.values()):
            replica.log.retain(now_ms)

    def _clean(self) -> None:
        for replica in list(self.replicas.values()):
            if replica.log.config.compacts:
                replica.log.clean(self.cluster.now_ms())

    def _expire(self) -> None:
        for replica in self.replicas.values():
            replica.log.producers.expire(self.cluster.now_ms(), self.settings.producer_expiry_ms)
